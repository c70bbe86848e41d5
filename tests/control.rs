//! The control plane: what is stored, who waits for whom, what a session keeps, and what a restart finds.
#![cfg(test)]

mod support;

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
        Store::open(&url, objects, StoreSettings::default()).await.unwrap()
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
fn programs_of_a_session_run_one_after_the_other_and_only_so_many_wait() {
    let settings = ControlSettings { session_queue: 2, ..ControlSettings::default() };
    with_plane(settings, |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let (view, _) = plane.create_session(&me, NewSession::default(), None).await.unwrap();
        let id = view.session.id;
        let code = "import time, pathlib\np = pathlib.Path('busy')\nassert not p.exists()\np.touch()\ntime.sleep(.3)\np.unlink()";
        let all = (0..5).map(|_| plane.execute(&me, Some(&id), python(code), None));
        let all = futures_util::future::join_all(all).await;
        let busy = all.iter().filter(|done| matches!(done, Err(ControlError::Busy { .. }))).count();
        let good = all.iter().flatten().filter(|done| done.status == ExecutionStatus::Completed).count();
        assert_eq!((good, busy), (3, 2), "{all:?}");
        plane.end().await;
    });
}

#[test]
fn who_waits_for_a_session_takes_no_turn_from_others() {
    let settings = ControlSettings { session_queue: 2, max_running: 2, ..ControlSettings::default() };
    with_plane(settings, |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let (view, _) = plane.create_session(&me, NewSession::default(), None).await.unwrap();
        let id = view.session.id;
        let slow = || python("import time, sys\nprint('begun', flush=True)\ntime.sleep(30)");
        let first = plane.submit(&me, Some(&id), slow(), None).await.unwrap();
        wrote(&plane, &me, &first.id).await;
        let mut waiting = Vec::new();
        for _ in 0..2 {
            waiting.push(plane.submit(&me, Some(&id), python("print('waited')"), None).await.unwrap());
        }
        let full = plane.submit(&me, Some(&id), python("print(1)"), None).await;
        assert!(matches!(full, Err(ControlError::Busy { .. })), "{full:?}");
        // One runs and two wait for the same session: of two turns one is free.
        let free = plane.execute(&me, None, python("print('free')"), None);
        let free = tokio::time::timeout(PATIENCE, free).await.expect("a turn is free").unwrap();
        assert_eq!(free.status, ExecutionStatus::Completed);
        assert!(plane.cancel(&me, &first.id).await.unwrap());
        for accepted in waiting {
            let done = plane.wait(&me, &accepted.id).await.unwrap();
            assert_eq!(text(&done.record)["stdout"], "waited\n", "{:?}", done.record);
        }
        plane.end().await;
    });
}

#[test]
fn what_waits_does_not_begin_in_a_paused_session_and_others_have_its_turn() {
    let settings = ControlSettings { max_running: 1, ..ControlSettings::default() };
    with_plane(settings, |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let (view, _) = plane.create_session(&me, NewSession::default(), None).await.unwrap();
        let id = view.session.id;
        let slow = "import time\nprint('begun', flush=True)\ntime.sleep(.5)\nprint('end')";
        let first = plane.submit(&me, Some(&id), python(slow), None).await.unwrap();
        wrote(&plane, &me, &first.id).await;
        let second = plane.submit(&me, Some(&id), python("print('second')"), None).await.unwrap();
        let third = plane.submit(&me, Some(&id), python("print('third')"), None).await.unwrap();
        plane.pause_session(&me, &id).await.unwrap();
        // The only turn is the one of a program that stands still.
        let free = plane.execute(&me, None, python("print('free')"), None);
        let free = tokio::time::timeout(PATIENCE, free).await.expect("its turn is lent").unwrap();
        assert_eq!(free.status, ExecutionStatus::Completed);
        // The first one is cancelled while it stands still; the next one does not begin instead.
        assert!(plane.cancel(&me, &first.id).await.unwrap());
        let done = tokio::time::timeout(PATIENCE, plane.wait(&me, &first.id)).await.unwrap().unwrap();
        assert_eq!(text(&done.record)["status"], "cancelled");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let still = plane.execution(&me, &second.id).await.unwrap();
        assert!(matches!(still.progress, Progress::Unfinished { .. }), "{still:?}");
        assert!(plane.cancel(&me, &second.id).await.unwrap());
        let done = tokio::time::timeout(PATIENCE, plane.wait(&me, &second.id)).await.unwrap().unwrap();
        assert_eq!(text(&done.record)["status"], "cancelled");
        plane.resume_session(&me, &id).await.unwrap();
        let done = tokio::time::timeout(PATIENCE, plane.wait(&me, &third.id)).await.unwrap().unwrap();
        assert_eq!(text(&done.record)["stdout"], "third\n", "{:?}", done.record);
        plane.end().await;
    });
}

