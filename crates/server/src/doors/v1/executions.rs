//! Executions: submitted to sessions, looked at, waited for, cancelled. Each route has the two paths under which the
//! founding platform had it.

use super::execute::{accepts, key};
use super::wire::{ProgramIn, shown};
use crate::clock::rfc3339;
use crate::{Body, Caller, Id, Params, Problem, Scope, State};
use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use engine::storage::{Cursor, ExecutionStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(submit))
        .routes(routes!(submit_short))
        .routes(routes!(run))
        .routes(routes!(run_short))
        .routes(routes!(list))
        .routes(routes!(of_session))
        .routes(routes!(of_session_short))
        .routes(routes!(get))
        .routes(routes!(status))
        .routes(routes!(result))
        .routes(routes!(cancel))
        .routes(routes!(output))
}

/// An execution that was accepted.
#[derive(Serialize, ToSchema)]
struct Submitted {
    execution_id: String,
    session_id: String,
    status: String,
    created_at: String,
}

/// Submit a program to a session
#[utoipa::path(
    post, path = "/api/v1/executions/sessions/{session_id}/execute", tag = "executions", request_body = ProgramIn,
    params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 201, body = Submitted), (status = 404, description = "There is no such session", body = crate::problem::Facts),
        (status = 409, description = "The session is not active", body = crate::problem::Facts))
)]
async fn submit(
    state: State,
    caller: Caller,
    session: Id,
    headers: HeaderMap,
    body: Body<ProgramIn>,
) -> Result<Response, Problem> {
    submit_to(state, caller, session, headers, body).await
}

/// Submit a program to a session (the shorter path)
#[utoipa::path(
    post, path = "/api/v1/sessions/{session_id}/execute", tag = "executions", request_body = ProgramIn,
    params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 201, body = Submitted), (status = 404, description = "There is no such session", body = crate::problem::Facts),
        (status = 409, description = "The session is not active", body = crate::problem::Facts))
)]
async fn submit_short(
    state: State,
    caller: Caller,
    session: Id,
    headers: HeaderMap,
    body: Body<ProgramIn>,
) -> Result<Response, Problem> {
    submit_to(state, caller, session, headers, body).await
}

async fn submit_to(
    state: State,
    caller: Caller,
    session: Id,
    headers: HeaderMap,
    Body(wanted): Body<ProgramIn>,
) -> Result<Response, Problem> {
    caller.require(Scope::Run)?;
    let (program, key) = (wanted.program()?, key(&headers)?);
    if accepts(&headers, "text/event-stream") {
        return super::stream::of_new(&state, &caller, Some(session.as_str()), program, key.as_deref()).await;
    }
    let accepted =
        state.plane().submit(&caller.of_engine(), Some(session.as_str()), program, key.as_deref()).await?;
    let body = Submitted {
        execution_id: accepted.id,
        session_id: session.as_str().to_owned(),
        status: ExecutionStatus::Pending.word().to_owned(),
        created_at: rfc3339(accepted.created_at),
    };
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// How long to wait.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Patience {
    /// Kept for old clients: from 0.1 to 10. The answer comes when there is one, without being asked for again.
    poll_interval: Option<f64>,
    /// How many seconds to wait: 10 to 3600, 300 if it is left out. Then 408, and the program goes on.
    sync_timeout: Option<f64>,
}

/// Run a program in a session, and wait for what comes of it
#[utoipa::path(
    post, path = "/api/v1/executions/sessions/{session_id}/execute-sync", tag = "executions", request_body = ProgramIn,
    params(("session_id" = String, Path, description = "Of the session"), Patience),
    responses((status = 200, body = Value), (status = 408, description = "It takes longer than was waited", body = crate::problem::Facts))
)]
async fn run(
    state: State,
    caller: Caller,
    session: Id,
    patience: Params<Patience>,
    headers: HeaderMap,
    body: Body<ProgramIn>,
) -> Result<Json<Value>, Problem> {
    run_in(state, caller, session, patience, headers, body).await
}

