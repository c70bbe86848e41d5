//! How often a key may ask. Every answer says how much is left.

use crate::keys::{Left, Pace};
use crate::{Caller, Problem};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use std::time::Duration;

/// What is left to a key that asks, where it may not ask as often as it likes.
pub(super) fn take(caller: &Caller) -> (Result<(), Problem>, Option<Left>) {
    let left = caller.pace.as_deref().map(Pace::take);
    let may = match left.as_ref().and_then(|left| left.wait) {
        Some(wait) => Err(Problem::too_many("rate_limited", "this key asks more often than it may", wait)),
        None => Ok(()),
    };
    (may, left)
}

/// Says it on the answer.
pub(super) fn show(response: &mut Response, left: &Left) {
    let seconds = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
    for (name, value) in [
        ("ratelimit-limit", u64::from(left.limit)),
        ("ratelimit-remaining", u64::from(left.remaining)),
        ("ratelimit-reset", seconds(left.wait.unwrap_or(left.reset))),
    ] {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from(value));
    }
}
