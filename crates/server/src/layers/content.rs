//! What kind of body it is. Those that a page can send to us without asking first, and packed ones, are refused.

use crate::Problem;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use http_body::Body;

pub(super) fn check(request: &Request) -> Result<(), Problem> {
    let has_body = !request.body().is_end_stream();
    match fault(request.method(), request.headers(), has_body) {
        Some((detail, hint)) => {
            let problem = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail);
            Err(problem.hint(hint))
        }
        None => Ok(()),
    }
}

fn fault(method: &Method, headers: &HeaderMap, has_body: bool) -> Option<(&'static str, &'static str)> {
    let packed = |value: &axum::http::HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(header::CONTENT_ENCODING).iter().any(packed) {
        return Some(("packed bodies are not taken", "send the body as it is, without `Content-Encoding`"));
    }
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let kind = kinds.next();
    if kinds.next().is_some() {
        return Some(("there is more than one `Content-Type`", "send one"));
    }
    // What is put is a file. A page cannot put anything without asking first.
    let put = method == Method::PUT;
    let advice = match put {
        true => "send JSON, with `Content-Type: application/json`, or a file with `application/octet-stream`",
        false => "send JSON, with `Content-Type: application/json`",
    };
    match kind.map(|kind| kind.to_str().unwrap_or("").split(';').next().unwrap_or("").trim()) {
        None if has_body && !put => Some(("the body has no `Content-Type`", advice)),
        Some(kind) if is_simple(kind) => Some(("bodies of this kind are not taken", advice)),
        _ => None,
    }
}

/// Forms and text are what a page may send anywhere. Files in forms have doors of their own, which look again.
fn is_simple(kind: &str) -> bool {
    kind.is_empty()
        || kind.eq_ignore_ascii_case("text/plain")
        || kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}
