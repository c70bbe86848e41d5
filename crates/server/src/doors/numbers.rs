//! Numbers: as text for Prometheus, or as JSON for whoever asks for that.

use crate::{Problem, State, clock};
use axum::Json;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// The numbers of this server since it was started.
#[derive(Serialize, ToSchema)]
#[schema(as = ServerNumbers)]
struct Numbers {
    requests_total: u64,
    average_duration_us: f64,
    active_connections: i64,
    websocket_connections: u64,
    /// Answers with a status of 400 and above.
    errors_total: u64,
    bytes_served: u64,
    /// 1: nothing is packed.
    compression_ratio: f64,
    timestamp: String,
}

/// Numbers, as OpenMetrics text, or as JSON with `Accept: application/json`
#[utoipa::path(
    get, path = "/metrics", tag = "server",
    responses((status = 200, content((String = "application/openmetrics-text"), (Numbers = "application/json"))))
)]
async fn metrics(state: State, headers: HeaderMap) -> Result<Response, Problem> {
    if wants_json(&headers) {
        return Ok(Json(numbers(&state)).into_response());
    }
    let text = state.metrics().text(&state.engine().pool(), state.uptime()).map_err(|error| {
        tracing::error!(%error, "numbers could not be written");
        Problem::internal()
    })?;
    Ok(([(header::CONTENT_TYPE, TEXT)], text).into_response())
}

fn numbers(state: &State) -> Numbers {
    let sums = state.metrics().sums();
    Numbers {
        requests_total: sums.requests,
        average_duration_us: if sums.requests == 0 { 0.0 } else { sums.micros as f64 / sums.requests as f64 },
        active_connections: sums.connections,
        websocket_connections: 0,
        errors_total: sums.errors,
        bytes_served: sums.bytes,
        compression_ratio: 1.0,
        timestamp: clock::now(),
    }
}

/// Who takes text takes it gladly; Prometheus says so, and takes anything else as well.
fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kinds: Vec<&str> =
        accept.split(',').map(|kind| kind.split(';').next().unwrap_or("").trim()).collect();
    kinds.contains(&"application/json")
        && !kinds.iter().any(|kind| *kind == "text/plain" || *kind == "application/openmetrics-text")
}
