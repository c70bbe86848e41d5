//! Sessions: made, looked at, listed, removed.

use super::super::v1::wire::Amount;
use super::files::entry;
use super::{Wish, new_session};
use crate::doors::command;
use crate::{Body, Caller, Id, Problem, Scope, State};
use axum::Json;
use engine::control::SessionView;
use engine::storage::{SessionFilter, SessionStatus};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(create, delete))
        .routes(routes!(status))
        .routes(routes!(workspaces))
        .routes(routes!(clean_up))
}

pub(super) fn open_door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(healthy))
}

/// Where files are, for programs.
const MOUNT_POINT: &str = "/workspace";
/// Most files that are shown beside a session.
const MOST_FILES: usize = 1000;

/// What a session shall be like.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = WorkspaceSession)]
struct New {
    /// Its storage: bytes, or text such as `100M`. It has twice as much memory.
    #[schema(example = "100M")]
    size: Option<Amount>,
    /// Memory, where it shall be something else.
    memory_limit: Option<Amount>,
    /// Cores.
    cpu_quota: Option<Amount>,
    /// How long one program may take: seconds, 300 if it is left out.
    timeout: Option<Amount>,
    /// Whether programs reach a network. The operator decides that, so `true` is refused.
    allow_network: bool,
}

/// Make a session
#[utoipa::path(
    post, path = "/workspace/se/session/{session_id}", tag = "workspace", request_body = Option<New>,
    params(("session_id" = String, Path, description = "Its id, of the caller's choice")),
    responses((status = 200, body = Value), (status = 409, description = "There is one of this id", body = Value),
        (status = 422, description = "A field is wrong", body = Value))
)]
async fn create(
    state: State,
    caller: Caller,
    id: Id,
    body: Option<Body<New>>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let Body(new) = body.unwrap_or(Body(New::default()));
    if new.allow_network {
        return Err(Problem::invalid_field("allow_network", "a session cannot ask for a network")
            .hint("leave it out; the operator decides it for all of them, by `isolation.network`"));
    }
    let (size, memory) = (new.size.as_ref(), new.memory_limit.as_ref());
    let wish = Wish { size, memory, cpus: new.cpu_quota.as_ref(), timeout: new.timeout.as_ref() };
    let new = new_session(&state, id.as_str(), &wish)?;
    state.plane().create_named(&caller.of_engine(), new).await?;
    Ok(Json(json!({"session_id": id.as_str()})))
}

/// Remove a session, with its files
#[utoipa::path(
    delete, path = "/workspace/se/session/{session_id}", tag = "workspace",
    params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = Value))
)]
async fn delete(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    state.plane().purge_session(&caller.of_engine(), id.as_str()).await?;
    Ok(Json(json!({"status": "success"})))
}

/// Whether there is a session, and what is in it
#[utoipa::path(
    get, path = "/workspace/se/status/{session_id}", tag = "workspace",
    params(("session_id" = String, Path, description = "Of the session")), responses((status = 200, body = Value))
)]
async fn status(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let (plane, caller) = (state.plane(), caller.of_engine());
    let view = match plane.session(&caller, id.as_str()).await {
        Ok(view) if view.session.status != SessionStatus::Terminated => Some(view),
        Ok(_) | Err(engine::control::ControlError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let mounted = view.as_ref().is_some_and(is_mounted);
    let files = match mounted {
        true => plane.list_files(&caller, id.as_str(), "", true, None, MOST_FILES).await?.entries,
        false => Vec::new(),
    };
    Ok(Json(json!({
        "id": id.as_str(),
        "exists": view.is_some(),
        "created_at": view.as_ref().map(|view| view.session.created_at as f64 / 1000.0),
        "mount_point": view.as_ref().map(|_| MOUNT_POINT),
        "is_mounted": mounted,
        "files": files.iter().filter(|file| !command::is_ours(&file.path)).map(entry).collect::<Vec<_>>(),
    })))
}

/// Whether its files can be reached at this moment.
fn is_mounted(view: &SessionView) -> bool {
    matches!(view.session.status, SessionStatus::Ready | SessionStatus::Running)
}

/// The caller's sessions
#[utoipa::path(get, path = "/workspace/se/workspaces", tag = "workspace", responses((status = 200, body = Value)))]
async fn workspaces(state: State, caller: Caller) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let mut found = Map::new();
    for view in own(&state, &caller.of_engine()).await? {
        let created_at = view.session.created_at as f64 / 1000.0;
        found.insert(view.session.id, json!({"mount_point": MOUNT_POINT, "created_at": created_at}));
    }
    Ok(Json(json!({"workspaces": found})))
}

/// All sessions of a caller that are not over.
async fn own(state: &State, caller: &engine::control::Caller) -> Result<Vec<SessionView>, Problem> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = state.plane().sessions(caller, SessionFilter::default(), after.as_ref(), 200).await?;
        let alive = |view: &SessionView| view.session.status != SessionStatus::Terminated;
        found.extend(page.items.into_iter().filter(alive));
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// What is removed.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = WorkspaceCleanup)]
struct Cleanup {
    /// Whether sessions go in which something runs.
    force: bool,
}

/// Remove all sessions of the caller
#[utoipa::path(
    post, path = "/workspace/se/cleanup-all", tag = "workspace", request_body = Option<Cleanup>,
    responses((status = 200, body = Value))
)]
async fn clean_up(state: State, caller: Caller, body: Option<Body<Cleanup>>) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let force = body.is_some_and(|Body(cleanup)| cleanup.force);
    let caller = caller.of_engine();
    let views = own(&state, &caller).await?;
    let (total, mut removed, mut failed, mut skipped) = (views.len(), 0, Vec::new(), Vec::new());
    for view in views {
        let id = view.session.id;
        if !force && view.running + view.queued > 0 {
            skipped.push(id);
            continue;
        }
        match state.plane().purge_session(&caller, &id).await {
            Ok(()) => removed += 1,
            Err(_) => failed.push(id),
        }
    }
    Ok(Json(json!({"total": total, "success": removed, "failed": failed, "skipped": skipped})))
}

/// Whether work is wanted
#[utoipa::path(
    get, path = "/workspace/se/healthy", tag = "workspace", security(()),
    responses((status = 200, body = Value), (status = 503, description = "Not at the moment", body = Value))
)]
async fn healthy(state: State) -> Result<Json<Value>, Problem> {
    state.ready().await?;
    Ok(Json(json!({"status": "success"})))
}
