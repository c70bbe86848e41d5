//! The control plane: what is stored, who waits for whom, what a session keeps, and what a restart finds.
#![cfg(test)]

#[path = "control/dependencies.rs"]
mod dependencies;
#[path = "control/index.rs"]
mod index;
#[path = "control/names.rs"]
mod names;
mod support;
#[path = "control/templates.rs"]
mod templates;
#[path = "control/waiting.rs"]
mod waiting;

use engine::control::{
    Bounds, Caller, Checked, ControlError, ControlPlane, ControlSettings, Mode, NewSession, Program,
    SessionSpec, What,
};
use engine::limits::{Ceiling, Wanted};
use engine::storage::{
    DatabaseUrl, ExecutionStatus, NodeStatus, Objects, Progress, SessionFilter, SessionMode, SessionStatus,
    Store, StoreSettings,
};
use engine::{Engine, EngineError, Network, PoolSettings};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Sandboxd, alone, host};

const PATIENCE: Duration = Duration::from_secs(20);

/// A control plane on a state of its own, and what a test does with it. Nothing of it runs afterwards.
fn with_plane<F: Future<Output = ()>>(settings: ControlSettings, work: impl FnOnce(World) -> F) {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World { folder: folder.path().to_owned(), settings };
        work(world).await;
    });
    drop(runtime);
    let patience = Instant::now() + PATIENCE;
    while !host::descendants(std::process::id()).is_empty() {
        assert!(Instant::now() < patience, "left behind: {:?}", host::descendants(std::process::id()));
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct World {
    folder: PathBuf,
    settings: ControlSettings,
}

impl World {
    async fn start(&self) -> Arc<ControlPlane> {
        self.start_with(Sandboxd::caller().binary("sandbox-executor")).await
    }

    async fn start_with(&self, executor: PathBuf) -> Arc<ControlPlane> {
        let mut engine = Engine::new(executor, Ceiling::default());
        engine.keep_warm(PoolSettings { min: 0, ..PoolSettings::default() });
        ControlPlane::start(Arc::new(engine), Arc::new(self.store().await), self.settings.clone())
            .await
            .unwrap()
    }

    async fn store(&self) -> Store {
        let url: DatabaseUrl = format!("sqlite://{}/db", self.folder.display()).parse().unwrap();
        let objects = Objects::in_directory(&self.folder.join("objects")).unwrap();
        let settings = StoreSettings { events: true, ..StoreSettings::default() };
        Store::open(&url, objects, settings).await.unwrap()
    }

    fn objects(&self) -> Vec<PathBuf> {
        fn below(at: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
                match entry.path().is_dir() {
                    true => below(&entry.path(), found),
                    false => found.push(entry.path()),
                }
            }
        }
        let mut found = Vec::new();
        below(&self.folder.join("objects"), &mut found);
        found
    }
}

fn caller(tenant: &str) -> Caller {
    Caller { tenant: tenant.into(), bounds: Bounds::default() }
}

fn python(code: &str) -> Program {
    Program { language: "python".into(), code: code.into(), ..Program::default() }
}

fn sh(code: &str) -> Program {
    Program { language: "sh".into(), ..python(code) }
}

fn text(record: &engine::storage::Json) -> serde_json::Value {
    record.read().unwrap()
}

#[test]
fn a_result_is_stored_when_it_is_answered() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let done = plane.execute(&me, None, python("print(6 * 7)"), None).await.unwrap();
        let record = text(&done.record);
        assert_eq!((done.status, &record["stdout"]), (ExecutionStatus::Completed, &"42\n".into()));
        assert_eq!(record["execution_id"], done.id.as_str());
        assert_eq!(record["isolation"]["backend"], "native");
        let found = plane.execution(&me, &done.id).await.unwrap();
        let Progress::Finished { record: stored, .. } = &found.progress else { panic!("{found:?}") };
        assert_eq!(text(stored), record);
        assert_eq!(text(&found.submission.request)["code"], "print(6 * 7)");
        // Somebody else learns nothing of it.
        let other = plane.execution(&caller("other"), &done.id).await.unwrap_err();
        let unknown = plane.execution(&me, "exec_00000000000000000000000000000000").await.unwrap_err();
        assert_eq!(other, unknown);
        // Long output is answered whole and kept as an object.
        let long = plane.execute(&me, None, python("print('x' * 200_000)"), None).await.unwrap();
        assert_eq!(text(&long.record)["stdout"].as_str().unwrap().len(), 200_001);
        let found = plane.execution(&me, &long.id).await.unwrap();
        assert_eq!(plane.output(&found, "stdout").await.unwrap().len(), 200_001);
        plane.end().await;
    });
}

