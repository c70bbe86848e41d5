//! How often a key may ask. Every answer says how much is left.

use crate::keys::Pace;
use crate::{Caller, Problem};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::time::Duration;

pub(super) async fn pace(request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>();
    let Some(pace) = caller.and_then(|caller| caller.pace.as_deref()) else { return next.run(request).await };
    let left = Pace::take(pace);
    let mut response = match left.wait {
        Some(wait) => {
            Problem::too_many("rate_limited", "this key asks more often than it may", wait).into_response()
        }
        None => next.run(request).await,
    };
    let seconds = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
    for (name, value) in [
        ("ratelimit-limit", u64::from(left.limit)),
        ("ratelimit-remaining", u64::from(left.remaining)),
        ("ratelimit-reset", seconds(left.wait.unwrap_or(left.reset))),
    ] {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from(value));
    }
    response
}
