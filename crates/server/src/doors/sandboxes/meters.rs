//! What happened in a sandbox, and what it uses. Only the second version had these.

use super::wire::{Piece, Version, envelope, word};
use crate::clock::{now, now_ms};
use crate::doors::v1::wire::shown;
use crate::{Caller, Id, Params, Problem, Scope, State};
use axum::Json;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(logs)).routes(routes!(metrics))
}

/// Most files that are counted.
const MOST_FILES: usize = 10_000;

/// What programs of a sandbox wrote, the newest first
#[utoipa::path(
    get, path = "/sandboxes/{id}/logs", tag = "sandboxes", params(("id" = String, Path, description = "Of the sandbox"), Piece),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = Value))
)]
async fn logs(
    state: State,
    caller: Caller,
    version: Version,
    id: Id,
    Params(piece): Params<Piece>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let (plane, caller, piece) = (state.plane(), caller.of_engine(), piece.read()?);
    plane.session(&caller, id.as_str()).await?;
    let (size, mut skip) = piece;
    let (mut data, mut after) = (Vec::new(), None);
    loop {
        let session = Some(id.as_str());
        let found = plane.executions(&caller, session, after.as_ref(), (size + skip).min(200)).await?;
        let passed = skip.min(found.items.len());
        skip -= passed;
        for execution in found.items.iter().skip(passed).take(size - data.len()) {
            data.push(line(&shown(execution)?));
        }
        after = found.next;
        if after.is_none() || data.len() == size {
            break;
        }
    }
    let total = plane.store().count_executions(&caller.tenant, Some(id.as_str())).await?;
    Ok(Json(envelope(data, piece, u64::try_from(total).unwrap_or(0), &version)))
}

fn line(execution: &Value) -> Value {
    json!({
        "execution_id": execution["id"],
        "timestamp": execution["started_at"],
        "language": execution["language"],
        "status": execution["outcome"],
        "exit_code": execution["exit_code"],
        "stdout": execution["stdout"],
        "stderr": execution["stderr"],
    })
}

/// What a sandbox has used so far
#[utoipa::path(
    get, path = "/sandboxes/{id}/metrics", tag = "sandboxes", params(("id" = String, Path, description = "Of the sandbox")),
    responses((status = 200, description = "`null` is what this host does not count", body = Value),
        (status = 409, description = "It has none at the moment", body = Value))
)]
async fn metrics(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let (plane, caller, id) = (state.plane(), caller.of_engine(), id.as_str());
    let view = plane.session(&caller, id).await?;
    let used = plane.session_usage(&caller, id).await?;
    // Files of a sandbox that is paused cannot be looked at.
    let files = plane.list_files(&caller, id, "", true, None, MOST_FILES).await.ok().map(|list| list.entries);
    let limits = &view.spec.limits;
    Ok(Json(json!({
        "sandbox_id": id,
        "status": word(view.session.status),
        "cpu": {"time_ms": used.cpu_micros.map(|micros| micros as f64 / 1000.0), "limit": limits.cpu_millis.map(|millis| millis as f64 / 1000.0)},
        "memory": {"peak_bytes": used.memory_peak_bytes, "limit_bytes": limits.memory_bytes, "oom_kills": used.oom_kills},
        "disk": {
            "used_bytes": files.as_ref().map(|files| files.iter().map(|file| file.size).sum::<u64>()),
            "files": files.as_ref().map(Vec::len),
            "limit_bytes": limits.disk_bytes,
        },
        "network": {"mode": plane.settings().defaults.network},
        "processes": {"peak": used.pids_peak, "refused": used.pids_refused, "programs_running": view.running},
        "uptime": (now_ms() - view.session.created_at).max(0) as f64 / 1000.0,
        "timestamp": now(),
    })))
}