/// What is told of somebody, as soon as there is so much of it.
async fn told(plane: &ControlPlane, tenant: &str, count: usize) -> Vec<String> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let events = plane.store().events(Some(tenant), 0, 1000).await.unwrap();
        if events.len() >= count || Instant::now() > patience {
            let words = |event: &engine::storage::Event| {
                let body: serde_json::Value = event.event.body.read().unwrap();
                format!("{} {}", event.event.kind, body["status"].as_str().unwrap_or("-"))
            };
            return events.iter().map(words).collect();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn what_happens_is_told() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        plane.execute(&caller("one"), None, python("print('hunter2')"), None).await.unwrap();
        plane.execute(&caller("one"), None, python("raise SystemExit('hunter2')"), None).await.unwrap();
        let expected = ["execution.finished completed", "execution.finished failed"];
        assert_eq!(told(&plane, "one", 2).await, expected);
        let me = caller("two");
        let accepted = plane.submit(&me, None, python("print('hunter2')"), None).await.unwrap();
        plane.wait(&me, &accepted.id).await.unwrap();
        let expected =
            ["execution.submitted pending", "execution.started running", "execution.finished completed"];
        assert_eq!(told(&plane, "two", 3).await, expected);
        let me = caller("three");
        let new = NewSession { id: Some("s1".into()), ..NewSession::default() };
        plane.create_session(&me, new, None).await.unwrap();
        plane.pause_session(&me, "s1").await.unwrap();
        plane.resume_session(&me, "s1").await.unwrap();
        plane.execute(&me, Some("s1"), python("print('hunter2')"), None).await.unwrap();
        told(&plane, "three", 5).await;
        plane.purge_session(&me, "s1").await.unwrap();
        assert_eq!(
            told(&plane, "three", 7).await,
            [
                "session.created creating",
                "session.status ready",
                "session.status paused",
                "session.status ready",
                "execution.finished completed",
                "session.status terminated",
                "session.deleted -",
            ]
        );
        let all = plane.store().events(None, 0, 1000).await.unwrap();
        assert!(!format!("{all:?}").contains("hunter2"), "neither code nor output");
        plane.end().await;
        plane.store().close().await;
    });
}

#[test]
fn a_value_is_stored_with_its_result() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let echo = |event: Option<serde_json::Value>| Program {
            mode: Mode::Handler,
            event,
            context: serde_json::Map::from_iter([("function_name".into(), "f".into())]),
            ..python("def handler(event, context):\n    return [event, context.function_name]")
        };
        for (given, got) in
            [(None, json!({})), (Some(json!(null)), json!(null)), (Some(json!([0])), json!([0]))]
        {
            // Once waited for, once submitted.
            for key in [None, Some(got.to_string())] {
                let done = plane.execute(&me, None, echo(given.clone()), key.as_deref()).await.unwrap();
                let record = text(&done.record);
                assert_eq!(
                    (&record["return_value"], &record["return_value_set"]),
                    (&json!([got, "f"]), &true.into())
                );
                let found = plane.execution(&me, &done.id).await.unwrap();
                assert_eq!(text(&found.submission.request)["mode"], "handler");
            }
        }
        let evaluated = Program { mode: Mode::Evaluate, ..python("6 * 7") };
        let done = plane.execute(&me, None, evaluated.clone(), None).await.unwrap();
        assert_eq!(text(&done.record)["return_value"], 42);
        let (view, _) = plane.create_session(&me, NewSession::default(), None).await.unwrap();
        let done = plane.execute(&me, Some(&view.session.id), evaluated, None).await.unwrap();
        assert_eq!(text(&done.record)["return_value"], 42);
        let wrong = Program { event: Some(json!({})), ..python("1") };
        let refused = plane.execute(&me, None, wrong, None).await.unwrap_err();
        assert!(refused.to_string().contains("event"), "{refused}");
        let late = echo(Some(json!({"__timeout": 1})));
        let late = Program { code: "import time\ndef handler(event): time.sleep(20)".into(), ..late };
        let done = plane.execute(&me, None, late, None).await.unwrap();
        assert_eq!(done.status, ExecutionStatus::Timeout);
        plane.end().await;
    });
}

