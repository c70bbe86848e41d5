//! One program, run once, and its record: the shortest way.

use super::wire::ProgramIn;
use crate::{Body, Caller, Problem, Scope, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(execute))
}

/// Run a program in a sandbox of its own, and answer its record
///
/// With `Accept: text/event-stream` what it writes is answered while it runs. With `Prefer: respond-async` it is
/// answered at once, with an id to ask for. With `Idempotency-Key` the same request is run once, however often it is
/// sent.
#[utoipa::path(
    post, path = "/api/v1/execute", tag = "executions", request_body = ProgramIn,
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Stands for this request, for a day"),
        ("Prefer" = Option<String>, Header, description = "`respond-async` to be answered at once"),
    ),
    responses(
        (status = 200, description = "The record: how it ended, what it wrote, what it cost, what protected the host", body = serde_json::Value),
        (status = 202, description = "It is accepted", body = serde_json::Value),
        (status = 422, description = "A field is wrong", body = crate::problem::Facts),
        (status = 429, description = "More than this key may have", body = crate::problem::Facts),
        (status = 503, description = "The server has too much to do", body = crate::problem::Facts),
    )
)]
async fn execute(
    state: State,
    caller: Caller,
    headers: HeaderMap,
    Body(wanted): Body<ProgramIn>,
) -> Result<Response, Problem> {
    caller.require(Scope::Run)?;
    let (plane, program, key) = (state.plane(), wanted.program()?, key(&headers)?);
    if accepts(&headers, "text/event-stream") {
        return super::stream::of_new(&state, &caller, None, program, key.as_deref()).await;
    }
    if prefers_async(&headers) {
        let accepted = plane.submit(&caller.of_engine(), None, program, key.as_deref()).await?;
        let place = format!("/api/v1/executions/{}", accepted.id);
        let body = json!({"execution_id": accepted.id, "status": "pending", "created_at": crate::clock::rfc3339(accepted.created_at)});
        return Ok((StatusCode::ACCEPTED, [(header::LOCATION, place)], axum::Json(body)).into_response());
    }
    let done = plane.execute(&caller.of_engine(), None, program, key.as_deref()).await?;
    Ok(record(&done))
}

/// The record as it was stored: nothing is written twice.
pub(super) fn record(done: &engine::control::Done) -> Response {
    let mut response = done.record.as_str().to_owned().into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if done.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Says that an earlier request with the same key was answered so.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The idempotency key of a request.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    match headers.get("idempotency-key").map(HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(key)) if (1..=255).contains(&key.len()) => Ok(Some(key.to_owned())),
        Some(_) => {
            Err(Problem::bad_request("invalid_header", "`Idempotency-Key` is empty, too long or no text")
                .field("Idempotency-Key")
                .hint("1 to 255 plain characters, such as a UUID"))
        }
    }
}

/// Whether a kind of answer is asked for by name.
pub(super) fn accepts(headers: &HeaderMap, mime: &str) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|part| part.split(';').next().is_some_and(|kind| kind.trim() == mime))
}

fn prefers_async(headers: &HeaderMap) -> bool {
    let wishes = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    wishes.flat_map(|value| value.split(',')).any(|wish| wish.trim() == "respond-async")
}
