//! Files and prompts of agents for clients that do not speak their protocol.

use super::tools::mcp;
use super::wire::{Piece, Version, envelope};
use crate::{Body, Caller, Params, Problem, Scope, State};
use axum::Json;
use axum::extract::Path;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(resources))
        .routes(routes!(resource))
        .routes(routes!(prompts))
        .routes(routes!(prompt, fill))
}

/// Most files that are counted.
const MOST_FILES: usize = 10_000;

/// A list that is there as a whole, in its envelope.
fn listed<T: Serialize>(all: &[T], piece: (usize, usize), version: &Version) -> Result<Json<Value>, Problem> {
    let data = all.iter().skip(piece.1).take(piece.0).map(|item| json!(item)).collect();
    Ok(Json(envelope(data, piece, all.len() as u64, version)))
}

/// List files of all sandboxes, by their addresses
#[utoipa::path(get, path = "/resources", tag = "sandboxes", params(Piece), responses((status = 200, body = Value)))]
async fn resources(
    state: State,
    caller: Caller,
    version: Version,
    Params(piece): Params<Piece>,
) -> Result<Json<Value>, Problem> {
    let piece = piece.read()?;
    listed(&mcp(&state)?.resources(caller, MOST_FILES).await?, piece, &version)
}

/// Which file.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Its address, such as `sandbox://demo/notes.txt`.
    uri: String,
}

/// Read a file by its address
#[utoipa::path(
    get, path = "/resources/read", tag = "sandboxes", params(Which),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = Value),
        (status = 413, description = "It is too large", body = Value), (status = 422, description = "The address is wrong", body = Value))
)]
async fn resource(
    state: State,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Value>, Problem> {
    Ok(Json(json!(mcp(&state)?.resource(caller, &which.uri).await?)))
}

/// List prompts
#[utoipa::path(get, path = "/prompts", tag = "sandboxes", params(Piece), responses((status = 200, body = Value)))]
async fn prompts(
    state: State,
    caller: Caller,
    version: Version,
    Params(piece): Params<Piece>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    listed(&mcp(&state)?.prompts(), piece.read()?, &version)
}

/// One prompt
#[utoipa::path(
    get, path = "/prompts/{name}", tag = "sandboxes", params(("name" = String, Path, description = "Of the prompt")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = Value))
)]
async fn prompt(state: State, caller: Caller, Path(name): Path<String>) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let all = mcp(&state)?.prompts();
    let found = all.iter().find(|prompt| prompt.name == name);
    Ok(Json(json!(found.ok_or_else(|| Problem::not_found("prompt"))?)))
}

/// What a prompt is filled with.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = PromptArguments)]
struct With {
    /// Texts, by the names of its arguments.
    #[schema(value_type = Object, example = json!({"question": "How many primes are below 1000?"}))]
    arguments: Map<String, Value>,
}

/// Fill in a prompt
#[utoipa::path(
    post, path = "/prompts/{name}", tag = "sandboxes", request_body = With, params(("name" = String, Path, description = "Of the prompt")),
    responses((status = 200, description = "Messages for a model", body = Value), (status = 404, description = "There is none", body = Value),
        (status = 422, description = "An argument is missing", body = Value))
)]
async fn fill(
    state: State,
    caller: Caller,
    Path(name): Path<String>,
    Body(with): Body<With>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    Ok(Json(json!(mcp(&state)?.prompt(&name, with.arguments)?)))
}
