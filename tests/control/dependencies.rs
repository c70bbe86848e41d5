//! Packages of sessions, from an index that is really asked by a pip that really runs.

use super::index::Served;
use super::*;
use engine::control::{Dependencies, Index, Install, InstallPolicy, InstallStatus, Package, SessionView};

fn allowed(install: InstallPolicy) -> ControlSettings {
    ControlSettings { install, ..ControlSettings::default() }
}

fn install(index: &Served, packages: &[(&str, Option<&str>)]) -> Install {
    let package = |(name, version): &(&str, Option<&str>)| Package {
        name: (*name).into(),
        version: version.map(str::to_owned),
    };
    let index = Some(Index::parse(&index.address()).unwrap());
    Install { packages: packages.iter().map(package).collect(), index, ..Install::default() }
}

fn packages(view: &SessionView) -> &Dependencies {
    view.spec.dependencies.as_ref().unwrap()
}

fn installed(view: &SessionView) -> Vec<String> {
    packages(view).installed.iter().map(|one| format!("{} {}", one.name, one.version)).collect()
}

#[test]
fn packages_are_there_for_programs_that_get_no_network_by_it() {
    with_plane(allowed(InstallPolicy::All), |world| async move {
        let (plane, me, index) = (world.start().await, caller("me"), Served::start());
        let new = NewSession {
            id: Some("mine".into()),
            install: Some(Install { required: true, ..install(&index, &[("greeting", Some("1.0"))]) }),
            ..NewSession::default()
        };
        let (view, _) = plane.create_session(&me, new, None).await.unwrap();
        assert_eq!(packages(&view).status, InstallStatus::Pending);
        // It waits until they are there.
        let greet = || python("import greeting\nprint(greeting.TEXT)");
        let done = text(&plane.execute(&me, Some("mine"), greet(), None).await.unwrap().record);
        assert_eq!((&done["stdout"], &done["artifacts"]), (&"hello 1.0\n".into(), &json!([])), "{done}");
        let view = plane.session(&me, "mine").await.unwrap();
        assert_eq!((packages(&view).status, &packages(&view).error), (InstallStatus::Completed, &None));
        assert_eq!(installed(&view), ["greeting 1.0", "words 0.1"]);
        assert!(packages(&view).started_at.unwrap() <= packages(&view).completed_at.unwrap());
        let reach = format!("import socket\nsocket.create_connection(('127.0.0.1', {}), 2)", index.port);
        let reached = plane.execute(&me, Some("mine"), python(&reach), None).await.unwrap();
        assert_eq!(reached.status, ExecutionStatus::Failed, "programs have no network");

        let upload = plane.upload_file(&me, "mine", "secret.txt", 0o644, 10).await.unwrap();
        upload.finish().await.unwrap();
        let more = install(&index, &[("Greeting", Some(">=2,<3")), ("built", None)]);
        let view = plane.install(&me, "mine", Install { index: None, ..more }).await.unwrap();
        assert_eq!(packages(&view).status, InstallStatus::Completed, "{:?}", packages(&view).error);
        assert_eq!(installed(&view), ["built 1.0", "greeting 2.0", "words 0.1"]);
        let both = python("import greeting, built\nprint(greeting.TEXT, built.SEEN)");
        let done = text(&plane.execute(&me, Some("mine"), both, None).await.unwrap().record);
        assert_eq!(done["stdout"], "hello 2.0 False\n", "its code sees nothing of the session: {done}");
        let files = plane.list_files(&me, "mine", "", false, None, 10).await.unwrap().entries;
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names, [".dependencies", "secret.txt"], "nor puts anything elsewhere");

        // What cannot be had changes nothing, and what it takes to get into the index is told to nobody.
        let view = plane.install(&me, "mine", install(&index, &[("missing", None)])).await.unwrap();
        let failed = packages(&view);
        assert_eq!(failed.status, InstallStatus::Failed);
        assert!(failed.error.as_ref().unwrap().contains("missing"), "{failed:?}");
        let stored = plane.store().session("me", "mine").await.unwrap();
        assert!(stored.spec.as_str().contains("127.0.0.1") && !stored.spec.as_str().contains("hunter2"));
        assert!(!format!("{view:?}").contains("hunter2"), "{view:?}");
        let done = text(&plane.execute(&me, Some("mine"), greet(), None).await.unwrap().record);
        assert_eq!(done["stdout"], "hello 2.0\n");
        let view = plane.install(&me, "mine", install(&index, &[("words", Some("0.1"))])).await.unwrap();
        let requested: Vec<&str> = packages(&view).requested.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(requested, ["Greeting", "built", "words"], "what failed is not asked for again");
        plane.end().await;

        // They are part of the workspace.
        let plane = world.start().await;
        let done = text(&plane.execute(&me, Some("mine"), greet(), None).await.unwrap().record);
        assert_eq!(done["stdout"], "hello 2.0\n", "{done}");
        plane.end().await;
    });
}

