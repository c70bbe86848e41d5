//! Numbers, one line in the log and a span for each request, of what really goes out.
//!
//! Neither bodies, nor what stands behind the `?`, nor any header but one: tokens are there.

use super::RequestId;
use crate::listen::Peer;
use crate::{Caller, State};
use axum::extract::{MatchedPath, Request};
use axum::http::header;
use axum::response::Response;
use std::time::{Duration, Instant};
use tracing::field::Empty;
use tracing::{Instrument, Span};

/// Longest text of a client's in the log, in characters.
const LONGEST: usize = 256;

/// Answers it, and takes note of that.
pub(super) async fn observe<A>(
    state: &State,
    id: &RequestId,
    request: Request,
    answer: impl FnOnce(Request) -> A,
) -> Response
where
    A: Future<Output = Response>,
{
    let began = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    let (head, uri) = (request.headers(), request.uri());
    let agent =
        head.get(header::USER_AGENT).map(|value| printable(&String::from_utf8_lossy(value.as_bytes())));
    let mut line = Line {
        id: id.clone(),
        method: printable(request.method().as_str()),
        path: printable(uri.path()),
        agent: agent.unwrap_or_default(),
        from: request.extensions().get::<Peer>().copied().unwrap_or_default(),
        status: 0,
        took: Duration::ZERO,
        caller: None,
    };
    let span = span(&line, route);
    let response = answer(request).instrument(span.clone()).await;
    (line.took, line.status) = (began.elapsed(), response.status().as_u16());
    span.record("http.response.status_code", line.status);
    if line.status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
    state.metrics().answered(&line.method, route, line.status, line.took);
    line.caller = response.extensions().get::<Caller>().cloned();
    engine::afterwards(|| drop(line));
    response
}

fn span(line: &Line, route: &str) -> Span {
    tracing::info_span!(
        target: "sandboxd::trace",
        "request",
        otel.name = format!("{} {route}", line.method),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = line.method,
        http.route = route,
        http.response.status_code = Empty,
        request.id = line.id.as_str(),
    )
}

/// What the log will say of a request. It says so when this goes.
struct Line {
    id: RequestId,
    method: String,
    path: String,
    agent: String,
    from: Peer,
    status: u16,
    took: Duration,
    caller: Option<Caller>,
}

impl Drop for Line {
    fn drop(&mut self) {
        // Whoever hangs up before there is an answer gets none.
        if self.status == 0 {
            return;
        }
        let caller = self.caller.as_ref();
        tracing::info!(
            target: "sandboxd::access",
            request_id = self.id.as_str(),
            method = self.method,
            path = self.path,
            status = self.status,
            duration_ms = self.took.as_micros() as f64 / 1000.0,
            tenant = caller.map_or("", |caller| &*caller.tenant),
            key_id = caller.map_or("", |caller| &*caller.key_id),
            from = self.from.to_string(),
            agent = self.agent,
            "request"
        );
    }
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
