//! What programs leave behind that end at once: nobody waits for them any longer, and nothing is missed.

use super::{FEW, full, run, with_pool};
use engine::{Execution, Start, Status};

/// A program, how it ends, and what comes back of its workspace.
type Leaving = (&'static str, Status, Option<i32>, &'static [&'static str]);

const PYTHON: &[Leaving] = &[
    ("print(1)", Status::Success, Some(0), &[]),
    ("raise SystemExit(3)", Status::Failed, Some(3), &[]),
    // With this one ends who could not be executed.
    ("import os; os._exit(127)", Status::Failed, Some(127), &[]),
    ("import os; os.kill(os.getpid(), 9)", Status::Signalled, None, &[]),
    ("open('a', 'w').close()", Status::Success, Some(0), &["a"]),
    ("open('a', 'w').close(); raise SystemExit(4)", Status::Failed, Some(4), &["a"]),
    ("open('main.py', 'a').write('#')", Status::Success, Some(0), &["main.py"]),
    ("import os; os.chmod('main.py', 0o700)", Status::Success, Some(0), &["main.py"]),
    ("import os; os.rename('main.py', 'b')", Status::Success, Some(0), &["b"]),
    ("import os; os.link('main.py', 'b')", Status::Success, Some(0), &["b", "main.py"]),
    ("import os; os.remove('main.py')", Status::Success, Some(0), &[]),
    // As many as there were.
    ("import os; os.remove('main.py'); open('main.py', 'w').close()", Status::Success, Some(0), &["main.py"]),
    ("import os; os.remove('main.py'); open('b', 'w').close()", Status::Success, Some(0), &["b"]),
    ("open('/tmp/a', 'w').close()", Status::Success, Some(0), &[]),
    ("import os; os.mkdir('d'); open('d/a', 'w').close()", Status::Success, Some(0), &["d/a"]),
    // Somebody is left who writes.
    (
        "import os, time\nif os.fork() == 0:\n    time.sleep(2)\n    open('late', 'w').close()\n    time.sleep(60)",
        Status::Success,
        Some(0),
        &[],
    ),
];

const BASH: &[Leaving] = &[
    ("echo 1", Status::Success, Some(0), &[]),
    ("exit 127", Status::Failed, Some(127), &[]),
    ("kill -9 $$", Status::Signalled, None, &[]),
    ("echo > a", Status::Success, Some(0), &["a"]),
    ("sleep 60 &", Status::Success, Some(0), &[]),
];

#[test]
fn what_a_short_program_leaves_is_seen() {
    with_pool(FEW, async |engine| {
        for (language, programs) in [("python", PYTHON), ("bash", BASH)] {
            run(&engine, language, "").await;
            for (code, status, exit, left) in programs {
                full(&engine).await;
                let done = run(&engine, language, code).await;
                assert_ne!(done.start, Start::Cold, "{code}");
                assert_eq!((&done.status, done.exit_code), (status, *exit), "{code}: {:?}", done.error);
                assert_eq!(names(&done), *left, "{code}");
                assert_eq!(done.signal.is_some(), exit.is_none(), "{code}");
                assert!(done.metrics.duration_ms < 5000.0, "{code}: {} ms", done.metrics.duration_ms);
                assert!(done.metrics.memory_peak_bytes > 0, "{code}");
            }
        }
    });
}

fn names(done: &Execution) -> Vec<&str> {
    done.artifacts.iter().map(|artifact| artifact.path.as_str()).collect()
}