#[test]
fn one_request_at_a_time_installs() {
    with_plane(allowed(InstallPolicy::Wheels), |world| async move {
        let (plane, me, index) = (world.start().await, caller("me"), Served::start());
        // Where packages will come from can be said before any is asked for.
        let new = NewSession { install: Some(install(&index, &[])), ..NewSession::default() };
        let (view, _) = plane.create_session(&me, new, None).await.unwrap();
        assert_eq!(packages(&view).status, InstallStatus::Completed);
        let id = view.session.id;
        let waits =
            "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(.01)";
        let first = plane.submit(&me, Some(&id), python(waits), None).await.unwrap();
        let mut follow = plane.follow(&me, &first.id, 0).await.unwrap();
        while !follow.next().await.iter().any(|happening| matches!(happening.what, What::Stdout(_))) {}
        let asked = Install { index: None, ..install(&index, &[("words", None)]) };
        let go = async {
            let patience = Instant::now() + PATIENCE;
            while packages(&plane.session(&me, &id).await.unwrap()).status != InstallStatus::Pending {
                assert!(Instant::now() < patience);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let second = plane.install(&me, &id, asked.clone()).await;
            plane.make_directory(&me, &id, "go").await.unwrap();
            second
        };
        let (first, second) = tokio::join!(plane.install(&me, &id, asked.clone()), go);
        assert!(matches!(second, Err(ControlError::Conflict { what: "session", .. })), "{second:?}");
        assert_eq!(packages(&first.unwrap()).status, InstallStatus::Completed);
        plane.end().await;
    });
}

#[test]
fn installing_waits_for_all_programs_that_run_at_once_and_they_for_it() {
    with_plane(allowed(InstallPolicy::Wheels), |world| async move {
        let (plane, me, index) = (world.start().await, caller("me"), Served::start());
        let spec = SessionSpec { max_concurrent: Some(2), ..SessionSpec::default() };
        let new = NewSession { id: Some("wide".into()), spec, ..with(&index, "words", true) };
        let (view, _) = plane.create_session(&me, new, None).await.unwrap();
        assert_eq!(view.max_concurrent, 2);
        let waits = |n: u32| {
            python(&format!(
                "import words, os, time\nopen('up-{n}', 'w').close()\nwhile not os.path.exists('go'): time.sleep(.01)\nopen('down-{n}', 'w').close()\nprint({n})"
            ))
        };
        let go = async {
            let patience = Instant::now() + PATIENCE;
            while !is_there(&plane, &me, "up-1").await || !is_there(&plane, &me, "up-2").await {
                assert!(Instant::now() < patience, "both run, with their packages");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let more = Install { index: None, ..install(&index, &[("greeting", Some("1.0"))]) };
            let ended = async {
                while packages(&plane.session(&me, "wide").await.unwrap()).status != InstallStatus::Pending {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let later =
                    python("import greeting, os\nprint(os.path.exists('down-1'), os.path.exists('down-2'))");
                let later = plane.submit(&me, Some("wide"), later, None).await.unwrap();
                tokio::time::sleep(Duration::from_millis(300)).await;
                assert_eq!(
                    packages(&plane.session(&me, "wide").await.unwrap()).status,
                    InstallStatus::Pending
                );
                plane.make_directory(&me, "wide", "go").await.unwrap();
                text(&plane.wait(&me, &later.id).await.unwrap().record)
            };
            let (installed, later) = tokio::join!(plane.install(&me, "wide", more), ended);
            assert_eq!(packages(&installed.unwrap()).status, InstallStatus::Completed);
            assert_eq!(later["stdout"], "True True\n", "{later}");
        };
        let run = |n| plane.execute(&me, Some("wide"), waits(n), None);
        let (one, two, ()) = tokio::join!(run(1), run(2), go);
        for (n, done) in [(1, one), (2, two)] {
            let record = text(&done.unwrap().record);
            assert_eq!(record["stdout"], format!("{n}\n"), "{record}");
        }
        plane.end().await;
    });
}

async fn is_there(plane: &Arc<ControlPlane>, me: &Caller, path: &str) -> bool {
    let files = plane.list_files(me, "wide", "", false, None, 100).await.unwrap().entries;
    files.iter().any(|file| file.path == path)
}

fn with(index: &Served, package: &str, required: bool) -> NewSession {
    let install = Install { required, ..install(index, &[(package, None)]) };
    NewSession { id: Some("mine".into()), install: Some(install), ..NewSession::default() }
}

#[test]
fn nothing_is_installed_that_the_operator_does_not_want() {
    with_plane(allowed(InstallPolicy::Off), |world| async move {
        let (plane, me, index) = (world.start().await, caller("me"), Served::start());
        let refused = plane.create_session(&me, with(&index, "words", true), None).await.unwrap_err();
        assert!(matches!(refused, ControlError::NotAllowed { .. }), "{refused}");
        let (view, _) = plane.create_session(&me, NewSession::default(), None).await.unwrap();
        let refused = plane.install(&me, &view.session.id, install(&index, &[("words", None)])).await;
        assert!(matches!(refused, Err(ControlError::NotAllowed { .. })), "{refused:?}");
        plane.end().await;
    });
    // Code of packages that are built would run.
    with_plane(allowed(InstallPolicy::Wheels), |world| async move {
        let (plane, me, index) = (world.start().await, caller("me"), Served::start());
        plane.create_session(&me, with(&index, "built", true), None).await.unwrap();
        let used = plane.execute(&me, Some("mine"), python("print(1)"), None).await;
        assert!(matches!(used, Err(ControlError::Conflict { what: "session", .. })), "{used:?}");
        let view = plane.session(&me, "mine").await.unwrap();
        assert_eq!(
            (view.session.status, packages(&view).status),
            (SessionStatus::Failed, InstallStatus::Failed)
        );
        let again = plane.execute(&me, Some("mine"), python("print(1)"), None).await.unwrap_err();
        assert!(again.to_string().contains("packages"), "{again}");
        plane.purge_session(&me, "mine").await.unwrap();
        // It may do without them, if whoever made it says so.
        plane.create_session(&me, with(&index, "built", false), None).await.unwrap();
        let used = plane.execute(&me, Some("mine"), python("print(1)"), None).await.unwrap();
        assert_eq!(text(&used.record)["stdout"], "1\n");
        let bash = SessionSpec { languages: vec!["bash".into()], ..SessionSpec::default() };
        let new = NewSession { id: None, spec: bash, ..with(&index, "words", true) };
        let refused = plane.create_session(&me, new, None).await.unwrap_err();
        assert!(refused.to_string().contains("no Python"), "{refused}");
        plane.end().await;
    });
}
