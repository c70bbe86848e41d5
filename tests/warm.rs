//! The pool: programs that wait are taken once, replaced, never handed out dead, and cost nothing while they wait.
#![cfg(test)]

#[path = "warm/leavings.rs"]
mod leavings;
mod support;
#[path = "warm/templates.rs"]
mod templates;
#[path = "warm/tree.rs"]
mod tree;

use engine::limits::Ceiling;
use engine::{
    Engine, EngineError, Execution, PoolSettings, Request, ShelfReport, Start, Status, ZygoteScope,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::time::{Duration, Instant};
use support::{Sandboxd, alone, host};
use tokio::sync::mpsc;

/// What is kept here, unless a test says otherwise.
const FEW: PoolSettings = PoolSettings {
    min: 2,
    max: 4,
    template_max: 4,
    idle_timeout: Duration::from_secs(60),
    zygote_scope: ZygoteScope::Template,
    rehearsal: BTreeMap::new(),
};
/// How long anything may take that happens by itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// An engine that keeps programs waiting, and what a test does with it. Nothing of it is left afterwards.
fn with_pool<F: Future<Output = ()>>(settings: PoolSettings, work: impl FnOnce(std::rc::Rc<Engine>) -> F) {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut engine = Engine::new(Sandboxd::caller().binary("sandbox-executor"), Ceiling::default());
        engine.keep_warm(settings);
        tokio::task::LocalSet::new().run_until(work(std::rc::Rc::new(engine))).await;
    });
    drop(runtime);
    let patience = Instant::now() + PATIENCE;
    while !below_us().is_empty() {
        assert!(Instant::now() < patience, "left behind: {:?}", below_us());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Processes we have started, by name.
fn below_us() -> Vec<(u32, String)> {
    let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let pids = host::descendants(std::process::id()).into_iter();
    pids.map(|pid| (pid, name(pid).trim().to_owned())).filter(|(_, name)| !name.is_empty()).collect()
}

fn kill(pid: u32) {
    kill_process(as_pid(pid), Signal::KILL).unwrap();
}

fn as_pid(pid: u32) -> Pid {
    Pid::from_raw(pid as i32).unwrap()
}

async fn execute(engine: &Engine, request: &Request) -> Result<Execution, EngineError> {
    let (events, mut happening) = mpsc::channel(64);
    let work = async {
        let outcome = engine.execute(request, &events).await;
        drop(events);
        outcome
    };
    let (outcome, ()) = tokio::join!(work, async { while happening.recv().await.is_some() {} });
    outcome
}

async fn run(engine: &Engine, language: &str, code: &str) -> Execution {
    execute(engine, &Request::new(language, code)).await.unwrap()
}

fn text(bytes: &engine::Text) -> String {
    serde_json::to_value(bytes).unwrap().as_str().unwrap().to_owned()
}

/// Waits until as many programs wait as should.
async fn full(engine: &Engine) {
    let patience = Instant::now() + PATIENCE;
    while !engine.is_warm() {
        assert!(Instant::now() < patience, "the pool does not fill: {:?}", engine.pool());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn shelf(engine: &Engine, language: &str) -> ShelfReport {
    engine.pool().into_iter().find(|shelf| shelf.language.as_deref() == Some(language)).unwrap()
}

/// One language of each kind that waits: by an interpreter that was started, and by a copy of one that was. Its name
/// as a process, and a program that says a number and its own process id.
const WAITING: [(&str, &str, &str); 2] = [
    ("javascript", "node", "console.log(6 * 7, process.pid)"),
    ("python", "python3", "import os; print(6 * 7, os.getpid())"),
];

/// What a program has when nobody waits for it: a copy that is made for it, where that is quick.
fn has_missed(language: &str, start: Start) -> bool {
    match language {
        "python" => start == Start::Miss,
        _ => matches!(start, Start::Cold | Start::Ready),
    }
}

/// Interpreters whose copies wait.
fn loaded() -> HashSet<u32> {
    let outside = |(pid, name): &(u32, String)| name == "python3" && host::inner_pid(*pid) == Some(*pid);
    below_us().into_iter().filter(outside).map(|(pid, _)| pid).collect()
}

/// Programs that wait in sandboxes, as the host sees them; not who keeps their memory.
fn waiting(name: &str) -> Vec<u32> {
    let inside = |pid: &u32| host::inner_pid(*pid) == Some(2) && *pid != 2;
    below_us().into_iter().filter(|(_, who)| who == name).map(|(pid, _)| pid).filter(inside).collect()
}

#[test]
fn one_that_waits_is_taken_once_and_another_takes_its_place() {
    with_pool(FEW, |engine| async move {
        for (language, _, code) in WAITING {
            let first = run(&engine, language, code).await;
            assert!(first.status == Status::Success && has_missed(language, first.start), "{language}");
            for _ in 0..5 {
                full(&engine).await;
                let done = run(&engine, language, code).await;
                assert_eq!((done.status, done.start), (Status::Success, Start::Hit), "{language}");
                assert_eq!(text(&done.stdout), "42 2\n", "{language}");
                assert_eq!(done.isolation.backend, "native");
                assert!(done.isolation.seccomp_profile_sha256.is_some() && done.isolation.landlock_abi > 0);
            }
            let shelf = shelf(&engine, language);
            assert_eq!((shelf.hits, shelf.dead), (5, 0), "{shelf:?}");
        }
    });
}

#[test]
fn no_two_programs_meet() {
    with_pool(FEW, |engine| async move {
        for (language, ..) in WAITING {
            let leave = match language {
                "javascript" => {
                    "const fs = require('fs'); console.log(fs.readdirSync('.').concat(fs.readdirSync('/tmp')).join()); fs.writeFileSync('/tmp/left', ''); fs.writeFileSync('left', '')"
                }
                _ => {
                    "import os; print(','.join(os.listdir('.') + os.listdir('/tmp'))); open('/tmp/left', 'w'); open('left', 'w')"
                }
            };
            run(&engine, language, "").await;
            let main = if language == "javascript" { "main.js\n" } else { "main.py\n" };
            let mut users = HashSet::new();
            for _ in 0..4 {
                full(&engine).await;
                let done = run(&engine, language, leave).await;
                assert_eq!((done.start, text(&done.stdout).as_str()), (Start::Hit, main), "{language}");
                assert_eq!(
                    done.artifacts.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
                    ["left"]
                );
                users.insert(done.isolation.host_uid.unwrap());
            }
            if support::am_root() {
                assert!(users.len() > 1, "ids may come again, but not always the same");
            }
        }
    });
}

#[test]
fn the_dead_are_never_handed_out() {
    with_pool(FEW, |engine| async move {
        for (language, name, code) in WAITING {
            run(&engine, language, code).await;
            full(&engine).await;
            let waiting = waiting(name);
            assert!(waiting.len() >= FEW.min, "{waiting:?}");
            let seen: Vec<_> =
                waiting.iter().map(|pid| pidfd_open(as_pid(*pid), PidfdFlags::empty()).unwrap()).collect();
            waiting.iter().for_each(|pid| kill(*pid));
            // The last thread of each is gone then. Nobody need have waited for them.
            for ended in &seen {
                poll(&mut [PollFd::new(ended, PollFlags::IN)], None).unwrap();
            }
            for _ in 0..3 {
                let done = run(&engine, language, code).await;
                assert_eq!((done.status, text(&done.stdout).as_str()), (Status::Success, "42 2\n"));
            }
            full(&engine).await;
            assert_eq!(run(&engine, language, code).await.start, Start::Hit);
        }
    });
}

#[test]
fn programs_that_are_started_find_a_sandbox_that_waits() {
    with_pool(FEW, |engine| async move {
        let first = run(&engine, "bash", "echo $$").await;
        assert_eq!((first.status, first.start), (Status::Success, Start::Cold));
        for language in ["bash", "sh", "c"] {
            full(&engine).await;
            let code = if language == "c" {
                "#include <stdio.h>\n#include <unistd.h>\nint main() { printf(\"%d\\n\", getppid()); }"
            } else {
                "echo $PPID; touch left; exit 3"
            };
            let done = run(&engine, language, code).await;
            let wanted = if language == "c" { Status::Success } else { Status::Failed };
            assert_eq!((done.status, text(&done.stdout).as_str()), (wanted, "1\n"), "{language}");
            assert!(done.isolation.seccomp_profile_sha256.is_some() && done.metrics.memory_peak_bytes > 0);
            if language != "c" {
                assert_eq!((done.start, done.artifacts.len()), (Start::Ready, 1), "{language}");
            }
        }
    });
}

/// Kills by name, again and again, while requests come in: every one is answered, by its result or by saying that
/// our side broke.
fn survives(victims: &'static [&'static str], language: &'static str, code: &'static str) {
    with_pool(FEW, |engine| async move {
        run(&engine, language, code).await;
        full(&engine).await;
        let mut answers = Vec::new();
        for round in 0..8 {
            let asked: Vec<_> = (0..6)
                .map(|_| {
                    let engine = engine.clone();
                    tokio::task::spawn_local(async move {
                        tokio::time::timeout(PATIENCE, execute(&engine, &Request::new(language, code))).await
                    })
                })
                .collect();
            tokio::time::sleep(Duration::from_micros(300 * round)).await;
            for (pid, name) in below_us() {
                // It may have ended by itself.
                if victims.contains(&name.as_str()) && host::status(pid, "Name").is_some() {
                    let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
                }
            }
            for one in asked {
                answers.push(one.await.unwrap().expect("every request is answered"));
            }
        }
        let good = |answer: &Result<Execution, EngineError>| {
            answer.as_ref().is_ok_and(|done| done.status == Status::Success && text(&done.stdout) == "42 2\n")
        };
        for answer in &answers {
            let ours = match answer {
                // Whoever dies after it was told is what the kernel says, or what we know: nothing.
                Ok(done) => {
                    matches!(done.status, Status::InfraError | Status::Signalled | Status::OutOfMemory)
                }
                Err(error) => matches!(error, EngineError::Broken(_) | EngineError::Unavailable { .. }),
            };
            assert!(good(answer) || ours, "{answer:?}");
        }
        let again = run(&engine, language, code).await;
        assert_eq!(again.status, Status::Success, "afterwards everything is well");
        full(&engine).await;
    });
}

#[test]
fn killing_the_spawner_loses_no_request() {
    survives(&["sandbox-executo"], "javascript", "console.log(6 * 7, process.pid)");
}

#[test]
fn killing_programs_and_pid_1_loses_no_request() {
    survives(&["node", "sandbox-init"], "javascript", "console.log(6 * 7, process.pid)");
}

#[test]
fn killing_the_interpreter_that_is_copied_loses_no_request() {
    survives(&["python3"], "python", "import os; print(6 * 7, os.getpid())");
}

#[test]
fn owners_share_an_interpreter_only_where_they_may() {
    let code = "print(1)";
    let of = |owner: &str| Request { owner: owner.into(), ..Request::new("python", code) };
    for (scope, interpreters, starts) in [
        (ZygoteScope::Template, 1, [Start::Miss, Start::Hit]),
        (ZygoteScope::Owner, 2, [Start::Miss, Start::Miss]),
        (ZygoteScope::Off, 0, [Start::Cold, Start::Ready]),
    ] {
        with_pool(PoolSettings { zygote_scope: scope, ..FEW }, |engine| async move {
            for (owner, start) in ["ann", "ben"].into_iter().zip(starts) {
                let done = execute(&engine, &of(owner)).await.unwrap();
                assert_eq!((done.status, done.start), (Status::Success, start), "{scope:?}, {owner}");
                full(&engine).await;
            }
            assert_eq!(loaded().len(), interpreters, "{scope:?}");
        });
    }
}

#[test]
fn what_is_rehearsed_lies_ready_and_leaves_no_trace() {
    let rehearsal = [("python".to_owned(), "import colorsys\nmine = 1\nprint('heard?')".to_owned())].into();
    with_pool(PoolSettings { rehearsal, ..FEW }, |engine| async move {
        let code = "import sys\nprint('colorsys' in sys.modules, 'mine' in globals(), 'wave' in sys.modules)";
        for _ in 0..2 {
            let done = run(&engine, "python", code).await;
            assert_eq!(text(&done.stdout), "True False False\n");
            full(&engine).await;
        }
    });
}

/// Libraries that start threads when they are loaded start none in an interpreter that is to be copied, and a rehearsal
/// that fails is left out.
#[test]
fn rehearsals_may_load_what_has_threads_and_may_fail() {
    for (rehearsal, loaded) in [
        ("import numpy\nnumpy.ones((300, 300)) @ numpy.ones((300, 300))", "True"),
        ("import colorsys\nimport missing_module", "False"),
    ] {
        let rehearsal = [("python".to_owned(), rehearsal.to_owned())].into();
        with_pool(PoolSettings { rehearsal, ..FEW }, move |engine| async move {
            run(&engine, "python", "print(1)").await;
            full(&engine).await;
            let done = run(&engine, "python", "import sys\nprint('numpy' in sys.modules)").await;
            assert_eq!((done.start, text(&done.stdout)), (Start::Hit, format!("{loaded}\n")));
        });
    }
}

#[test]
fn what_takes_longer_is_watched_and_what_it_leaves_is_ended() {
    with_pool(FEW, |engine| async move {
        run(&engine, "python", "print(1)").await;
        full(&engine).await;
        // Shorter and longer than it takes until somebody looks, with and without somebody left behind.
        for wait in ["0", "0.003", "0.02"] {
            for left in ["", "subprocess.Popen(['sleep', '60'])"] {
                let code =
                    format!("import subprocess, time\n{left}\ntime.sleep({wait})\nprint('done', flush=True)");
                let began = Instant::now();
                let done = run(&engine, "python", &code).await;
                assert_eq!((done.status, done.exit_code), (Status::Success, Some(0)), "{code}");
                assert_eq!(text(&done.stdout), "done\n");
                assert!(began.elapsed() < PATIENCE);
                full(&engine).await;
            }
        }
        let limits = engine::limits::Wanted { timeout_ms: Some(100), ..Default::default() };
        let request = Request { limits, ..Request::new("python", "import time\ntime.sleep(60)") };
        let done = execute(&engine, &request).await.unwrap();
        assert_eq!(done.status, Status::TimedOut);
        assert!((100.0..1000.0).contains(&done.metrics.duration_ms), "{}", done.metrics.duration_ms);
    });
}

#[test]
fn what_nobody_waits_for_any_more_is_taken_down() {
    with_pool(FEW, |engine| async move {
        for (language, name, code) in WAITING {
            run(&engine, language, code).await;
            full(&engine).await;
            for wait in [0, 1, 2, 5, 20] {
                // Given up before, while and after a program is told.
                let endless = if language == "python" { "while True: pass" } else { "for (;;);" };
                let request = Request::new(language, endless);
                let given_up =
                    tokio::time::timeout(Duration::from_millis(wait), execute(&engine, &request)).await;
                assert!(given_up.is_err(), "{language}");
            }
            full(&engine).await;
            let patience = Instant::now() + PATIENCE;
            while waiting(name).len() > FEW.max {
                assert!(Instant::now() < patience, "{language}: {:?} {:?}", below_us(), engine.pool());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(run(&engine, language, code).await.status, Status::Success);
        }
    });
}

/// Whatever makes numbers nobody can guess makes others in each copy.
#[test]
fn no_two_copies_throw_the_same_dice() {
    const RUNS: usize = 1000;
    let code = "import os, random, secrets, tempfile, uuid\nprint(random.random(), uuid.uuid4(), secrets.token_hex(8), tempfile.mktemp(), os.urandom(8).hex(), *random.sample(range(10**9), 1))";
    let numpy = "import numpy\nprint(numpy.random.rand(), numpy.random.default_rng().integers(10**15))";
    with_pool(PoolSettings { min: 4, max: 16, ..FEW }, |engine| async move {
        run(&engine, "python", code).await;
        let first = loaded();
        for (code, runs) in [(code, RUNS), (numpy, RUNS / 5)] {
            let mut seen = HashSet::new();
            let mut hits = 0;
            for _ in 0..runs / 4 {
                let asked: Vec<_> = (0..4)
                    .map(|_| {
                        let engine = engine.clone();
                        tokio::task::spawn_local(async move { run(&engine, "python", code).await })
                    })
                    .collect();
                for one in asked {
                    let done = one.await.unwrap();
                    assert_eq!(done.status, Status::Success, "{done:?}");
                    hits += usize::from(done.start == Start::Hit);
                    assert_ne!(done.start, Start::Cold);
                    for word in text(&done.stdout).split_whitespace() {
                        assert!(seen.insert(word.to_owned()), "`{word}` came twice");
                    }
                }
            }
            assert!(hits > runs / 4, "only {hits} of {runs} came from the pool");
        }
        let patience = Instant::now() + PATIENCE;
        while !loaded().is_disjoint(&first) {
            assert!(Instant::now() < patience, "after {RUNS} copies there has to be another original");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn what_waits_uses_no_time() {
    with_pool(PoolSettings { min: 4, ..FEW }, |engine| async move {
        for (language, _, code) in WAITING {
            run(&engine, language, code).await;
        }
        full(&engine).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let used = || -> u64 { below_us().iter().map(|(pid, _)| host::cpu_ticks(*pid)).sum() };
        let before = used();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(used() - before <= 1, "{} ticks in 2 s", used() - before);
    });
}

#[test]
fn what_nobody_wants_is_taken_down() {
    with_pool(PoolSettings { idle_timeout: Duration::from_millis(500), ..FEW }, |engine| async move {
        for (language, name, code) in WAITING {
            run(&engine, language, code).await;
            full(&engine).await;
            let count = || waiting(name).len();
            assert!(count() >= FEW.min);
            let patience = Instant::now() + PATIENCE;
            while count() > 0 {
                assert!(Instant::now() < patience, "{:?}", engine.pool());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let again = run(&engine, language, code).await;
            assert!(has_missed(language, again.start), "{language}: {:?}", again.start);
            full(&engine).await;
            assert!(count() >= FEW.min, "made again when it is wanted");
        }
    });
}
