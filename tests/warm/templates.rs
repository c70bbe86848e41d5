//! Shelves of templates: what they want is loaded and done before anybody asks, inside the walls where it is theirs.

use super::*;
use engine::{TemplatePool, Warmth};
use std::path::Path;
use std::sync::Arc;

/// A template that says this about Python, and a program of it.
fn of(warmth: Warmth, code: &str) -> Request {
    Request { template: Some(Arc::new(warmth)), ..Request::new("python", code) }
}

fn preload(modules: &[&str]) -> Warmth {
    let modules = modules.iter().map(|&name| name.to_owned()).collect();
    Warmth { template: "t".into(), preload: [("python".into(), modules)].into(), ..Warmth::default() }
}

fn rehearsal(program: &str) -> Warmth {
    let rehearsal = [("python".into(), program.to_owned())].into();
    Warmth { template: "t".into(), rehearsal, ..Warmth::default() }
}

fn templates(engine: &Engine) -> Vec<Option<String>> {
    engine.pool().into_iter().filter(|shelf| shelf.language.is_some()).map(|shelf| shelf.template).collect()
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < patience, "{what}: {:?}", below_us());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn what_a_template_wants_waits_before_anybody_asks() {
    let code = "import sys\nprint(*(name in sys.modules for name in ('colorsys', 'wave', 'sndhdr')))";
    let pool = TemplatePool { min: Some(3), ..TemplatePool::default() };
    let warmth = Warmth { rehearsal: rehearsal("import wave").rehearsal, pool, ..preload(&["colorsys"]) };
    with_pool(FEW, |engine| async move {
        let request = of(warmth.clone(), code);
        assert!(engine.expect(&request).await.unwrap());
        full(&engine).await;
        let kept = shelf(&engine, "python");
        assert_eq!((kept.template.as_deref(), kept.depth, kept.target), (Some("t"), 3, 3), "{kept:?}");
        for _ in 0..3 {
            let done = execute(&engine, &request).await.unwrap();
            assert_eq!((done.start, text(&done.stdout)), (Start::Hit, "True True False\n".into()));
            full(&engine).await;
        }
        // Others do not find what it wants, nor it what others leave.
        let done = run(&engine, "python", code).await;
        assert_eq!((done.start, text(&done.stdout)), (Start::Miss, "False False False\n".into()));
        full(&engine).await;
        assert_eq!(loaded().len(), 2);

        let warmth = request.template.clone().unwrap();
        engine.keep_templates(&[warmth]);
        assert_eq!(templates(&engine).len(), 2);
        engine.keep_templates(&[]);
        assert_eq!(templates(&engine), [None]);
        until("its places and its interpreter are given up", || {
            waiting("python3").len() == shelf(&engine, "python").depth && loaded().len() == 1
        })
        .await;
        assert_eq!(run(&engine, "python", "print(1)").await.start, Start::Hit);
    });
}

#[test]
fn the_least_of_a_template_stays_when_nobody_asks_and_the_rest_goes() {
    let pool = TemplatePool { min: Some(1), max: Some(4), idle_timeout_ms: Some(500) };
    let request = of(Warmth { template: "t".into(), pool, ..Warmth::default() }, "print(1)");
    with_pool(FEW, |engine| async move {
        assert!(engine.expect(&request).await.unwrap());
        full(&engine).await;
        assert_eq!(waiting("python3").len(), 1);
        let all = (0..8).map(|_| execute(&engine, &request));
        assert!(futures_util::future::join_all(all).await.into_iter().all(|done| done.is_ok()));
        until("more than the least", || waiting("python3").len() > 1).await;
        until("the least", || waiting("python3").len() == 1 && shelf(&engine, "python").target == 1).await;
        tokio::time::sleep(Duration::from_millis(800)).await;
        assert_eq!(execute(&engine, &request).await.unwrap().start, Start::Hit);
    });
}

#[test]
fn a_rehearsal_runs_in_sandboxes_only() {
    let mark = format!("/tmp/rehearsed-{}", std::process::id());
    let warmth = rehearsal(&format!(
        "import os, sys\nopen('{mark}', 'a').write('x')\nsys.rehearsed = os.getpid(), os.path.getsize('{mark}')\nmine = 1"
    ));
    let code = "import os, sys\nprint(sys.rehearsed == (os.getpid(), 1), 'mine' in globals())";
    with_pool(FEW, |engine| async move {
        for start in [Start::Miss, Start::Hit, Start::Hit] {
            let done = execute(&engine, &of(warmth.clone(), code)).await.unwrap();
            assert_eq!((done.start, text(&done.stdout)), (start, "True False\n".into()), "{done:?}");
            full(&engine).await;
        }
        assert!(!Path::new(&mark).exists(), "it has run on the host");
        assert_eq!(loaded().len(), 1);
    });
}

#[test]
fn what_goes_wrong_ahead_breaks_no_program() {
    with_pool(FEW, |engine| async move {
        let long = format!("x = '{}'", "x".repeat(engine::MOST_REHEARSAL - 10));
        let wrong = [
            (preload(&["nothing_of_that_name", "colorsys"]), Start::Hit),
            (rehearsal("1/0"), Start::Hit),
            (rehearsal("this is no Python"), Start::Hit),
            (rehearsal("import sys\nsys.exit(1)"), Start::Hit),
            (rehearsal("raise KeyboardInterrupt"), Start::Hit),
            (rehearsal(&long), Start::Hit),
            (rehearsal("import os\nos._exit(1)"), Start::Ready),
        ];
        for (number, (warmth, start)) in wrong.into_iter().enumerate() {
            let warmth = Warmth { revision: number as i64, ..warmth };
            let request = of(warmth.clone(), "print(6 * 7)");
            let mut done = execute(&engine, &request).await.unwrap();
            for _ in 0..100 {
                assert_eq!((done.status, text(&done.stdout)), (Status::Success, "42\n".into()), "{warmth:?}");
                if done.start == start {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                done = execute(&engine, &request).await.unwrap();
            }
            assert_eq!(done.start, start, "{warmth:?}: {:?}", engine.pool());
            engine.keep_templates(&[]);
        }
    });
}

#[test]
fn owners_share_nothing_of_a_template_where_they_may_not() {
    let pool = TemplatePool { min: Some(1), ..TemplatePool::default() };
    let request = of(Warmth { pool, ..preload(&["colorsys"]) }, "print(1)");
    with_pool(PoolSettings { zygote_scope: ZygoteScope::Owner, ..FEW }, |engine| async move {
        assert!(!engine.expect(&request).await.unwrap(), "nobody knows whose they would be");
        for (owner, interpreters) in [("ann", 2), ("ben", 4)] {
            let request = Request { owner: owner.into(), ..request.clone() };
            assert_eq!(execute(&engine, &request).await.unwrap().start, Start::Miss);
            full(&engine).await;
            assert_eq!(execute(&engine, &request).await.unwrap().start, Start::Hit);
            assert_eq!(loaded().len(), interpreters);
        }
    });
}
