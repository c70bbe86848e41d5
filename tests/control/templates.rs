//! Templates: what is kept for them follows what they say, and programs that name one get what it says.

use super::*;
use engine::control::TemplateSpec;
use engine::{MOST_REHEARSAL, ShelfReport, TemplatePool};

const MODULES: &str = "import sys\nprint(*(name in sys.modules for name in ('colorsys', 'wave')))";

fn of(template: &str, code: &str) -> Program {
    Program { template: Some(template.into()), ..python(code) }
}

fn loads(module: &str) -> TemplateSpec {
    TemplateSpec {
        languages: vec!["python".into()],
        preload: [("py".into(), vec![module.into()])].into(),
        pool: TemplatePool { min: Some(1), ..TemplatePool::default() },
        ..TemplateSpec::default()
    }
}

/// The shelves of a template, once that is so.
async fn shelves(
    plane: &ControlPlane,
    template: &str,
    is_so: impl Fn(&[ShelfReport]) -> bool,
) -> Vec<ShelfReport> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let all = plane.engine().pool().into_iter();
        let found: Vec<_> = all.filter(|shelf| shelf.template.as_deref() == Some(template)).collect();
        if is_so(&found) {
            return found;
        }
        assert!(Instant::now() < patience, "{found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn waits(shelves: &[ShelfReport]) -> bool {
    shelves.iter().any(|shelf| shelf.depth > 0)
}

#[test]
fn what_is_kept_follows_what_a_template_says() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let made = plane.create_template("t", "T", &loads("colorsys")).await.unwrap();
        assert_eq!(text(&made.spec)["preload"], json!({"python": ["colorsys"]}), "by its name");
        shelves(&plane, "t", waits).await;
        let done = plane.execute(&me, None, of("t", MODULES), None).await.unwrap();
        let record = text(&done.record);
        assert_eq!((&record["start"], &record["stdout"]), (&"hit".into(), &"True False\n".into()));
        let stored = plane.execution(&me, &done.id).await.unwrap();
        assert_eq!(text(&stored.submission.request)["template"], "t");
        // Changed, and so is what waits.
        plane.update_template("t", "T", &loads("wave")).await.unwrap();
        shelves(&plane, "t", |found| found.len() == 1 && found[0].hits == 0 && waits(found)).await;
        let done = plane.execute(&me, None, of("t", MODULES), None).await.unwrap();
        let record = text(&done.record);
        assert_eq!((&record["start"], &record["stdout"]), (&"hit".into(), &"False True\n".into()));
        plane.update_template("t", "T", &TemplateSpec { inactive: true, ..loads("wave") }).await.unwrap();
        shelves(&plane, "t", <[_]>::is_empty).await;
        let refused = plane.execute(&me, None, of("t", "1"), None).await.unwrap_err();
        assert!(matches!(refused, ControlError::Conflict { what: "template", .. }), "{refused:?}");
        plane.update_template("t", "T", &loads("wave")).await.unwrap();
        shelves(&plane, "t", waits).await;
        plane.end().await;
        drop(plane);

        // There again after a restart, before anybody asks.
        let plane = world.start().await;
        let found = shelves(&plane, "t", waits).await;
        assert_eq!((found[0].hits, found[0].misses), (0, 0), "{found:?}");
        // Another server on the same storage removes it.
        world.store().await.delete_template("t").await.unwrap();
        shelves(&plane, "t", <[_]>::is_empty).await;
        let gone = plane.execute(&me, None, of("t", "1"), None).await.unwrap_err();
        assert_eq!(gone, ControlError::NotFound { what: "template" });
        plane.end().await;
    });
}

#[test]
fn programs_that_name_a_template_get_what_it_says() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let limits = Wanted { memory_bytes: Some(96 << 20), timeout_ms: Some(700), ..Wanted::default() };
        let spec = TemplateSpec {
            languages: vec!["python".into(), "sh".into()],
            limits,
            env: [("A".into(), "a".into()), ("B".into(), "b".into())].into(),
            ..TemplateSpec::default()
        };
        plane.create_template("t", "T", &spec).await.unwrap();
        let env = [("B".to_owned(), "own".to_owned())].into();
        let program = Program { env, ..of("t", "import os\nprint(os.environ['A'], os.environ['B'])") };
        let done = plane.execute(&me, None, program, None).await.unwrap();
        assert_eq!(text(&done.record)["stdout"], "a own\n");
        for (code, status) in
            [("x = bytearray(200 << 20)", "out_of_memory"), ("import time\ntime.sleep(9)", "timed_out")]
        {
            let done = plane.execute(&me, None, of("t", code), None).await.unwrap();
            assert_eq!(text(&done.record)["status"], status, "{:?}", done.record);
        }
        let limits = Wanted { memory_bytes: Some(400 << 20), ..Wanted::default() };
        let program = Program { limits, ..of("t", "x = bytearray(200 << 20)") };
        let done = plane.execute(&me, None, program, None).await.unwrap();
        assert_eq!(text(&done.record)["status"], "success", "its own word counts more");
        // By a key it is stored first, and run as it is found.
        let done = plane.execute(&me, None, of("t", "print(1)"), Some("key")).await.unwrap();
        assert_eq!(text(&done.record)["stdout"], "1\n");

        let other = Program { language: "javascript".into(), ..of("t", "1") };
        match plane.execute(&me, None, other, None).await.unwrap_err() {
            ControlError::Engine(EngineError::Invalid { field, hint: Some(hint), .. }) => {
                assert_eq!((field.as_str(), hint.as_str()), ("language", "it has `python`, `sh`"));
            }
            other => panic!("{other:?}"),
        }
        let (view, _) = plane.create_session(&me, NewSession::default(), None).await.unwrap();
        let refused = plane.execute(&me, Some(&view.session.id), of("t", "1"), None).await.unwrap_err();
        assert!(
            matches!(&refused, ControlError::Engine(EngineError::Invalid { field, hint: Some(_), .. }) if field == "template_id"),
            "{refused:?}"
        );
        plane.end().await;
    });
}

