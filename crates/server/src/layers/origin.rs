//! Which pages may call us: none but our own and those that were allowed. Programs send no `Origin`, and are let in.

use super::host::CalledBy;
use crate::{Problem, State};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
const HEADERS: &str =
    "Authorization, Content-Type, X-API-Key, X-Request-ID, Idempotency-Key, Last-Event-ID, Accept";
const EXPOSED: &str =
    "X-Request-ID, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, Location";
/// How long a browser may remember that it may ask, in seconds.
const MEMORY: &str = "600";

/// Who asks.
pub(super) enum Asker {
    /// No page, or one of ours.
    Anybody,
    /// A page of this origin, which may.
    Page(HeaderValue),
    /// The same, which wants to know whether it may.
    Preflight(HeaderValue),
}

pub(super) fn check(state: &State, called: &CalledBy, request: &Request) -> Result<Asker, Problem> {
    let headers = request.headers();
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let (origin, other) = (origins.next(), origins.next());
    if other.is_some() {
        return Err(refused());
    }
    let Some(origin) = origin else {
        return if is_cross_site(headers) { Err(refused()) } else { Ok(Asker::Anybody) };
    };
    if is_our_own(origin, called) {
        return Ok(Asker::Anybody);
    }
    if !is_allowed(origin, &state.options().allowed_origins) {
        return Err(refused());
    }
    let asks =
        request.method() == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    Ok(if asks { Asker::Preflight(origin.clone()) } else { Asker::Page(origin.clone()) })
}

/// Lets that page read what it is answered.
pub(super) fn show(response: &mut Response, page: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

pub(super) fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MEMORY),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// A page of ours, by the name we are called by, which is one of ours.
fn is_our_own(origin: &HeaderValue, CalledBy(name): &CalledBy) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    host.is_some_and(|host| host.eq_ignore_ascii_case(name.as_str()))
}

fn is_allowed(origin: &HeaderValue, allowed: &[String]) -> bool {
    // `null` is what a page says that hides where it is from: anybody can.
    let Ok(origin) = origin.to_str() else { return false };
    origin != "null" && allowed.iter().any(|one| one.trim_end_matches('/').eq_ignore_ascii_case(origin))
}

/// Browsers send no `Origin` with requests whose answer the page will not see; they say this instead.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let said = |name: &str| headers.get(name).is_some_and(|value| value != "same-origin" && value != "none");
    let navigates = headers.get("sec-fetch-mode").is_some_and(|value| value == "navigate");
    said("sec-fetch-site") && !navigates
}

fn refused() -> Problem {
    let detail = "pages of this origin may not call this server";
    Problem::forbidden("origin_refused", detail).hint("add the origin to `allowed_origins`")
}
