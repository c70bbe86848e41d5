//! What can wait until an answer is out.
//!
//! Whoever answers does so in [`answering`], or where other tasks work at answers, with [`After`]. What is handed to [`afterwards`] meanwhile is done a moment after the answer
//! has been written, or its writer has had nothing to do. To begin it sooner would wake other threads, or keep the processor
//! from whoever was answered, and either takes longer than most answers. Outside of it things are done at once, so nothing
//! depends on it.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
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
    let after = After::default();
    tokio::select! {
        biased;
        answered = after.collect(work) => answered,
        never = after.pass() => match never {},
    }
}

/// What waits until answers are out, where they are worked at by several tasks.
#[derive(Clone, Default)]
pub struct After(Arc<Mutex<Waiting>>);

/// Deeds that are done at the latest when nobody waits for them any more.
#[derive(Default)]
struct Waiting {
    deeds: Vec<Deed>,
    until: Option<Instant>,
}

impl After {
    /// Works, and keeps what can wait.
    pub async fn collect<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let polled = poll_fn(|context| {
            let answered = work.as_mut().poll(context);
            let new = DEEDS.with(RefCell::take);
            if !new.is_empty() {
                // Those of the answer before have waited long enough.
                drop(self.replace(Waiting { deeds: new, until: Some(Instant::now() + MOMENT) }));
            }
            answered
        });
        DEEDS.scope(RefCell::default(), polled).await
    }

    /// Does what waits in time, for as long as it is looked at after each answer: that there is more wakes nobody.
    pub async fn pass(&self) -> Infallible {
        let mut moment = pin!(sleep(MOMENT));
        poll_fn(|context| {
            loop {
                let waiting = self.lock().until;
                let Some(until) = waiting else { return Poll::Pending };
                if moment.deadline() != until {
                    moment.as_mut().reset(until);
                }
                ready!(moment.as_mut().poll(context));
                drop(self.replace(Waiting::default()));
            }
        })
        .await
    }

    fn replace(&self, by: Waiting) -> Waiting {
        std::mem::replace(&mut *self.lock(), by)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.deeds.drain(..).for_each(|deed| deed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