#[test]
fn a_key_stands_for_one_run() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let program = python("import uuid; print(uuid.uuid4())");
        let all = (0..8).map(|_| plane.execute(&me, None, program.clone(), Some("key")));
        let all = futures_util::future::join_all(all).await;
        let first = all[0].as_ref().unwrap();
        for done in &all {
            let done = done.as_ref().unwrap();
            assert_eq!((&done.id, text(&done.record)), (&first.id, text(&first.record)));
        }
        assert_eq!(all.iter().filter(|done| !done.as_ref().unwrap().replayed).count(), 1);
        let other = plane.execute(&me, None, python("print(2)"), Some("key")).await;
        assert_eq!(other.unwrap_err(), ControlError::KeyReused);
        plane.execute(&caller("other"), None, python("print(2)"), Some("key")).await.unwrap();
        plane.end().await;
        // Nor is it run again after a restart.
        let plane = world.start().await;
        let again = plane.execute(&me, None, program, Some("key")).await.unwrap();
        assert!(again.replayed && text(&again.record) == text(&first.record));
        plane.end().await;
    });
}

#[test]
fn what_is_submitted_can_be_followed_and_cancelled() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let code = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(.05)";
        let accepted = plane.submit(&me, None, python(code), None).await.unwrap();
        let mut follow = plane.follow(&me, &accepted.id, 0).await.unwrap();
        let mut all = Vec::new();
        loop {
            let more = follow.next().await;
            if more.is_empty() {
                break;
            }
            all.extend(more);
        }
        let numbers: Vec<u64> = all.iter().map(|happening| happening.sequence).collect();
        assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
        let out: Vec<u8> = all
            .iter()
            .flat_map(|happening| match &happening.what {
                What::Stdout(bytes) => bytes.to_vec(),
                _ => Vec::new(),
            })
            .collect();
        assert_eq!(out, b"0\n1\n2\n");
        assert!(matches!(all.last().unwrap().what, What::Finished(_)));
        // From the middle.
        let rest = plane.follow(&me, &accepted.id, all[2].sequence).await.unwrap().next().await;
        assert_eq!(rest, all[3..]);

        let endless = plane.submit(&me, None, python("while True: pass"), None).await.unwrap();
        let mut follow = plane.follow(&me, &endless.id, 0).await.unwrap();
        while !follow.next().await.iter().any(|happening| {
            matches!(happening.what, What::Started(_))
                || happening.what == What::Status(ExecutionStatus::Running)
        }) {}
        assert!(plane.cancel(&caller("other"), &endless.id).await.is_err());
        assert!(plane.cancel(&me, &endless.id).await.unwrap());
        let done = plane.wait(&me, &endless.id).await.unwrap();
        assert_eq!(
            (done.status, text(&done.record)["status"].clone()),
            (ExecutionStatus::Failed, "cancelled".into())
        );
        assert!(!plane.cancel(&me, &endless.id).await.unwrap());
        plane.end().await;
    });
}

