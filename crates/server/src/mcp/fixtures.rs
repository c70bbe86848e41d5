//! What the official conformance suite expects of a server under test: tools, resources and prompts of fixed names that
//! answer in fixed words.
//!
//! They show that the protocol is spoken as it should be; they run no code and know nothing of sandboxes. A server has
//! them only if it was started with fixtures. Every function says nothing (`None`) to what is not one of them, so that
//! the handler asks here first and then goes on as ever.

mod asking;
mod jobs;
mod logging;
mod prompts;
mod resources;
mod schemas;
mod state;
mod tools;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, JsonObject, Prompt, ReadResourceResponse, Resource,
    ResourceTemplate, ServerCapabilities, SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::LazyLock;
use tokio::sync::broadcast;

/// A picture of one red point, as base64 of PNG.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

/// Changes that a listener may be behind before it misses the oldest.
const BEHIND: usize = 16;

static CHANGES: LazyLock<broadcast::Sender<Change>> = LazyLock::new(|| broadcast::channel(BEHIND).0);

/// A list that has become another one, or so a fixture says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Tools,
    Prompts,
}

/// A mistake, as anybody could make one. It is the point that nobody else notices.
#[expect(clippy::panic, reason = "that is what it is for")]
fn broken<T>() -> T {
    panic!("a fixture was asked to break")
}

pub(super) fn tools() -> Vec<Tool> {
    tools::list()
}

/// Does what a tool of theirs does, or begins a task that does.
pub(super) async fn call(
    params: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    tasks: &TaskManager,
) -> Option<Result<CallToolResponse, ErrorData>> {
    if let Some(answer) = asking::call(params, context) {
        return Some(answer);
    }
    match jobs::call(params, context, tasks).await {
        Some(answer) => Some(answer),
        None => tools::call(params, context).await,
    }
}

pub(super) fn resources() -> Vec<Resource> {
    resources::list()
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    resources::templates()
}

/// What is in a resource of theirs.
pub(super) async fn read(uri: &str) -> Option<Result<ReadResourceResponse, ErrorData>> {
    resources::read(uri).map(|result| Ok(result.into()))
}

pub(super) fn prompts() -> Vec<Prompt> {
    prompts::list()
}

/// The messages of a prompt of theirs.
pub(super) fn get_prompt(
    params: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<GetPromptResponse, ErrorData>> {
    prompts::get(params, context)
}

/// What an argument of a prompt or template of theirs could go on as.
pub(super) fn complete(params: &CompleteRequestParams) -> Option<Result<CompleteResult, ErrorData>> {
    prompts::complete(params).map(Ok)
}

/// Says that lists of theirs change.
pub(super) fn add_to(capabilities: &mut ServerCapabilities) {
    if let Some(tools) = &mut capabilities.tools {
        tools.list_changed = Some(true);
    }
    if let Some(prompts) = &mut capabilities.prompts {
        prompts.list_changed = Some(true);
    }
}

/// What of it can be listened to.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = SubscriptionFilter::new();
    accepted.tools_list_changed = requested.tools_list_changed;
    accepted.prompts_list_changed = requested.prompts_list_changed;
    let uris = requested.resource_subscriptions.iter().flatten();
    let theirs: Vec<String> = uris.filter(|uri| resources::read(uri).is_some()).cloned().collect();
    accepted.resource_subscriptions = (!theirs.is_empty()).then_some(theirs);
    accepted
}

/// Tells a listener about changes until it is gone. What it did not ask for is kept from it.
pub(super) async fn listen(context: &SubscriptionContext) {
    let mut changes = CHANGES.subscribe();
    loop {
        let change = tokio::select! {
            () = context.cancelled() => return,
            change = changes.recv() => change,
        };
        let sent = match change {
            Ok(Change::Tools) if context.accepted().tools_list_changed == Some(true) => {
                context.sink().notify_tool_list_changed().await
            }
            Ok(Change::Prompts) if context.accepted().prompts_list_changed == Some(true) => {
                context.sink().notify_prompt_list_changed().await
            }
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => Ok(()),
            Err(broadcast::error::RecvError::Closed) => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Tells everyone who listens.
fn changed(change: Change) {
    // Fails if nobody does.
    let _ = CHANGES.send(change);
}

/// The members of a JSON object.
fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}

/// What that JSON says, as one of the protocol's own types.
fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("a fixture is malformed: {error}"), None))
}

#[cfg(test)]
mod served;
