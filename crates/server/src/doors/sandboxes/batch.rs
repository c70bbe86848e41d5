//! One thing done with many sandboxes.

use super::life::Action;
use crate::doors::v1::wire::{Amount, seconds};
use crate::{Body, Caller, Id, Problem, Scope, State};
use axum::Json;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(batch))
}

/// Most sandboxes at once.
const MOST: usize = 100;

/// What is done with which sandboxes.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SandboxBatch)]
struct Batch {
    /// What is done.
    action: Action,
    /// With which, up to 100.
    sandbox_ids: Vec<String>,
    /// Kept for old clients: no action has any.
    #[serde(default)]
    parameters: std::collections::BTreeMap<String, Value>,
    /// How.
    #[serde(default)]
    options: How,
}

/// How it is done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = SandboxBatchOptions)]
struct How {
    /// Whether the rest is tried after a failure; then one comes after the other if it is not.
    continue_on_error: bool,
    /// After how long no further one is begun: seconds or text.
    timeout: Option<Amount>,
    /// How many at once: 1 to 16.
    max_concurrency: usize,
}

impl Default for How {
    fn default() -> How {
        How { continue_on_error: true, timeout: None, max_concurrency: 4 }
    }
}

impl Batch {
    fn check(&self) -> Result<(), Problem> {
        if !(1..=MOST).contains(&self.sandbox_ids.len()) {
            return Err(Problem::invalid_field("sandbox_ids", format!("are not from 1 to {MOST}")));
        }
        if !(1..=16).contains(&self.options.max_concurrency) {
            return Err(Problem::invalid_field("options.max_concurrency", "is not from 1 to 16"));
        }
        match self.parameters.keys().next() {
            Some(name) => Err(Problem::invalid_field(format!("parameters.{name}"), "no action has it")),
            None => Ok(()),
        }
    }
}

/// Do one thing with many sandboxes
#[utoipa::path(
    post, path = "/sandboxes:batch", tag = "sandboxes", request_body = Batch,
    responses((status = 200, description = "What came of each, in the order they were named", body = Value),
        (status = 422, description = "A field is wrong", body = Value))
)]
async fn batch(state: State, caller: Caller, Body(batch): Body<Batch>) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    batch.check()?;
    let How { continue_on_error, timeout, max_concurrency } = batch.options;
    let patience = seconds("options.timeout", timeout.as_ref())?.map(Duration::from_millis);
    let (caller, began, failed) = (caller.of_engine(), Instant::now(), AtomicBool::new(false));
    let each = |id: String| {
        let (state, caller, failed) = (&state, &caller, &failed);
        async move {
            let late = patience.is_some_and(|patience| began.elapsed() >= patience);
            let done = match Id::new(&id) {
                _ if late => Err("the time of the batch was over before".to_owned()),
                _ if !continue_on_error && failed.load(Ordering::Relaxed) => {
                    Err("not tried, because one before it failed".to_owned())
                }
                None => Err("is no id".to_owned()),
                Some(id) => {
                    let done = batch.action.on(state, caller, id.as_str()).await;
                    done.map_err(|error| Problem::from(error).detail().to_owned())
                }
            };
            failed.fetch_or(done.is_err(), Ordering::Relaxed);
            match done {
                Ok(sandbox) => json!({"sandbox_id": id, "success": true, "result": sandbox, "error": null}),
                Err(error) => json!({"sandbox_id": id, "success": false, "result": null, "error": error}),
            }
        }
    };
    let at_once = if continue_on_error { max_concurrency } else { 1 };
    let results: Vec<Value> = stream::iter(batch.sandbox_ids).map(each).buffered(at_once).collect().await;
    let succeeded = results.iter().filter(|result| result["success"] == true).count();
    let (total, lost) = (results.len(), results.len() - succeeded);
    Ok(Json(json!({"results": results, "summary": {"total": total, "succeeded": succeeded, "failed": lost}})))
}