#[test]
fn a_session_keeps_its_workspace_and_nothing_else() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let new = NewSession {
            id: Some("mine".into()),
            spec: SessionSpec {
                env: [("GREETING".to_owned(), "hello".to_owned())].into(),
                ..SessionSpec::default()
            },
            ..NewSession::default()
        };
        let (view, made) = plane.create_session(&me, new.clone(), None).await.unwrap();
        assert!(
            made && view.session.status == SessionStatus::Ready && view.session.template == "python-basic"
        );
        assert!(matches!(plane.create_session(&me, new.clone(), None).await, Err(ControlError::Store(_))));
        let run = |code: &'static str| {
            let (plane, me) = (plane.clone(), me.clone());
            async move { text(&plane.execute(&me, Some("mine"), python(code), None).await.unwrap().record) }
        };
        let first =
            run("import os\nopen('a.txt', 'w').write(os.environ['GREETING'])\nx = 1\nprint(__file__)").await;
        assert_eq!(first["stdout"], "/workspace/main.py\n", "{first}");
        assert_eq!(first["artifacts"].as_array().unwrap().len(), 1, "{first}");
        // The file stays, processes and variables do not, and what is not new is no artifact.
        let second =
            run("print(open('a.txt').read(), 'x' in globals())\nimport os\nprint(os.listdir('.'))").await;
        assert_eq!(
            second["stdout"],
            "hello False\n['main.py', 'a.txt']\n"
                .replace("['main.py', 'a.txt']", second["stdout"].as_str().unwrap().lines().nth(1).unwrap())
        );
        assert_eq!(second["artifacts"].as_array().unwrap().len(), 0, "{second}");
        let list = plane.list_files(&me, "mine", "", true, None, 100).await.unwrap();
        let names: Vec<&str> = list.entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(names, ["a.txt"], "the program's own file goes away with it");
        // A file of the user's with the usual name is not touched.
        let mut upload = plane.upload_file(&me, "mine", "/workspace/main.py", 0o644, 1 << 20).await.unwrap();
        upload.push(b"def helper(): return 'helped'").await.unwrap();
        assert_eq!(upload.finish().await.unwrap(), 29);
        let third = run("import main\nprint(main.helper())").await;
        assert_eq!(third["stdout"], "helped\n", "{third}");
        let kept = plane.open_file(&me, "mine", "main.py").await.unwrap();
        assert_eq!(kept.read(0).await.unwrap(), b"def helper(): return 'helped'");
        // Others do not see it.
        let other = plane.session(&caller("other"), "mine").await.unwrap_err();
        assert_eq!(other, plane.session(&me, "unknown").await.unwrap_err());
        let ended = plane.terminate_session(&me, "mine").await.unwrap();
        assert_eq!(ended.session.status, SessionStatus::Terminated);
        plane.terminate_session(&me, "mine").await.unwrap();
        let after = plane.execute(&me, Some("mine"), python("print(1)"), None).await;
        assert!(matches!(after, Err(ControlError::Conflict { .. })), "{after:?}");
        let history = plane.session_history(&me, "mine", None, 10).await.unwrap().items;
        let states: Vec<SessionStatus> = history.iter().map(|step| step.to).collect();
        assert_eq!(states, [SessionStatus::Creating, SessionStatus::Ready, SessionStatus::Terminated]);
        plane.purge_session(&me, "mine").await.unwrap();
        assert_eq!(plane.session(&me, "mine").await.unwrap_err(), other);
        assert_eq!(world.objects(), Vec::<PathBuf>::new());
        plane.end().await;
    });
}

#[test]
fn a_session_reaches_what_it_asked_for_and_may() {
    let host = |allow_host_network| ControlSettings { allow_host_network, ..ControlSettings::default() };
    let new = |network| {
        let spec = SessionSpec { network, ..SessionSpec::default() };
        NewSession { spec, ..NewSession::default() }
    };
    with_plane(host(false), |world| async move {
        let plane = world.start().await;
        let refused = plane.create_session(&caller("me"), new(Some(Network::Host)), None).await;
        let Err(ControlError::Engine(EngineError::Invalid { field, .. })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(field, "network");
        plane.end().await;
    });
    with_plane(host(true), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let code =
            format!("import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\nprint('reached')");
        for (network, reached) in [(Some(Network::Host), true), (Some(Network::None), false), (None, false)] {
            let (view, _) = plane.create_session(&me, new(network), None).await.unwrap();
            let done = plane.execute(&me, Some(&view.session.id), python(&code), None).await.unwrap();
            let record = text(&done.record);
            assert_eq!(record["stdout"] == "reached\n", reached, "{network:?}: {record}");
        }
        plane.end().await;
    });
}

