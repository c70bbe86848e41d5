//! Panics. One that happens while a request is answered ends that request. Any other one ends the process: whoever waits
//! for a task that is gone would wait for ever, and somebody starts us again.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

thread_local! {
    /// Whether what this thread does at the moment is to answer a request.
    static ANSWERING: Cell<bool> = const { Cell::new(false) };
}

/// A request was not answered, because of a mistake of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Has requests survive panics of each other, from here on, in this whole process. Where everything ends that panics, this
/// is the one exception.
pub fn spare_requests() {
    std::panic::set_hook(Box::new(|panic| {
        if ANSWERING.get() {
            tracing::error!(%panic, "a request was not answered");
        } else {
            eprintln!("{panic}");
            std::process::abort();
        }
    }));
}

/// Answers a request, or says that it cannot be. What it leaves behind when it panics is its own: it shares nothing with
/// others but through locks that cope with that.
pub(crate) async fn caught<T>(answer: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut answer = pin!(answer);
    poll_fn(move |context| match guarded(|| answer.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(Panicked) => Poll::Ready(Err(Panicked)),
    })
    .await
}

/// Does a piece of it.
pub(crate) fn guarded<T>(piece: impl FnOnce() -> T) -> Result<T, Panicked> {
    let before = ANSWERING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(piece));
    ANSWERING.set(before);
    done.map_err(|_| Panicked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// Not in this process, whose tests panic when they fail: what it does is up to this variable.
    const WHERE: &str = "SANDBOXD_TEST_PANIC";

    /// Runs the test below in a process of its own: what it said, and the signal that ended it.
    fn child(place: &str) -> (String, Option<i32>) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let words = ["--exact", "panics::tests::somewhere", "--nocapture", "--test-threads=1"];
        let out = command.args(words).env(WHERE, place).output().unwrap();
        let said = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (said.concat(), out.status.signal())
    }

    #[test]
    fn somewhere() {
        let Ok(place) = std::env::var(WHERE) else { return };
        spare_requests();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let broken = async {
                tokio::task::yield_now().await;
                panic!("it is broken")
            };
            match place.as_str() {
                "request" => assert_eq!(tokio::spawn(caught::<()>(broken)).await.unwrap(), Err(Panicked)),
                "task of a request" => {
                    let begun = caught(async { drop(tokio::spawn(broken).await) });
                    begun.await.unwrap();
                }
                "beside a request" => {
                    caught(async {}).await.unwrap();
                    broken.await
                }
                other => unreachable!("{other}"),
            }
            println!("it goes on");
        });
    }

    #[test]
    fn only_a_request_is_spared() {
        let (said, signal) = child("request");
        assert_eq!((said.contains("it goes on"), signal), (true, None), "{said}");
        for place in ["task of a request", "beside a request"] {
            let (said, signal) = child(place);
            assert_eq!((said.contains("it goes on"), signal), (false, Some(6)), "{place}: {said}");
            assert!(said.contains("it is broken") && said.contains("panics.rs"), "{place}: {said}");
        }
    }

    #[tokio::test]
    async fn what_goes_well_is_answered() {
        let answer = caught(async {
            tokio::task::yield_now().await;
            assert!(ANSWERING.get());
            caught(async { 6 * 7 }).await
        });
        assert_eq!(answer.await, Ok(Ok(42)));
        assert!(!ANSWERING.get());
    }
}