/// Run a program in a session, and wait for what comes of it (the shorter path)
#[utoipa::path(
    post, path = "/api/v1/sessions/{session_id}/execute-sync", tag = "executions", request_body = ProgramIn,
    params(("session_id" = String, Path, description = "Of the session"), Patience),
    responses((status = 200, body = Value), (status = 408, description = "It takes longer than was waited", body = crate::problem::Facts))
)]
async fn run_short(
    state: State,
    caller: Caller,
    session: Id,
    patience: Params<Patience>,
    headers: HeaderMap,
    body: Body<ProgramIn>,
) -> Result<Json<Value>, Problem> {
    run_in(state, caller, session, patience, headers, body).await
}

async fn run_in(
    state: State,
    caller: Caller,
    session: Id,
    Params(patience): Params<Patience>,
    headers: HeaderMap,
    Body(wanted): Body<ProgramIn>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let within = |field: &'static str, value: Option<f64>, from: f64, to: f64, usual: f64| {
        let value = value.unwrap_or(usual);
        match (from..=to).contains(&value) {
            true => Ok(value),
            false => Err(Problem::invalid_field(field, format!("is not from {from} to {to}"))),
        }
    };
    within("poll_interval", patience.poll_interval, 0.1, 10.0, 0.5)?;
    let longest = within("sync_timeout", patience.sync_timeout, 10.0, 3600.0, 300.0)?;
    let (plane, caller) = (state.plane(), caller.of_engine());
    let accepted =
        plane.submit(&caller, Some(session.as_str()), wanted.program()?, key(&headers)?.as_deref()).await?;
    match tokio::time::timeout(Duration::from_secs_f64(longest), plane.wait(&caller, &accepted.id)).await {
        Ok(done) => {
            done?;
            let found = plane.execution(&caller, &accepted.id).await?;
            Ok(Json(shown(&plane.with_output(found).await?)?))
        }
        Err(_) => {
            let detail = format!("`{}` takes longer than {longest} s", accepted.id);
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "execution_takes_longer", detail)
                .hint("it goes on; ask for its result by its id"))
        }
    }
}

/// A piece of a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Piece {
    /// At most so many: 1 to 200, 50 if it is left out.
    pub(super) limit: Option<usize>,
    /// How many are passed over, up to 10000.
    pub(super) offset: Option<usize>,
    /// Where the list goes on, as the piece before it says; quicker than `offset`.
    pub(super) cursor: Option<String>,
}

impl Piece {
    /// How many, from where, and how many of those are passed over.
    pub(super) fn read(&self) -> Result<(usize, Option<Cursor>, usize), Problem> {
        let limit = self.limit.unwrap_or(50);
        if !(1..=200).contains(&limit) {
            return Err(Problem::invalid_field("limit", "is not from 1 to 200"));
        }
        let offset = self.offset.unwrap_or(0);
        if offset > 10_000 {
            return Err(Problem::invalid_field("offset", "is more than 10000").hint("go on by `cursor`"));
        }
        Ok((limit, self.cursor.as_deref().map(Cursor::from_text).transpose()?, offset))
    }
}

/// The newest executions of the caller
#[utoipa::path(get, path = "/api/v1/executions", tag = "executions", params(Piece), responses((status = 200, body = Value)))]
async fn list(state: State, caller: Caller, Params(piece): Params<Piece>) -> Result<Json<Value>, Problem> {
    page(state, caller, None, piece).await
}

/// The newest executions of a session
#[utoipa::path(
    get, path = "/api/v1/executions/sessions/{session_id}/executions", tag = "executions",
    params(("session_id" = String, Path, description = "Of the session"), Piece), responses((status = 200, body = Value))
)]
async fn of_session(
    state: State,
    caller: Caller,
    session: Id,
    Params(piece): Params<Piece>,
) -> Result<Json<Value>, Problem> {
    page(state, caller, Some(session), piece).await
}