/// Waits until an execution has written something.
async fn wrote(plane: &ControlPlane, me: &Caller, id: &str) {
    let mut follow = plane.follow(me, id, 0).await.unwrap();
    while !follow.next().await.iter().any(|happening| matches!(happening.what, What::Stdout(_))) {}
}

#[test]
fn an_isolator_that_fails_is_left_alone_for_a_while_and_tried_again() {
    let settings = ControlSettings {
        retry_attempts: 2,
        retry_base: Duration::from_millis(1),
        breaker_failures: 4,
        breaker_rest: Duration::from_millis(400),
        ..ControlSettings::default()
    };
    with_plane(settings, |world| async move {
        let executor = world.folder.join("executor");
        let good = Sandboxd::caller().binary("sandbox-executor");
        std::os::unix::fs::symlink(&good, &executor).unwrap();
        let plane = world.start_with(executor.clone()).await;
        let me = caller("me");
        let run = || plane.execute(&me, None, sh("echo 1"), None);
        run().await.unwrap();
        std::fs::remove_file(&executor).unwrap();
        std::os::unix::fs::symlink("/bin/false", &executor).unwrap();
        for pid in host::descendants(std::process::id()) {
            let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
        }
        for _ in 0..2 {
            let failed = run().await;
            assert!(matches!(failed, Err(ControlError::Engine(EngineError::Broken(_)))), "{failed:?}");
        }
        // Each was tried twice.
        let (refused, session) = (run().await, plane.create_session(&me, NewSession::default(), None).await);
        assert!(matches!(refused, Err(ControlError::Busy { .. })), "{refused:?}");
        assert!(matches!(session, Err(ControlError::Busy { .. })), "{session:?}");
        assert!(plane.resting().is_some());
        std::fs::remove_file(&executor).unwrap();
        std::os::unix::fs::symlink(&good, &executor).unwrap();
        tokio::time::sleep(Duration::from_millis(450)).await;
        let done = run().await.unwrap();
        assert_eq!((done.status, plane.resting()), (ExecutionStatus::Completed, None));
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
fn a_look_at_every_session_gives_back_what_was_lost() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let mut ids = Vec::new();
        for _ in 0..2 {
            let (view, _) = plane.create_session(&me, NewSession::default(), None).await.unwrap();
            ids.push((view.session.id, view.session.sandbox_id.unwrap()));
        }
        assert_eq!(plane.check_sessions().await, Checked { healthy: 2, ..Checked::default() });
        for pid in host::descendants(std::process::id()) {
            // PID 1 of both; the others go with them.
            if host::status(pid, "Name").as_deref() == Some("sandbox-init") {
                let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
            }
        }
        let checked = plane.check_sessions().await;
        // Some may have been noticed to be gone before, and are given one when they are used.
        assert_eq!((checked.healthy, &checked.errors), (0, &Vec::new()), "{checked:?}");
        for (id, sandbox) in ids {
            let done = plane.execute(&me, Some(&id), python("print('again')"), None).await.unwrap();
            assert_eq!(text(&done.record)["stdout"], "again\n");
            let now = plane.session(&me, &id).await.unwrap().session.sandbox_id;
            assert!(now.is_some() && now.as_deref() != Some(&sandbox), "{now:?}");
        }
        plane.end().await;
    });
}

