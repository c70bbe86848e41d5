//! Who waits for whom, who stands still, and what happens when nothing can be made.

use super::*;

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

#[test]
fn what_programs_use_that_run_at_once_is_paid_for_however_they_hide_it() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let bounds = Bounds { cpu_seconds_per_hour: Some(1), ..Bounds::default() };
        let me = Caller { tenant: "me".into(), bounds };
        let spec = SessionSpec { max_concurrent: Some(2), ..SessionSpec::default() };
        let new = NewSession { id: Some("wide".into()), spec, ..NewSession::default() };
        plane.create_session(&me, new, None).await.unwrap();
        // Nobody waits for its children, so the kernel adds what they used to nobody's account but the sandbox's.
        let hides = "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nfor _ in range(8):\n    child = os.fork()\n    if not child:\n        end = time.process_time() + .2\n        while time.process_time() < end: pass\n        os._exit(0)\n    while os.path.exists(f'/proc/{child}'): time.sleep(.005)\nprint('hidden')";
        let done = text(&plane.execute(&me, Some("wide"), python(hides), None).await.unwrap().record);
        assert_eq!(done["stdout"], "hidden\n", "{done}");
        let poor = plane.execute(&me, Some("wide"), python("print(1)"), None).await;
        if done["isolation"]["cgroup"] == "none" {
            eprintln!("skipped: no cgroup that counts what sandboxes use");
        } else {
            assert!(done["metrics"]["cpu_time_ms"].as_f64().unwrap() < 1000.0, "it was hidden: {done}");
            assert!(matches!(poor, Err(ControlError::TooMany { what: "CPU time", .. })), "{poor:?}");
        }
        plane.end().await;
    });
}
