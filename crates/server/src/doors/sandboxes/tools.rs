//! Tools of agents for clients that do not speak their protocol: the same tools, by plain requests.

use super::wire::{Piece, Version, envelope};
use crate::clock::now;
use crate::doors::v1::wire::{Amount, seconds};
use crate::mcp::Mcp;
use crate::{Body, Caller, Params, Problem, Scope, State};
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use rmcp::model::{CallToolResult, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get)).routes(routes!(execute))
}

/// One tool by one request, with its arguments as the body.
pub(super) fn short_door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(call))
}

/// What agents find. There is no door to here where they find nothing.
pub(super) fn mcp(state: &State) -> Result<&Mcp, Problem> {
    state.mcp().ok_or_else(|| Problem::not_found("tool"))
}

fn shown(tool: &Tool) -> Value {
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
    })
}

/// List tools
#[utoipa::path(get, path = "/tools", tag = "sandboxes", params(Piece), responses((status = 200, body = Value)))]
async fn list(
    state: State,
    caller: Caller,
    version: Version,
    Params(piece): Params<Piece>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let (piece, tools) = (piece.read()?, mcp(&state)?.tools());
    let data = tools.iter().skip(piece.1).take(piece.0).map(shown).collect();
    Ok(Json(envelope(data, piece, tools.len() as u64, &version)))
}

/// One tool
#[utoipa::path(
    get, path = "/tools/{name}", tag = "sandboxes", params(("name" = String, Path, description = "Of the tool")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = Value))
)]
async fn get(state: State, caller: Caller, Path(name): Path<String>) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let tool = mcp(&state)?.tools().iter().find(|tool| tool.name == name);
    Ok(Json(shown(tool.ok_or_else(|| Problem::not_found("tool"))?)))
}

/// How a tool is used.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ToolUse)]
struct Use {
    /// Its arguments, by name.
    #[serde(default)]
    #[schema(value_type = Object, example = json!({"language": "python", "code": "print(6 * 7)"}))]
    arguments: Map<String, Value>,
    /// How it is waited for.
    #[serde(default)]
    options: How,
}

/// How a tool is waited for.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = ToolOptions)]
struct How {
    /// For how long at most: seconds or text.
    timeout: Option<Amount>,
    /// Only `false`: the answer is the result.
    r#async: bool,
    /// Only `false`: the streams of `/api/v1/sessions` show output while it comes.
    stream: bool,
    /// Only null: what failed may be asked for again.
    retry_policy: Option<Value>,
}

impl How {
    fn check(&self) -> Result<Option<Duration>, Problem> {
        for (name, is_asked) in
            [("async", self.r#async), ("stream", self.stream), ("retry_policy", self.retry_policy.is_some())]
        {
            if is_asked {
                return Err(Problem::invalid_field(format!("options.{name}"), "there is no such way here")
                    .hint("leave it out; `/api/v1/execute` and `/mcp` have more of them"));
            }
        }
        Ok(seconds("options.timeout", self.timeout.as_ref())?.map(Duration::from_millis))
    }
}

/// Use a tool
#[utoipa::path(
    post, path = "/tools/{name}/execute", tag = "sandboxes", request_body = Use, params(("name" = String, Path, description = "Of the tool")),
    responses((status = 200, description = "What it says; `is_error` tells whether it could do it", body = Value),
        (status = 404, description = "There is none", body = Value), (status = 422, description = "A field is wrong", body = Value),
        (status = 504, description = "It took longer than `options.timeout`", body = Value))
)]
async fn execute(
    state: State,
    caller: Caller,
    Path(name): Path<String>,
    Body(wanted): Body<Use>,
) -> Result<Json<Value>, Problem> {
    let (patience, began) = (wanted.options.check()?, Instant::now());
    let call = mcp(&state)?.call(caller, &name, wanted.arguments);
    let result = match patience {
        None => call.await?,
        Some(patience) => tokio::time::timeout(patience, call).await.map_err(|_| {
            Problem::new(StatusCode::GATEWAY_TIMEOUT, "timed_out", "the tool took longer than it may")
                .field("options.timeout")
        })??,
    };
    let facts = facts(&result);
    let execution = facts.get("execution_id").or_else(|| facts.get("execution")?.get("execution_id"));
    Ok(Json(json!({
        "result": words(&result),
        "is_error": result.is_error.unwrap_or(false),
        "execution_id": execution,
        "duration": began.elapsed().as_secs_f64(),
        "timestamp": now(),
        "metadata": facts,
    })))
}

/// Use a tool, with its arguments as the body
#[utoipa::path(
    post, path = "/mcp/tools/{name}", tag = "sandboxes", params(("name" = String, Path, description = "Of the tool")),
    request_body(content = Object, description = "Its arguments, by name"),
    responses((status = 200, description = "What it says; `is_error` tells whether it could do it", body = Value),
        (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn call(
    state: State,
    caller: Caller,
    Path(name): Path<String>,
    arguments: Option<Body<Map<String, Value>>>,
) -> Result<Json<Value>, Problem> {
    let arguments = arguments.map(|Body(arguments)| arguments).unwrap_or_default();
    let said = match mcp(&state)?.call(caller, &name, arguments).await {
        Ok(result) => json!({
            "text": words(&result), "is_error": result.is_error.unwrap_or(false), "metadata": facts(&result),
        }),
        Err(problem) if problem.code() == "tool_not_found" => return Err(problem),
        Err(problem) => json!({
            "text": problem.words(), "is_error": true, "metadata": {"error_code": code(&problem)},
        }),
    };
    Ok(Json(said))
}

/// What a tool says to people. Pictures and sounds are for those who speak the protocol.
fn words(result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| block.as_text());
    texts.map(|block| block.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// What a tool says to programs.
fn facts(result: &CallToolResult) -> Value {
    result.structured_content.clone().unwrap_or_else(|| json!({}))
}

/// The word of the founding system for what is wrong.
fn code(problem: &Problem) -> &'static str {
    match (problem.status().as_u16(), problem.code()) {
        (404, "session_not_found") => "SANDBOX_NOT_FOUND",
        (404, "template_not_found") => "IMAGE_NOT_FOUND",
        (413 | 429 | 507, _) => "RESOURCE_LIMIT_EXCEEDED",
        (503, _) => "INSUFFICIENT_RESOURCES",
        (400..=499, _) => "INVALID_PARAMETERS",
        _ => "INTERNAL_ERROR",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_codes_that_were_documented() {
        let of = |problem: Problem| code(&problem);
        assert_eq!(of(Problem::not_found("session")), "SANDBOX_NOT_FOUND");
        assert_eq!(of(Problem::not_found("template")), "IMAGE_NOT_FOUND");
        assert_eq!(of(Problem::invalid_field("code", "is empty")), "INVALID_PARAMETERS");
        assert_eq!(of(Problem::too_many("limit_reached", "", Duration::ZERO)), "RESOURCE_LIMIT_EXCEEDED");
        assert_eq!(of(Problem::unavailable("", Duration::ZERO)), "INSUFFICIENT_RESOURCES");
        assert_eq!(of(Problem::internal()), "INTERNAL_ERROR");
    }
}
