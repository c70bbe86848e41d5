//! What keeps an isolator from being asked again and again for what it cannot do.

use super::error::ControlError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After so many failures in a row an isolator is left alone for a while; then one run tells whether it works again.
#[derive(Debug)]
pub(crate) struct Breaker {
    isolator: &'static str,
    failures: u32,
    rest: Duration,
    /// Whether the last run worked, so that nobody has to look further.
    works: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In a row.
    failures: u32,
    /// Until when nothing is asked of it.
    rests_until: Option<Instant>,
    why: String,
}

impl Breaker {
    pub(crate) fn new(isolator: &'static str, failures: u32, rest: Duration) -> Breaker {
        let (works, state) = (AtomicBool::new(true), Mutex::default());
        Breaker { isolator, failures: failures.max(1), rest, works, state }
    }

    /// Whether it may be asked now.
    pub(crate) fn pass(&self) -> Result<(), ControlError> {
        if self.works.load(Relaxed) {
            return Ok(());
        }
        let mut state = self.lock();
        let now = Instant::now();
        match state.rests_until {
            Some(until) if until > now => Err(ControlError::Busy {
                why: format!(
                    "{} failed {} times in a row and is left alone for a while: {}",
                    self.isolator, state.failures, state.why
                ),
                retry_after: until - now,
            }),
            Some(_) => {
                // One goes ahead. Should nothing be heard of it, another one does after as long again.
                state.rests_until = Some(now + self.rest);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Waits until it may be asked.
    pub(crate) async fn passed(&self) {
        while let Err(ControlError::Busy { retry_after, .. }) = self.pass() {
            tokio::time::sleep(retry_after).await;
        }
    }

    pub(crate) fn worked(&self) {
        if !self.works.swap(true, Relaxed) {
            *self.lock() = State::default();
        }
    }

    pub(crate) fn failed(&self, why: &str) {
        let mut state = self.lock();
        self.works.store(false, Relaxed);
        state.failures = state.failures.saturating_add(1);
        state.why = why.chars().take(300).collect();
        if state.failures >= self.failures {
            state.rests_until = Some(Instant::now() + self.rest);
        }
    }

    /// Why it is left alone, while it is.
    pub(crate) fn resting(&self) -> Option<String> {
        let state = self.lock();
        state.rests_until.is_some().then(|| state.why.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn it_rests_after_failures_in_a_row_and_one_tells_whether_it_works_again() {
        let breaker = Breaker::new("native", 3, REST);
        breaker.failed("a");
        breaker.failed("b");
        breaker.worked();
        breaker.failed("c");
        breaker.failed("d");
        assert_eq!(breaker.pass(), Ok(()));
        breaker.failed("e");
        let Err(ControlError::Busy { why, retry_after }) = breaker.pass() else { panic!("it does not rest") };
        assert!(why.contains("3 times") && why.ends_with(": e"), "{why}");
        assert!(retry_after <= REST);
        breaker.passed().await;
        // One has gone ahead.
        assert!(breaker.pass().is_err() && breaker.resting().is_some());
        breaker.failed("f");
        assert!(breaker.pass().is_err());
        breaker.passed().await;
        breaker.worked();
        assert_eq!((breaker.pass(), breaker.pass(), breaker.resting()), (Ok(()), Ok(()), None));
    }

    #[tokio::test]
    async fn one_that_is_never_heard_of_again_does_not_close_it_for_ever() {
        let breaker = Breaker::new("native", 1, REST);
        breaker.failed("a");
        breaker.passed().await;
        breaker.passed().await;
        assert!(breaker.pass().is_err());
    }
}
