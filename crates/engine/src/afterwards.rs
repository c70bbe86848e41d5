//! What can wait until an answer is out.
//!
//! Whoever answers does so in [`answering`]. What is handed to [`afterwards`] meanwhile is done a moment after the answer
//! has been written, or its writer has had nothing to do. To begin it sooner would wake other threads, or keep the processor
//! from whoever was answered, and either takes longer than most answers. Outside of it things are done at once, so nothing
//! depends on it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long that is: whoever was answered has heard it by then.
const MOMENT: Duration = Duration::from_millis(1);

type Deed = Box<dyn FnOnce() + Send>;

tokio::task_local! {
    static DEEDS: RefCell<Vec<Deed>>;
}

/// Does this when the answer is out.
pub fn afterwards(deed: impl FnOnce() + Send + 'static) {
    let mut deed = Some(deed);
    let _ = DEEDS.try_with(|deeds| deeds.borrow_mut().extend(deed.take().map(|deed| Box::new(deed) as Deed)));
    if let Some(deed) = deed {
        deed();
    }
}

/// Answers, and does afterwards what could wait.
pub async fn answering<T>(work: impl Future<Output = T>) -> T {
    let polled = async {
        let mut work = pin!(work);
        let mut moment = pin!(sleep(MOMENT));
        let mut waiting = Waiting(Vec::new());
        poll_fn(|context| {
            let answered = work.as_mut().poll(context);
            let new = DEEDS.with(RefCell::take);
            if !new.is_empty() {
                // Those of the answer before have waited long enough.
                waiting.end();
                waiting.0 = new;
                moment.as_mut().reset(Instant::now() + MOMENT);
            }
            if !waiting.0.is_empty() && (answered.is_ready() || moment.as_mut().poll(context).is_ready()) {
                waiting.end();
            }
            answered
        })
        .await
    };
    DEEDS.scope(RefCell::default(), polled).await
}

/// Deeds that are done at the latest when nobody waits for them any more.
struct Waiting(Vec<Deed>);

impl Waiting {
    fn end(&mut self) {
        for deed in self.0.drain(..) {
            deed();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn deeds_wait_for_the_answer_and_are_never_lost() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let say = |word: &'static str| {
            let said = said.clone();
            move || said.lock().unwrap().push(word)
        };
        say("first")();
        afterwards(say("at once"));
        answering(async {
            afterwards(say("after one"));
            say("one")();
            tokio::task::yield_now().await;
            say("a moment")();
            sleep(MOMENT * 20).await;
            afterwards(say("after two"));
            say("two")();
            tokio::task::yield_now().await;
            afterwards(say("after three"));
            say("three")();
        })
        .await;
        let cut = answering(async {
            afterwards(say("of who hung up"));
            std::future::pending::<()>().await;
        });
        assert!(tokio::time::timeout(Duration::ZERO, cut).await.is_err());
        let said = said.lock().unwrap();
        let words = [
            "first",
            "at once",
            "one",
            "a moment",
            "after one",
            "two",
            "three",
            "after two",
            "after three",
            "of who hung up",
        ];
        assert_eq!(*said, words);
    }
}
