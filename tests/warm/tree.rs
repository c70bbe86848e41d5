//! Interpreters that are copies of one another: they share memory, and each lives a life of its own.

use super::*;

/// Wants a set of modules that contains another, which is also one.
const MORE: &str = "import asyncio, sys\nprint('asyncio' in sys.modules)";

fn parent(pid: u32) -> u32 {
    host::status(pid, "PPid").unwrap().parse().unwrap()
}

/// KiB of a process that others have too, and all of it.
fn memory(pid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let field = |name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (field("Shared_Clean:") + field("Shared_Dirty:"), field("Rss:"))
}

/// The interpreters from the one that has loaded least to the one that has loaded most.
fn line_now() -> Vec<u32> {
    let all = loaded();
    let first = all.iter().copied().find(|pid| parent(*pid) == std::process::id()).unwrap();
    let mut line = vec![first];
    while let Some(next) = all.iter().copied().find(|pid| parent(*pid) == line[line.len() - 1]) {
        line.push(next);
    }
    line
}

#[test]
fn who_has_loaded_more_is_a_copy_of_who_has_loaded_less() {
    with_pool(FEW, |engine| async move {
        let done = run(&engine, "python", MORE).await;
        assert_eq!((done.start, text(&done.stdout)), (Start::Miss, "True\n".into()));
        let line = line_now();
        assert_eq!((line.len(), loaded().len()), (3, 3), "{:?}", below_us());
        for pid in &line[1..] {
            let (shared, all) = memory(*pid);
            assert!(shared * 2 > all, "{shared} of {all} KiB are shared");
        }
        // What lies between is of use by itself, and nothing is started for it.
        let done = run(&engine, "python", "import queue\nprint(1)").await;
        assert_eq!(done.start, Start::Miss);
        let done = run(&engine, "python", "print(1)").await;
        assert_eq!(done.start, Start::Miss);
        assert_eq!(loaded(), line.into_iter().collect());
    });
}

#[test]
fn a_parent_that_dies_takes_nobody_with_it() {
    with_pool(FEW, |engine| async move {
        run(&engine, "python", MORE).await;
        full(&engine).await;
        let line = line_now();
        kill(line[0]);
        kill(line[1]);
        for _ in 0..5 {
            let done = run(&engine, "python", MORE).await;
            assert_eq!((done.status, done.start), (Status::Success, Start::Hit));
            full(&engine).await;
        }
        let still = host::status(line[2], "State").is_some_and(|state| !state.starts_with('Z'));
        assert!(still, "the same goes on");
        // Those that died are there again when somebody wants a copy of them.
        for (code, start) in [("import sqlite3\nprint(1)", Start::Miss), ("print(1)", Start::Miss)] {
            let done = run(&engine, "python", code).await;
            let seen = (done.status, done.start, text(&done.stdout));
            assert_eq!(seen, (Status::Success, start, "1\n".into()), "{code}");
        }
        assert_eq!(run(&engine, "python", "import queue\nprint(1)").await.status, Status::Success);
    });
}

#[test]
fn a_child_that_dies_is_there_again() {
    with_pool(FEW, |engine| async move {
        run(&engine, "python", MORE).await;
        full(&engine).await;
        let line = line_now();
        for round in 0..3 {
            let last = *line_now().last().unwrap();
            let below = host::descendants(last);
            kill(last);
            // What waited is killed with it, a moment later, and is nobody's child until then: who is told something
            // meanwhile is lost.
            let lives = |pid: &u32| host::status(*pid, "State").is_some_and(|state| !state.starts_with('Z'));
            let patience = Instant::now() + PATIENCE;
            while below.iter().any(lives) {
                assert!(Instant::now() < patience, "{below:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let done = run(&engine, "python", MORE).await;
            assert_eq!(done.status, Status::Success, "{round}");
            full(&engine).await;
        }
        assert_eq!(line_now()[..2], line[..2], "and the others are the same");
        // Nobody waits for the dead in vain.
        let dead = below_us()
            .into_iter()
            .filter(|(pid, _)| host::status(*pid, "State").is_some_and(|state| state.starts_with('Z')));
        assert_eq!(dead.count(), 0, "{:?}", below_us());
    });
}

#[test]
fn a_tree_is_replaced_as_a_whole() {
    with_pool(PoolSettings { min: 4, max: 16, ..FEW }, |engine| async move {
        run(&engine, "python", MORE).await;
        full(&engine).await;
        let old = loaded();
        for _ in 0..130 {
            let all = (0..4).map(|_| run(&engine, "python", "print(1)"));
            assert!(
                futures_util::future::join_all(all).await.iter().all(|done| done.status == Status::Success)
            );
        }
        let patience = Instant::now() + PATIENCE;
        // Those that wait for it were made by the old one.
        while !old.is_disjoint(&loaded()) {
            assert!(Instant::now() < patience, "{old:?} {:?}", loaded());
            run(&engine, "python", MORE).await;
        }
        assert_eq!(line_now().len(), 3, "{:?}", below_us());
    });
}