/// The newest executions of a session (the shorter path)
#[utoipa::path(
    get, path = "/api/v1/sessions/{session_id}/executions", tag = "executions",
    params(("session_id" = String, Path, description = "Of the session"), Piece), responses((status = 200, body = Value))
)]
async fn of_session_short(
    state: State,
    caller: Caller,
    session: Id,
    Params(piece): Params<Piece>,
) -> Result<Json<Value>, Problem> {
    page(state, caller, Some(session), piece).await
}

async fn page(
    state: State,
    caller: Caller,
    session: Option<Id>,
    piece: Piece,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let (plane, caller) = (state.plane(), caller.of_engine());
    let session = session.as_ref().map(Id::as_str);
    if let Some(id) = session {
        plane.session(&caller, id).await?;
    }
    let (limit, mut after, mut skip) = piece.read()?;
    let mut items = Vec::new();
    loop {
        let found = plane.executions(&caller, session, after.as_ref(), (limit + skip).min(200)).await?;
        let passed = skip.min(found.items.len());
        skip -= passed;
        items.extend(
            found
                .items
                .iter()
                .skip(passed)
                .take(limit - items.len())
                .map(shown)
                .collect::<Result<Vec<_>, _>>()?,
        );
        after = found.next;
        if after.is_none() || items.len() == limit {
            break;
        }
    }
    let total = plane.store().count_executions(&caller.tenant, session).await?;
    let next = after.as_ref().map(Cursor::as_str);
    Ok(Json(
        json!({"items": items, "total": total, "limit": limit, "offset": piece.offset.unwrap_or(0), "has_more": next.is_some(), "next": next}),
    ))
}

/// One execution
#[utoipa::path(
    get, path = "/api/v1/executions/{execution_id}", tag = "executions",
    params(("execution_id" = String, Path, description = "Of the execution")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn get(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    one(state, caller, id).await
}

/// How far an execution got
#[utoipa::path(
    get, path = "/api/v1/executions/{execution_id}/status", tag = "executions",
    params(("execution_id" = String, Path, description = "Of the execution")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn status(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    one(state, caller, id).await
}

/// What came of an execution
#[utoipa::path(
    get, path = "/api/v1/executions/{execution_id}/result", tag = "executions",
    params(("execution_id" = String, Path, description = "Of the execution")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn result(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    one(state, caller, id).await
}

async fn one(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let found = state.plane().execution(&caller.of_engine(), id.as_str()).await?;
    Ok(Json(shown(&state.plane().with_output(found).await?)?))
}

/// Have an execution end
#[utoipa::path(
    post, path = "/api/v1/executions/{execution_id}/cancel", tag = "executions",
    params(("execution_id" = String, Path, description = "Of the execution")),
    responses((status = 200, description = "`cancelled` says whether there was anything to end", body = Value))
)]
async fn cancel(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let (plane, caller) = (state.plane(), caller.of_engine());
    let cancelled = plane.cancel(&caller, id.as_str()).await?;
    if cancelled {
        plane.wait(&caller, id.as_str()).await?;
    }
    let found = plane.execution(&caller, id.as_str()).await?;
    Ok(Json(json!({"execution_id": id.as_str(), "cancelled": cancelled, "status": found.status.word()})))
}

/// Everything an execution wrote to a stream, exactly
#[utoipa::path(
    get, path = "/api/v1/executions/{execution_id}/output/{stream}", tag = "executions",
    params(("execution_id" = String, Path, description = "Of the execution"), ("stream" = String, Path, description = "`stdout` or `stderr`")),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn output(
    state: State,
    caller: Caller,
    axum::extract::Path((id, stream)): axum::extract::Path<(String, String)>,
) -> Result<Response, Problem> {
    caller.require(Scope::Run)?;
    let known = Id::new(&id).is_some() && matches!(stream.as_str(), "stdout" | "stderr");
    if !known {
        return Err(Problem::not_found("execution"));
    }
    let found = state.plane().execution(&caller.of_engine(), &id).await?;
    let bytes = state.plane().output(&found, &stream).await?;
    Ok(([(axum::http::header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}