#[test]
fn a_node_says_how_it_is_doing_and_sessions_are_given_to_it() {
    let settings = ControlSettings { max_sessions: 2, ..ControlSettings::default() };
    with_plane(settings, |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        for _ in 0..2 {
            let (view, _) = plane.create_session(&me, NewSession::default(), None).await.unwrap();
            assert_eq!(view.session.node.as_deref(), Some("local"));
        }
        let full = plane.create_session(&me, NewSession::default(), None).await;
        assert!(matches!(full, Err(ControlError::Busy { .. })), "{full:?}");
        let nodes = plane.nodes().await.unwrap();
        let [node] = nodes.as_slice() else { panic!("{nodes:?}") };
        assert_eq!((node.id.as_str(), node.status, node.load.sessions), ("local", NodeStatus::Online, 2));
        assert_eq!(node.load.templates, [("python-basic".to_owned(), 2)].into());
        assert!(node.spec.memory_bytes > 0 && (0.0..=1.0).contains(&node.load.memory), "{node:?}");
        let stored = || async { world.store().await.nodes(None, 9).await.unwrap().items };
        let deadline = Instant::now() + PATIENCE;
        while stored().await.first().is_none_or(|node| node.status != NodeStatus::Online) {
            assert!(Instant::now() < deadline, "nobody was told of it");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        plane.end().await;
        assert_eq!(stored().await[0].status, NodeStatus::Offline);
    });
}

#[test]
fn a_paused_session_stands_still_and_its_clock_too() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let (view, _) = plane.create_session(&me, NewSession::default(), None).await.unwrap();
        let id = view.session.id;
        let mut program = python(
            "import time\nfor i in range(10):\n    print(i, flush=True)\n    time.sleep(.05)\nprint('end')",
        );
        program.limits = Wanted { timeout_ms: Some(2000), ..Wanted::default() };
        let accepted = plane.submit(&me, Some(&id), program, None).await.unwrap();
        let mut follow = plane.follow(&me, &accepted.id, 0).await.unwrap();
        while !follow.next().await.iter().any(|happening| matches!(happening.what, What::Stdout(_))) {}
        let paused = plane.pause_session(&me, &id).await.unwrap();
        assert_eq!(paused.session.status, SessionStatus::Paused);
        let refused = plane.execute(&me, Some(&id), python("print(1)"), None).await;
        assert!(matches!(refused, Err(ControlError::Conflict { .. })), "{refused:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
        let wrote =
            |seen: &[engine::control::Happening]| seen.iter().any(|h| matches!(h.what, What::Stdout(_)));
        let before = tokio::time::timeout(Duration::from_millis(1), follow.next()).await.unwrap_or_default();
        let after =
            tokio::time::timeout(Duration::from_millis(2500), follow.next()).await.unwrap_or_default();
        assert!(!wrote(&after), "it went on: {before:?} {after:?}");
        plane.resume_session(&me, &id).await.unwrap();
        let done = plane.wait(&me, &accepted.id).await.unwrap();
        assert_eq!(done.status, ExecutionStatus::Completed, "{:?}", done.record);
        assert!(text(&done.record)["stdout"].as_str().unwrap().ends_with("9\nend\n"));
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

#[test]
fn bounds_of_a_tenant_hold() {
    with_plane(ControlSettings { max_sessions: 3, ..ControlSettings::default() }, |world| async move {
        let plane = world.start().await;
        let few = Caller {
            tenant: "few".into(),
            bounds: Bounds { sessions: 2, concurrency: 1, queued: 1, cpu_seconds_per_hour: Some(1) },
        };
        let all = (0..4).map(|_| plane.create_session(&few, NewSession::default(), None));
        let all = futures_util::future::join_all(all).await;
        assert_eq!(all.iter().filter(|made| made.is_ok()).count(), 2);
        assert!(
            all.iter()
                .filter_map(|made| made.as_ref().err())
                .all(|e| matches!(e, ControlError::TooMany { .. }))
        );
        let other = caller("other");
        plane.create_session(&other, NewSession::default(), None).await.unwrap();
        let full = plane.create_session(&other, NewSession::default(), None).await;
        assert!(matches!(full, Err(ControlError::Busy { .. })));
        let sleep = python("import time; time.sleep(.3)");
        let all = (0..4).map(|_| plane.execute(&few, None, sleep.clone(), None));
        let all = futures_util::future::join_all(all).await;
        assert_eq!(all.iter().filter(|done| done.is_ok()).count(), 2);
        let burn =
            python("import time\nend = time.process_time() + 1.2\nwhile time.process_time() < end: pass");
        plane.execute(&few, None, burn, None).await.unwrap();
        let poor = plane.execute(&few, None, python("print(1)"), None).await;
        assert!(matches!(poor, Err(ControlError::TooMany { what: "CPU time", .. })), "{poor:?}");
        plane.end().await;
    });
}
