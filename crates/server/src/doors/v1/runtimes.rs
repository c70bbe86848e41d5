//! What this host can run, and the sandboxes that stand.

use crate::{Caller, Problem, Scope, State};
use axum::Json;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(runtimes))
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
