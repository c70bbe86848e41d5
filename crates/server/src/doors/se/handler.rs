//! A handler, called once in a sandbox of its own.

use super::TIMEOUT;
use crate::doors::ended::Ended;
use crate::{Body, Caller, Problem, Scope, State};
use axum::Json;
use engine::control::{Mode, Program};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(call))
}

/// Longest code of a handler.
const LONGEST: usize = 102_400;

/// A handler, and what it is called with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WorkspaceHandler)]
struct Call {
    /// Python that defines `handler(event)` or `handler(event, context)`; at most 102400 bytes.
    #[schema(example = "def handler(event):\n    return event['a'] + 1", max_length = 102400)]
    handler_code: String,
    /// What it is called with. `__timeout` in it is its time limit in seconds, 1 to 3600; 300 if it is left out.
    #[serde(default)]
    #[schema(value_type = Object, example = json!({"a": 41}))]
    event: Map<String, Value>,
    /// What differs from the usual context.
    #[serde(default)]
    #[schema(value_type = Object)]
    context: Map<String, Value>,
}

/// Call a handler
///
/// `exit_code` is 0 for a value, 1 where there is no handler, 2 where it raised, 3 where its value is no JSON, 124 where
/// its time was over and 137 where its memory was.
#[utoipa::path(
    post, path = "/workspace/se/v2/execute_code", tag = "workspace", request_body = Call,
    responses((status = 200, description = "What came of it, also where it failed", body = Value),
        (status = 422, description = "A field is wrong", body = Value))
)]
async fn call(state: State, caller: Caller, Body(wanted): Body<Call>) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    if wanted.handler_code.trim().is_empty() || wanted.handler_code.len() > LONGEST {
        return Err(Problem::invalid_field("handler_code", format!("is not from 1 to {LONGEST} bytes")));
    }
    let mut program = Program { language: "python".into(), code: wanted.handler_code, ..Program::default() };
    let own = wanted.event.get("__timeout").and_then(Value::as_f64);
    let usual = TIMEOUT.min(state.engine().ceiling().timeout_ms);
    if !wanted.event.contains_key("__timeout") {
        program.limits.timeout_ms = Some(usual);
    }
    program.mode = Mode::Handler;
    program.event = Some(wanted.event.into());
    program.context = wanted.context;
    let done = state.plane().execute(&caller.of_engine(), None, program, None).await?;
    let record: Value = done.record.read()?;
    let Ended { code, stdout, mut stderr, .. } = Ended::of(&done)?;
    // There is no other place for it in this answer.
    if let (true, Some(why)) = (stderr.is_empty(), record["error"]["message"].as_str()) {
        stderr = format!("{why}\n");
    }
    let metrics = &record["metrics"];
    Ok(Json(json!({
        "exit_code": code,
        "stdout": stdout,
        "stderr": stderr,
        "result": record["return_value"],
        "metrics": {
            "duration_ms": metrics["duration_ms"],
            "memory_peak_mb": metrics["memory_peak_bytes"].as_f64().map(|bytes| bytes / 1_048_576.0),
            "cpu_time_ms": metrics["cpu_time_ms"],
            "timeout_seconds": own.unwrap_or(usual as f64 / 1000.0),
        },
    })))
}
