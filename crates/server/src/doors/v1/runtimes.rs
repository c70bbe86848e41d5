//! What this host can run, and the sandboxes that stand.

use crate::clock::rfc3339;
use crate::{Caller, Id, Params, Problem, Scope, State};
use axum::Json;
use engine::control::{NodeView, SessionView};
use engine::storage::{NodeStatus, SessionStatus};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(runtimes))
        .routes(routes!(nodes))
        .routes(routes!(node_health))
        .routes(routes!(node_metrics))
        .routes(routes!(containers))
        .routes(routes!(container))
        .routes(routes!(logs))
}

/// Languages this host has, and what keeps it from having the others
#[utoipa::path(get, path = "/api/v1/runtimes", tag = "runtimes", responses((status = 200, body = Value)))]
async fn runtimes(state: State, caller: Caller) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let engine = state.plane().engine();
    let mut items = Vec::new();
    for runtime in engine.catalogue().runtimes()? {
        let found = engine::runtime::find::find(runtime);
        items.push(json!({
            "name": runtime.name,
            "title": runtime.title,
            "aliases": runtime.aliases,
            "available": found.is_ok(),
            "missing": found.err().map(|why| why.to_string()),
        }));
    }
    Ok(Json(json!({"items": items})))
}

/// A node, for people and programs.
fn node_shown(node: &NodeView) -> Value {
    json!({
        "id": node.id,
        "status": node.status.word(),
        "runtime_type": node.spec.kind,
        "cpu_cores": node.spec.cores,
        "memory_bytes": node.spec.memory_bytes,
        "max_sessions": node.spec.max_sessions,
        "load": node.load,
        "last_heartbeat_at": rfc3339(node.heartbeat_at),
    })
}

async fn node_named(state: &State, caller: &Caller, id: &Id) -> Result<NodeView, Problem> {
    caller.require(Scope::Admin)?;
    let all = state.plane().nodes().await?;
    all.into_iter().find(|node| node.id == id.as_str()).ok_or_else(|| Problem::not_found("node"))
}

/// Hosts that make sandboxes, and how they are doing
#[utoipa::path(get, path = "/api/v1/nodes", tag = "runtimes", responses((status = 200, body = Value)))]
async fn nodes(state: State, caller: Caller) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Admin)?;
    let all = state.plane().nodes().await?;
    Ok(Json(json!({"items": all.iter().map(node_shown).collect::<Vec<_>>(), "total": all.len()})))
}

/// Whether a node is given anything
#[utoipa::path(
    get, path = "/api/v1/runtimes/{runtime_id}/health", tag = "runtimes", params(("runtime_id" = String, Path, description = "Of the node, such as `local`")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn node_health(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    let node = node_named(&state, &caller, &id).await?;
    let healthy = node.status == NodeStatus::Online;
    Ok(Json(
        json!({"runtime_id": node.id, "healthy": healthy, "status": node.status.word(), "last_heartbeat_at": rfc3339(node.heartbeat_at)}),
    ))
}

/// How a node is doing
#[utoipa::path(
    get, path = "/api/v1/runtimes/{runtime_id}/metrics", tag = "runtimes", params(("runtime_id" = String, Path, description = "Of the node, such as `local`")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn node_metrics(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    Ok(Json(node_shown(&node_named(&state, &caller, &id).await?)))
}

/// A sandbox as the founding platform shows a container.
fn shown(view: &SessionView) -> Value {
    let (session, limits) = (&view.session, &view.limits);
    json!({
        "id": session.sandbox_id,
        "session_id": session.id,
        "runtime_type": "native",
        "node_id": session.node,
        "container_name": session.sandbox_id.as_ref().map(|id| format!("sandbox-{}", id.get(..8).unwrap_or(id))),
        "image_url": null,
        "status": if session.status == SessionStatus::Paused { "paused" } else { "running" },
        "ip_address": null,
        "cpu_cores": limits.map(|limits| limits.cpu_millis as f64 / 1000.0),
        "memory_mb": limits.map(|limits| limits.memory_bytes >> 20),
        "disk_mb": limits.map(|limits| limits.disk_bytes >> 20),
        "created_at": rfc3339(session.created_at),
        "started_at": rfc3339(session.created_at),
        "exited_at": null,
    })
}

/// Which sandboxes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only those that are `running` or `paused`.
    status: Option<String>,
    /// Only those of this kind; there is `native`.
    runtime_type: Option<String>,
    /// At most so many: 1 to 200, 50 if it is left out.
    limit: Option<usize>,
}

/// Sandboxes of sessions that stand at the moment
#[utoipa::path(get, path = "/api/v1/containers", tag = "runtimes", params(Which), responses((status = 200, body = Value)))]
async fn containers(
    state: State,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let limit = which.limit.unwrap_or(50);
    if !(1..=200).contains(&limit) {
        return Err(Problem::invalid_field("limit", "is not from 1 to 200"));
    }
    let all: Vec<Value> = state.plane().standing(&caller.of_engine()).iter().map(shown).collect();
    let fits = |one: &&Value| {
        let is =
            |key: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| one[key] == **wanted);
        is("status", &which.status) && is("runtime_type", &which.runtime_type)
    };
    let items: Vec<&Value> = all.iter().filter(fits).take(limit).collect();
    Ok(Json(json!({"items": items, "total": all.iter().filter(fits).count()})))
}

/// One sandbox
#[utoipa::path(
    get, path = "/api/v1/containers/{container_id}", tag = "runtimes", params(("container_id" = String, Path, description = "Of the sandbox")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn container(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    Ok(Json(shown(&found(&state, &caller, &id)?)))
}

fn found(state: &State, caller: &Caller, id: &Id) -> Result<SessionView, Problem> {
    let all = state.plane().standing(&caller.of_engine());
    let found = all.into_iter().find(|view| view.session.sandbox_id.as_deref() == Some(id.as_str()));
    found.ok_or_else(|| Problem::not_found("container"))
}

/// How much of what a sandbox wrote.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Tail {
    /// Its newest executions: 1 to 200, 100 if it is left out.
    tail: Option<usize>,
}

/// What the newest programs of a sandbox wrote, the oldest first
#[utoipa::path(
    get, path = "/api/v1/containers/{container_id}/logs", tag = "runtimes", params(("container_id" = String, Path, description = "Of the sandbox"), Tail),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn logs(
    state: State,
    caller: Caller,
    id: Id,
    Params(tail): Params<Tail>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let limit = tail.tail.unwrap_or(100);
    if !(1..=200).contains(&limit) {
        return Err(Problem::invalid_field("tail", "is not from 1 to 200"));
    }
    let session = found(&state, &caller, &id)?.session.id;
    let newest = state.plane().executions(&caller.of_engine(), Some(&session), None, limit).await?;
    let mut lines = Vec::new();
    for execution in newest.items.iter().rev() {
        let shown = super::wire::shown(execution)?;
        lines.push(json!({"execution_id": shown["id"], "at": shown["completed_at"], "status": shown["status"], "stdout": shown["stdout"], "stderr": shown["stderr"]}));
    }
    Ok(Json(json!({"container_id": id.as_str(), "session_id": session, "logs": lines})))
}
