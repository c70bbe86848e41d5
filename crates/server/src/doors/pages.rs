//! The page that shows the API. It comes with the program, so that it is there without a network.

use crate::State;
use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

const HTML: &str = include_str!("../../../../web/docs/index.html");
const SCRIPT: &str = include_str!("../../../../web/docs/docs.js");
const STYLE: &str = include_str!("../../../../web/docs/docs.css");

/// Nothing but what we send ourselves, and nobody may put it into a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn door() -> Router<State> {
    Router::new()
        .route("/docs", get(|| async { file(HTML, "text/html; charset=utf-8") }))
        .route("/docs/docs.js", get(|| async { file(SCRIPT, "text/javascript; charset=utf-8") }))
        .route("/docs/docs.css", get(|| async { file(STYLE, "text/css; charset=utf-8") }))
        .route("/docs/", get(|| async { Redirect::permanent("/docs") }))
        .route("/api/docs", get(|| async { file(HTML, "text/html; charset=utf-8") }))
}

fn file(content: &'static str, kind: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, content).into_response()
}
