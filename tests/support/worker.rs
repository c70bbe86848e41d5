//! Several things at once.

use super::Sandboxd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Does all of it on a few threads. Fails when anything fails, after everything was tried.
pub(crate) fn in_parallel<T: Sync>(
    things: &[T],
    work: impl Fn(&T) -> Result<(), String> + Sync,
) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from) + 1;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(thing) = things.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = catch_unwind(AssertUnwindSafe(|| work(thing)))
                        .unwrap_or_else(|cause| Err(said(&cause)));
                    if let Err(why) = outcome {
                        failures.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap()
}

fn said(cause: &Box<dyn std::any::Any + Send>) -> String {
    let text = cause.downcast_ref::<String>().cloned();
    text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "panicked".into())
}

/// Does something hostile while a neighbour does honest work over and over. Both must be right.
pub(crate) fn with_neighbour<T>(hostile: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    let (begun, beginning) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            let honest = Sandboxd::caller();
            let begun = begun;
            for round in 0.. {
                let nonce = format!("{}-{round}", std::process::id());
                let code = format!("print('{nonce}', sum(range(100000)))");
                honest
                    .run("python", &code)
                    .json()
                    .is("success")
                    .exits(0)
                    .says(&format!("{nonce} 4999950000\n"));
                let _ = begun.send(());
                if over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let _ = beginning.recv();
        let outcome = catch_unwind(AssertUnwindSafe(hostile));
        over.store(true, Ordering::Relaxed);
        if let Err(cause) = neighbour.join() {
            resume_unwind(cause);
        }
        outcome.unwrap_or_else(|cause| resume_unwind(cause))
    })
}
