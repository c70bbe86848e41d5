//! Sandboxes: made, listed, started, stopped, deleted.

use super::wire::{New, Piece, Version, envelope, shown, state_of, template_of};
use crate::{Body, Caller, Id, Params, Problem, Scope, State};
use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::control::ControlError;
use engine::storage::SessionFilter;
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(get, delete))
        .routes(routes!(start))
        .routes(routes!(stop))
        .routes(routes!(restart))
}

/// Which sandboxes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// At most so many: 1 to 100, 20 if it is left out.
    page_size: Option<usize>,
    /// How many are passed over, up to 10000.
    page_offset: Option<usize>,
    /// Only those in this state.
    filter_status: Option<String>,
}

/// List sandboxes, the newest first
#[utoipa::path(get, path = "/sandboxes", tag = "sandboxes", params(Which), responses((status = 200, body = Value)))]
async fn list(
    state: State,
    caller: Caller,
    version: Version,
    Params(which): Params<Which>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let (plane, caller) = (state.plane(), caller.of_engine());
    let status = which.filter_status.as_deref().map(state_of).transpose()?;
    let filter = SessionFilter { status, template: None };
    let piece = Piece { page_size: which.page_size, page_offset: which.page_offset }.read()?;
    let (size, mut skip) = piece;
    let (mut data, mut after) = (Vec::new(), None);
    loop {
        let found = plane.sessions(&caller, filter, after.as_ref(), (size + skip).min(200)).await?;
        let passed = skip.min(found.items.len());
        skip -= passed;
        data.extend(found.items.iter().skip(passed).take(size - data.len()).map(shown));
        after = found.next;
        if after.is_none() || data.len() == size {
            break;
        }
    }
    let total = plane.store().count_sessions(&caller.tenant, filter).await?;
    Ok(Json(envelope(data, piece, u64::try_from(total).unwrap_or(0), &version)))
}

/// Make a sandbox
#[utoipa::path(
    post, path = "/sandboxes", tag = "sandboxes", request_body = New,
    responses((status = 201, description = "It is running", body = Value), (status = 422, description = "A field is wrong", body = Value),
        (status = 429, description = "More than this key may have", body = Value))
)]
async fn create(
    state: State,
    caller: Caller,
    version: Version,
    Body(new): Body<New>,
) -> Result<Response, Problem> {
    caller.require(Scope::Run)?;
    let template = match &new.image {
        Some(image) => Some(template(&state, image).await?),
        None => None,
    };
    let (view, _) = state.plane().create_session(&caller.of_engine(), new.session(template)?, None).await?;
    let place = format!("/api/{}/sandboxes/{}", version.0, view.session.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], Json(shown(&view))).into_response())
}

/// The template that is named, or that an image stands for.
async fn template(state: &State, image: &str) -> Result<String, Problem> {
    if Id::new(image).is_some() {
        match state.plane().template(image).await {
            Ok(template) => return Ok(template.id),
            Err(ControlError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    template_of(image).map(str::to_owned).ok_or_else(|| {
        Problem::invalid_field("image", "is no template, and no image that stands for one")
            .hint("`GET /api/v1/templates` lists what there is")
    })
}

/// One sandbox
#[utoipa::path(
    get, path = "/sandboxes/{id}", tag = "sandboxes", params(("id" = String, Path, description = "Of the sandbox")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = Value))
)]
async fn get(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    Ok(Json(shown(&state.plane().session(&caller.of_engine(), id.as_str()).await?)))
}

/// End a sandbox and forget it
#[utoipa::path(
    delete, path = "/sandboxes/{id}", tag = "sandboxes", params(("id" = String, Path, description = "Of the sandbox")),
    responses((status = 204, description = "It is gone"), (status = 404, description = "There is none", body = Value))
)]
async fn delete(state: State, caller: Caller, id: Id) -> Result<StatusCode, Problem> {
    caller.require(Scope::Run)?;
    Action::Delete.on(&state, &caller.of_engine(), id.as_str()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Have a sandbox go on that was stopped or paused
#[utoipa::path(
    post, path = "/sandboxes/{id}/start", tag = "sandboxes", params(("id" = String, Path, description = "Of the sandbox")),
    responses((status = 200, body = Value), (status = 409, description = "Its state says no", body = Value))
)]
async fn start(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    act(Action::Start, state, caller, id).await
}

/// Stop a sandbox; its files are kept
#[utoipa::path(
    post, path = "/sandboxes/{id}/stop", tag = "sandboxes", params(("id" = String, Path, description = "Of the sandbox")),
    responses((status = 200, body = Value), (status = 409, description = "Its state says no", body = Value))
)]
async fn stop(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    act(Action::Stop, state, caller, id).await
}

/// Stop a sandbox and start it again, with its files
#[utoipa::path(
    post, path = "/sandboxes/{id}/restart", tag = "sandboxes", params(("id" = String, Path, description = "Of the sandbox")),
    responses((status = 200, body = Value), (status = 409, description = "Its state says no", body = Value))
)]
async fn restart(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    act(Action::Restart, state, caller, id).await
}

async fn act(action: Action, state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    Ok(Json(action.on(&state, &caller.of_engine(), id.as_str()).await?))
}

/// What can be done with a sandbox as a whole.
#[derive(Clone, Copy, Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SandboxAction)]
pub(super) enum Action {
    /// It goes on.
    Start,
    /// It stops, and keeps its files.
    Stop,
    /// It stops and goes on.
    Restart,
    /// It is gone.
    Delete,
}

impl Action {
    /// Does it. The sandbox afterwards, if there still is one.
    pub(super) async fn on(
        self,
        state: &State,
        caller: &engine::control::Caller,
        id: &str,
    ) -> Result<Value, ControlError> {
        let plane = state.plane();
        let view = match self {
            Action::Start => plane.start_session(caller, id).await?,
            Action::Stop => plane.stop_session(caller, id).await?,
            Action::Restart => {
                plane.stop_session(caller, id).await?;
                plane.start_session(caller, id).await?
            }
            Action::Delete => {
                plane.purge_session(caller, id).await?;
                return Ok(Value::Null);
            }
        };
        Ok(shown(&view))
    }
}
