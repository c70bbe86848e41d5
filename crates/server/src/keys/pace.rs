//! How fast a key may ask.

use crate::KeyLimits;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use std::num::NonZeroU32;
use std::time::Duration;

/// A bucket of requests that fills up again.
#[derive(Debug)]
pub(crate) struct Pace {
    bucket: RateLimiter<NotKeyed, InMemoryState, DefaultClock, StateInformationMiddleware>,
    quota: Quota,
}

/// What is left after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    /// Until the bucket is full.
    pub(crate) reset: Duration,
    /// Until the next request, where there was none left for this one.
    pub(crate) wait: Option<Duration>,
}

impl Pace {
    /// As these limits say; none where they have no bound.
    pub(crate) fn of(limits: &KeyLimits) -> Option<Pace> {
        let rate = NonZeroU32::new(limits.requests_per_minute?)?;
        let burst = limits.burst.and_then(NonZeroU32::new).unwrap_or(rate);
        let quota = Quota::per_minute(rate).allow_burst(burst);
        Some(Pace { bucket: RateLimiter::direct(quota).with_middleware(), quota })
    }

    /// Takes one request from the bucket.
    pub(crate) fn take(&self) -> Left {
        let limit = self.quota.burst_size().get();
        let each = self.quota.replenish_interval();
        match self.bucket.check() {
            Ok(state) => {
                let remaining = state.remaining_burst_capacity();
                Left { limit, remaining, reset: each * (limit - remaining.min(limit)), wait: None }
            }
            Err(not_until) => {
                let wait = not_until.wait_time_from(DefaultClock::default().now());
                Left { limit, remaining: 0, reset: each * limit, wait: Some(wait) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gets_empty_and_says_when_it_is_not() {
        let limits = KeyLimits { requests_per_minute: Some(60), burst: Some(2), ..KeyLimits::default() };
        let pace = Pace::of(&limits).unwrap();
        let first = pace.take();
        assert_eq!((first.limit, first.remaining, first.wait), (2, 1, None));
        assert_eq!(pace.take().remaining, 0);
        let wait = pace.take().wait.unwrap();
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(1), "{wait:?}");
        assert!(Pace::of(&KeyLimits::default()).is_none());
    }
}