#[test]
fn what_cannot_be_had_is_refused_by_name() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let most = PoolSettings::default().template_max;
        let preload = |language: &str, modules: Vec<String>| TemplateSpec {
            preload: [(language.to_owned(), modules)].into(),
            ..TemplateSpec::default()
        };
        let rehearsal = |language: &str, program: String| TemplateSpec {
            rehearsal: [(language.to_owned(), program)].into(),
            ..TemplateSpec::default()
        };
        let pool = |min, max, idle_timeout_ms| TemplateSpec {
            languages: vec!["python".into()],
            pool: TemplatePool { min, max, idle_timeout_ms },
            ..TemplateSpec::default()
        };
        let names = |count| (0..count).map(|number| format!("m{number}")).collect();
        let wrong = [
            ("preload", preload("cobolt", vec!["a".into()])),
            ("preload.javascript", preload("javascript", vec!["fs".into()])),
            ("preload.python", preload("python", vec!["os; import evil".into()])),
            ("preload.python", preload("python", vec!["../evil".into()])),
            ("preload.python", preload("python", vec!["idlelib.__main__".into()])),
            ("preload.python", preload("python", names(33))),
            (
                "preload.python",
                TemplateSpec { languages: vec!["sh".into()], ..preload("python", vec!["os".into()]) },
            ),
            ("rehearsal.sh", rehearsal("sh", "echo".into())),
            ("rehearsal.python", rehearsal("python", "x".repeat(MOST_REHEARSAL + 1))),
            ("rehearsal.python", rehearsal("python", "a\0b".into())),
            ("pool.max", pool(None, Some(most + 1), None)),
            ("pool.min", pool(Some(most + 1), None, None)),
            ("pool.min", pool(Some(3), Some(2), None)),
            ("pool.idle_timeout", pool(None, None, Some(999))),
            ("pool.idle_timeout", pool(None, None, Some(u64::MAX))),
            ("pool.min", TemplateSpec { languages: Vec::new(), ..pool(Some(1), None, None) }),
            ("pool.min", TemplateSpec { languages: vec!["c".into()], ..pool(Some(1), None, None) }),
        ];
        for (wanted, spec) in &wrong {
            match plane.create_template("t", "T", spec).await {
                Err(ControlError::Engine(EngineError::Invalid { field, hint: Some(_), .. })) => {
                    assert_eq!(field, *wanted, "{spec:?}");
                }
                other => panic!("{wanted}: {other:?}"),
            }
        }
        let right = [
            preload("python", names(32)),
            rehearsal("python", "x".repeat(MOST_REHEARSAL)),
            pool(Some(0), Some(most), Some(1000)),
        ];
        for spec in &right {
            plane.create_template("t", "T", spec).await.unwrap();
            plane.delete_template("t").await.unwrap();
        }
        plane.end().await;
    });
}

#[test]
fn the_template_for_data_has_pandas_at_hand() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let spec: TemplateSpec = plane.template("python-datascience").await.unwrap().spec.read().unwrap();
        assert_eq!(spec.preload["python"], ["numpy", "pandas", "matplotlib", "matplotlib.pyplot"]);
        let code = "import sys\nfound = 'pandas' in sys.modules\ntry:\n    import pandas\n    print(found, pandas.DataFrame({'a': [1, 2]})['a'].sum())\nexcept ImportError:\n    print('none')";
        let first = plane.execute(&me, None, of("python-datascience", code), None).await.unwrap();
        let words = text(&first.record)["stdout"].as_str().unwrap().to_owned();
        if words == "none\n" {
            println!("skipped: this host has no pandas");
            return plane.end().await;
        }
        assert_eq!((words.as_str(), &text(&first.record)["start"]), ("True 3\n", &"miss".into()));
        plane.end().await;
    });
}
