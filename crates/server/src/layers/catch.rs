//! A panic ends one request, not the server, and tells the client nothing.

use super::RequestId;
use crate::Problem;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;

pub(super) async fn catch(request: Request, next: Next) -> Response {
    let id = RequestId::of(request.extensions());
    // What a handler leaves behind when it panics is its own: it shares nothing with others but through locks
    // that cope with that.
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!(request_id = id.as_str(), "a handler panicked");
            Problem::internal().into_response()
        }
    }
}
