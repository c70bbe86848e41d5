//! Headers that tell browsers and caches what not to do.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;

/// For answers that are data: nothing in them is to be shown, run or framed.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

pub(super) fn harden(response: &mut Response) {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Pages bring their own.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(NOTHING));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
