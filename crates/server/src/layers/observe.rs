//! Numbers, one line in the log and a span for each request, of what really goes out.
//!
//! Neither bodies, nor what stands behind the `?`, nor any header but one: tokens are there.

use super::RequestId;
use crate::listen::Peer;
use crate::{Caller, State};
use axum::extract::{MatchedPath, Request};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use std::time::Instant;
use tracing::Instrument;
use tracing::field::Empty;

/// Longest text of a client's in the log, in characters.
const LONGEST: usize = 256;

pub(super) async fn observe(state: State, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let endpoint = request.extensions().get::<MatchedPath>().cloned();
    let peer = request.extensions().get::<Peer>().copied().unwrap_or_default();
    let id = RequestId::of(request.extensions());
    let (method, path) = (printable(request.method().as_str()), printable(request.uri().path()));
    let agent =
        request.headers().get(header::USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let agent = agent.map(|text| printable(&text)).unwrap_or_default();
    let endpoint = endpoint.as_ref().map_or("unmatched", |path| path.as_str());
    let span = tracing::info_span!(
        target: "sandboxd::trace",
        "request",
        otel.name = format!("{method} {endpoint}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = endpoint,
        http.response.status_code = Empty,
        request.id = id.as_str(),
    );
    let response = next.run(request).instrument(span.clone()).await;
    let (took, status) = (began.elapsed(), response.status().as_u16());
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
    state.metrics().answered(&method, endpoint, status, took);
    let caller = response.extensions().get::<Caller>();
    tracing::info!(
        target: "sandboxd::access",
        request_id = id.as_str(),
        method,
        path,
        status,
        duration_ms = took.as_micros() as f64 / 1000.0,
        tenant = caller.map_or("", |caller| &*caller.tenant),
        key_id = caller.map_or("", |caller| &*caller.key_id),
        from = peer.to_string(),
        agent,
        "request"
    );
    response
}

/// What a client wrote, cut, and with everything shown that would move a cursor.
fn printable(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(LONGEST) {
        match c {
            // Marks that turn the direction of text around, and separators of lines beside the usual ones.
            '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(c.escape_unicode())
            }
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_client_writes_begins_a_line_of_its_own() {
        let shown = printable("a\r\n{\"x\":1}\u{1b}[2J\u{202e}\u{2028}é");
        assert_eq!(shown, "a\\r\\n{\"x\":1}\\u{1b}[2J\\u{202e}\\u{2028}é");
        assert_eq!(printable(&"x".repeat(1000)).len(), LONGEST);
    }
}