#[test]
fn files_are_reached_while_a_program_runs_and_never_outside() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let (view, _) = plane.create_session(&me, NewSession::default(), None).await.unwrap();
        let id = view.session.id;
        let code = "import os, time\nos.symlink('/etc', 'link')\nos.mkfifo('pipe')\nopen('out', 'wb').write(bytes(range(256)) * 8192)\nprint('ready', flush=True)\nwhile not os.path.exists('go'): time.sleep(.01)\nprint(open('go').read())";
        let accepted = plane.submit(&me, Some(&id), python(code), None).await.unwrap();
        let mut follow = plane.follow(&me, &accepted.id, 0).await.unwrap();
        while !follow.next().await.iter().any(|happening| matches!(happening.what, What::Stdout(_))) {}
        // Larger than a piece.
        let file = plane.open_file(&me, &id, "out").await.unwrap();
        let mut content = Vec::new();
        loop {
            let piece = file.read(content.len() as u64).await.unwrap();
            if piece.is_empty() {
                break;
            }
            content.extend(piece);
        }
        assert_eq!(content, (0..=255).collect::<Vec<u8>>().repeat(8192));
        for path in ["link/passwd", "pipe", "link"] {
            assert!(plane.open_file(&me, &id, path).await.is_err(), "{path}");
        }
        for path in ["../etc/passwd", "/etc/passwd", "a/../../b", "a\0b", ""] {
            let refused = plane.open_file(&me, &id, path).await.unwrap_err();
            assert!(
                matches!(refused, ControlError::Engine(engine::EngineError::Invalid { .. })),
                "{path}: {refused}"
            );
        }
        assert!(plane.list_files(&me, &id, "link", false, None, 10).await.is_err());
        plane.make_directory(&me, &id, "d/e").await.unwrap();
        let mut upload = plane.upload_file(&me, &id, "d/e/go", 0o600, 10).await.unwrap();
        upload.push(b"on you go").await.unwrap();
        upload.finish().await.unwrap();
        plane.move_file(&me, &id, "d/e/go", "go", false).await.unwrap();
        let done = plane.wait(&me, &accepted.id).await.unwrap();
        assert_eq!(text(&done.record)["stdout"], "ready\non you go\n");
        assert!(plane.remove_file(&me, &id, "d", false).await.is_err());
        plane.remove_file(&me, &id, "d", true).await.unwrap();
        // More than fits leaves nothing behind.
        let mut upload = plane.upload_file(&me, &id, "big", 0o600, 10).await.unwrap();
        assert!(matches!(upload.push(&[0; 11]).await, Err(ControlError::TooLarge { .. })));
        drop(upload);
        let patience = Instant::now() + PATIENCE;
        loop {
            let list = plane.list_files(&me, &id, "/workspace", true, None, 2).await.unwrap();
            let rest = plane.list_files(&me, &id, "", true, list.next.as_deref(), 100).await.unwrap();
            let names: Vec<String> =
                list.entries.iter().chain(&rest.entries).map(|entry| entry.path.clone()).collect();
            if names == ["go", "link", "out", "pipe"] {
                break;
            }
            assert!(Instant::now() < patience, "{names:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        plane.end().await;
    });
}

#[test]
fn a_restart_finds_sessions_as_they_were_saved_and_runs_what_had_not_begun() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let new =
            NewSession { id: Some("kept".into()), agent_id: Some("agent".into()), ..NewSession::default() };
        plane.create_session(&me, new, None).await.unwrap();
        let one =
            NewSession { id: Some("once".into()), mode: SessionMode::Ephemeral, ..NewSession::default() };
        plane.create_session(&me, one, None).await.unwrap();
        let code = "import os\nos.makedirs('d/empty')\nopen('d/big', 'wb').write(os.urandom(1_500_000))\nopen('run.sh', 'w').write('echo hi')\nos.chmod('run.sh', 0o755)\nimport hashlib\nprint(hashlib.sha256(open('d/big', 'rb').read()).hexdigest())";
        let hash =
            text(&plane.execute(&me, Some("kept"), python(code), None).await.unwrap().record)["stdout"]
                .clone();
        // The agent gets it back.
        let asked = NewSession { agent_id: Some("agent".into()), ..NewSession::default() };
        let (back, made) = plane.create_session(&me, asked, None).await.unwrap();
        assert!(!made && back.session.id == "kept");
        plane.end().await;
        drop(plane);

        let plane = world.start().await;
        let states = plane.sessions(&me, SessionFilter::default(), None, 10).await.unwrap().items;
        let state = |id: &str| states.iter().find(|view| view.session.id == id).unwrap().session.status;
        assert_eq!((state("kept"), state("once")), (SessionStatus::Stopped, SessionStatus::Terminated));
        let code = "import os, hashlib, subprocess\nprint(hashlib.sha256(open('d/big', 'rb').read()).hexdigest())\nprint(os.path.isdir('d/empty'), subprocess.check_output('./run.sh', shell=True))";
        let again = text(&plane.execute(&me, Some("kept"), python(code), None).await.unwrap().record);
        assert_eq!(again["stdout"], format!("{}True b'hi\\n'\n", hash.as_str().unwrap()));
        assert_eq!(world.objects().len(), 1);
        plane.end().await;

        // As if it had been killed: rows say that things go on which do not.
        let store = world.store().await;
        let row = store.session("me", "kept").await.unwrap();
        store.move_session(&row, SessionStatus::Creating, 1, None).await.unwrap();
        let submission = |n: u32, code: &str| engine::storage::Submission {
            id: format!("exec_0000000000017000800000000000{n:04x}"),
            owner: "me".into(),
            session_id: None,
            language: "python".into(),
            created_at: 1,
            request: engine::storage::Json::of(&python(code)).unwrap(),
        };
        store.submit(&submission(1, "print('waited')"), None).await.unwrap();
        store.submit(&submission(2, "print('begun')"), None).await.unwrap();
        store.begin(&submission(2, "").id, "local", 1).await.unwrap();
        store.submit(&submission(3, "print('elsewhere')"), None).await.unwrap();
        store.begin(&submission(3, "").id, "another", 1).await.unwrap();
        store.close().await;
        let plane = world.start().await;
        let waited = plane.wait(&me, &submission(1, "").id).await.unwrap();
        assert_eq!(text(&waited.record)["stdout"], "waited\n");
        let begun = plane.wait(&me, &submission(2, "").id).await.unwrap();
        assert_eq!(text(&begun.record)["status"], "infra_error");
        let elsewhere = plane.execution(&me, &submission(3, "").id).await.unwrap();
        assert_eq!(elsewhere.status, ExecutionStatus::Running);
        assert_eq!(plane.session(&me, "kept").await.unwrap().session.status, SessionStatus::Failed);
        plane.end().await;
    });
}

#[test]
fn time_ends_sessions_and_a_dead_sandbox_is_noticed() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let idle = NewSession { id: Some("idle".into()), idle_ms: Some(100), ..NewSession::default() };
        plane.create_session(&me, idle, None).await.unwrap();
        let short = NewSession {
            id: Some("short".into()),
            lifetime_ms: Some(100),
            idle_ms: Some(-1),
            ..NewSession::default()
        };
        plane.create_session(&me, short, None).await.unwrap();
        let stays = NewSession {
            id: Some("stays".into()),
            idle_ms: Some(-1),
            lifetime_ms: Some(-1),
            ..NewSession::default()
        };
        plane.create_session(&me, stays, None).await.unwrap();
        assert_eq!(plane.load().sessions, 3);
        let patience = Instant::now() + PATIENCE;
        loop {
            let mut states = Vec::new();
            for id in ["idle", "short", "stays"] {
                states.push(plane.session(&me, id).await.unwrap().session.status);
            }
            if states == [SessionStatus::Terminated, SessionStatus::Terminated, SessionStatus::Ready] {
                break;
            }
            assert!(Instant::now() < patience, "{states:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Whatever ends a sandbox, its session says so.
        let spawner = host::descendants(std::process::id());
        for pid in spawner {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if name.trim() == "sandbox-init" {
                let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        while plane.session(&me, "stays").await.unwrap().session.status != SessionStatus::Failed {
            assert!(Instant::now() < patience, "nobody noticed");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // And gets another one when it is used again.
        let done = plane.execute(&me, Some("stays"), python("print(1)"), None).await.unwrap();
        assert_eq!(done.status, ExecutionStatus::Completed);
        plane.end().await;
    });
}
