//! Sessions: made, looked at, paused, ended.

use super::dependencies::{self, PackageIn};
use super::execute::key;
use super::executions::Piece;
use super::wire::{Amount, Limits, NetworkIn, count, millicores, seconds, size};
use crate::clock::rfc3339;
use crate::{Body, Caller, Id, Params, Problem, Scope, State};
use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::control::{Install, NewSession, SessionSpec, SessionView};
use engine::limits::Wanted;
use engine::storage::{Cursor, SessionFilter, SessionMode, SessionStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(get, delete))
        .routes(routes!(status))
        .routes(routes!(terminate))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(history))
}

/// How long a session is meant to last.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SessionMode)]
enum Mode {
    /// For one program.
    Ephemeral,
    /// For many, with a workspace that is kept.
    #[default]
    Persistent,
}

/// What a session shall be like. What is left out, its template says.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = NewSession)]
struct New {
    /// Its id; one is made if it is left out.
    #[schema(example = "my-session", max_length = 64)]
    id: Option<String>,
    /// What it is made from.
    #[schema(example = "python-basic")]
    template_id: Option<String>,
    /// How long it is meant to last.
    mode: Mode,
    /// The agent that gets this session back when it asks again.
    agent_id: Option<String>,
    /// Wall time of one program of it, in seconds: 1 to 3600.
    timeout: Option<Amount>,
    /// Cores: a number or text.
    cpu: Option<Amount>,
    /// Memory: bytes, or text such as `512Mi`.
    memory: Option<Amount>,
    /// Storage: bytes, or text such as `1Gi`. Files live in memory, so it is within that.
    disk: Option<Amount>,
    /// Everything that can be bounded.
    limits: Limits,
    /// Environment of its programs.
    #[serde(alias = "env")]
    env_vars: BTreeMap<String, String>,
    /// Languages that will be asked for.
    languages: Vec<String>,
    /// What it may reach.
    network: Option<NetworkIn>,
    /// Programs of it that run at once: from 1, which is usual, to what the operator allows.
    #[schema(minimum = 1, maximum = 16)]
    max_concurrent: Option<i64>,
    /// How long it may do nothing: seconds or text; -1 for ever.
    idle_timeout: Option<Amount>,
    /// How long it may live: seconds or text; -1 for ever.
    lifetime: Option<Amount>,
    /// What the caller wants to find again.
    metadata: BTreeMap<String, String>,
    /// Packages of Python it shall have, at most 50. Its programs wait until they are there.
    #[schema(max_items = 50)]
    dependencies: Vec<PackageIn>,
    /// Where they come from: an index by http or https. The public index if it is left out.
    #[schema(max_length = 512)]
    python_package_index_url: Option<String>,
    /// How long installing them may take: seconds or text, 30 seconds to 30 minutes; 5 minutes if it is left out.
    install_timeout: Option<Amount>,
    /// Whether the session fails if they cannot be installed; it does if this is left out.
    fail_on_dependency_error: Option<bool>,
    /// Whether of two versions of a package the later one is meant, and that is no error.
    allow_version_conflicts: bool,
}

/// A time that may be for ever.
fn span(field: &str, amount: Option<&Amount>) -> Result<Option<i64>, Problem> {
    match amount {
        Some(Amount::Number(-1.0)) => Ok(Some(-1)),
        Some(Amount::Text(text)) if text == "-1" => Ok(Some(-1)),
        other => Ok(seconds(field, other)?.map(|ms| ms.min(i64::MAX as u64) as i64)),
    }
}

impl New {
    fn session(self) -> Result<NewSession, Problem> {
        let own = Wanted {
            timeout_ms: seconds("timeout", self.timeout.as_ref())?,
            cpu_millis: millicores("cpu", self.cpu.as_ref())?,
            memory_bytes: size("memory", self.memory.as_ref())?,
            disk_bytes: size("disk", self.disk.as_ref())?,
            ..Wanted::default()
        };
        let install = Install {
            packages: self.dependencies.into_iter().map(Into::into).collect(),
            index: dependencies::index(self.python_package_index_url.as_deref())?,
            timeout_ms: seconds("install_timeout", self.install_timeout.as_ref())?,
            allow_version_conflicts: self.allow_version_conflicts,
            required: self.fail_on_dependency_error.unwrap_or(true),
        };
        let wanted = !install.packages.is_empty() || install.index.is_some();
        Ok(NewSession {
            id: self.id,
            template: self.template_id,
            mode: match self.mode {
                Mode::Ephemeral => SessionMode::Ephemeral,
                Mode::Persistent => SessionMode::Persistent,
            },
            agent_id: self.agent_id,
            spec: SessionSpec {
                limits: self.limits.wanted()?.or(own),
                env: self.env_vars,
                languages: self.languages,
                network: self.network.map(Into::into),
                max_concurrent: self.max_concurrent.map(count),
                metadata: self.metadata,
                dependencies: None,
            },
            install: wanted.then_some(install),
            idle_ms: span("idle_timeout", self.idle_timeout.as_ref())?,
            lifetime_ms: span("lifetime", self.lifetime.as_ref())?,
        })
    }
}

/// A session as it is shown, in the words of the founding platform and in ours.
pub(super) fn shown(view: &SessionView) -> Value {
    let session = &view.session;
    let limits = &view.limits;
    let state = session.status;
    let mut shown = json!({
        "id": session.id,
        "template_id": session.template,
        "status": founding(state),
        "state": state.word(),
        "mode": session.mode.word(),
        "agent_id": session.agent_id,
        "resource_limit": {
            "cpu": limits.map(|limits| (limits.cpu_millis as f64 / 1000.0).to_string()),
            "memory": limits.map(|limits| binary(limits.memory_bytes)),
            "disk": limits.map(|limits| binary(limits.disk_bytes)),
            "max_processes": limits.map(|limits| limits.pids),
        },
        "limits": limits,
        "defaults": defaults(&view.spec),
        "timeout": limits.map(|limits| limits.timeout_ms as f64 / 1000.0),
        "languages": view.spec.languages,
        "language_runtime": view.spec.languages.first(),
        "network": view.network,
        "env_vars": view.spec.env,
        "metadata": view.spec.metadata,
        "workspace_path": "/workspace",
        "runtime_type": "native",
        "runtime_node": session.node,
        "container_id": session.sandbox_id,
        "pod_name": null,
        "max_concurrent": view.max_concurrent,
        "running": view.running,
        "queued": view.queued,
        "idle_timeout_ms": session.idle_ms,
        "lifetime_ms": session.lifetime_ms,
        "created_at": rfc3339(session.created_at),
        "updated_at": rfc3339(session.last_activity_at),
        "last_activity_at": rfc3339(session.last_activity_at),
        "completed_at": session.ended_at.map(rfc3339),
    });
    dependencies::show(view.spec.dependencies.as_ref(), &mut shown);
    shown
}

/// What nobody asked for, neither the session nor its template, by name: limits, and its network.
fn defaults(spec: &SessionSpec) -> Vec<String> {
    let limits = json!(spec.limits);
    let names = limits.as_object().into_iter().flatten().filter(|(_, asked)| asked.is_null());
    names.map(|(name, _)| name.clone()).chain(spec.network.is_none().then(|| "network".to_owned())).collect()
}

/// The founding platform's word for a state.
fn founding(state: SessionStatus) -> &'static str {
    match state {
        SessionStatus::Creating => "creating",
        SessionStatus::Ready | SessionStatus::Running | SessionStatus::Paused => "running",
        SessionStatus::Stopping | SessionStatus::Stopped => "completed",
        SessionStatus::Failed => "failed",
        SessionStatus::Terminated => "terminated",
    }
}

fn binary(bytes: u64) -> String {
    match bytes {
        bytes if bytes % (1 << 30) == 0 => format!("{}Gi", bytes >> 30),
        bytes if bytes % (1 << 20) == 0 => format!("{}Mi", bytes >> 20),
        bytes => bytes.to_string(),
    }
}

/// Make a session
#[utoipa::path(
    post, path = "/api/v1/sessions", tag = "sessions", request_body = New,
    params(("Idempotency-Key" = Option<String>, Header, description = "Stands for this request, for a day")),
    responses(
        (status = 201, description = "It is ready, but perhaps for its packages", body = Value),
        (status = 200, description = "The agent has it already, or an earlier request with this key made it", body = Value),
        (status = 403, description = "Sessions here install no packages", body = crate::problem::Facts),
        (status = 404, description = "There is no such template", body = crate::problem::Facts),
        (status = 409, description = "The id is taken", body = crate::problem::Facts),
        (status = 422, description = "A field is wrong", body = crate::problem::Facts),
        (status = 429, description = "More than this key may have", body = crate::problem::Facts),
    )
)]
async fn create(
    state: State,
    caller: Caller,
    headers: HeaderMap,
    Body(new): Body<New>,
) -> Result<Response, Problem> {
    caller.require(Scope::Run)?;
    let (view, made) =
        state.plane().create_session(&caller.of_engine(), new.session()?, key(&headers)?.as_deref()).await?;
    let place = format!("/api/v1/sessions/{}", view.session.id);
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [(header::LOCATION, place)], Json(shown(&view))).into_response())
}

/// Which sessions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only those in this state, in either wording.
    status: Option<String>,
    /// Only those made from this template.
    template_id: Option<String>,
    /// At most so many: 1 to 200, 50 if it is left out.
    limit: Option<usize>,
    /// How many are passed over, up to 10000.
    offset: Option<usize>,
    /// Where the list goes on, as the piece before it says.
    cursor: Option<String>,
}

/// List sessions, the newest first
#[utoipa::path(get, path = "/api/v1/sessions", tag = "sessions", params(Which), responses((status = 200, body = Value)))]
async fn list(state: State, caller: Caller, Params(which): Params<Which>) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let (plane, caller) = (state.plane(), caller.of_engine());
    let status = which.status.as_deref().map(read_status).transpose()?;
    let filter = SessionFilter { status, template: which.template_id.as_deref() };
    let piece = Piece { limit: which.limit, offset: which.offset, cursor: which.cursor.clone() };
    let (limit, mut after, mut skip) = piece.read()?;
    let mut items = Vec::new();
    loop {
        let found = plane.sessions(&caller, filter, after.as_ref(), (limit + skip).min(200)).await?;
        let passed = skip.min(found.items.len());
        skip -= passed;
        items.extend(found.items.iter().skip(passed).take(limit - items.len()).map(shown));
        after = found.next;
        if after.is_none() || items.len() == limit {
            break;
        }
    }
    let total = plane.store().count_sessions(&caller.tenant, filter).await?;
    let next = after.as_ref().map(Cursor::as_str);
    Ok(Json(
        json!({"items": items, "total": total, "limit": limit, "offset": piece.offset.unwrap_or(0), "has_more": next.is_some(), "next": next}),
    ))
}

fn read_status(word: &str) -> Result<SessionStatus, Problem> {
    match word {
        "running" => Ok(SessionStatus::Ready),
        "completed" => Ok(SessionStatus::Stopped),
        word => word.parse().map_err(|_| {
            let known: Vec<&str> = SessionStatus::ALL.iter().map(|status| status.word()).collect();
            Problem::invalid_field("status", "is no state of a session")
                .hint(format!("one of {}", known.join(", ")))
        }),
    }
}

/// One session
#[utoipa::path(
    get, path = "/api/v1/sessions/{session_id}", tag = "sessions", params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn get(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    Ok(Json(shown(&state.plane().session(&caller.of_engine(), id.as_str()).await?)))
}

/// One session (another path)
#[utoipa::path(
    get, path = "/api/v1/sessions/{session_id}/status", tag = "sessions", params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn status(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    get(state, caller, id).await
}

/// End a session: its programs, its sandbox and its files. What it was can still be looked at
#[utoipa::path(
    post, path = "/api/v1/sessions/{session_id}/terminate", tag = "sessions", params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn terminate(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    Ok(Json(shown(&state.plane().terminate_session(&caller.of_engine(), id.as_str()).await?)))
}

/// End a session and forget it, with its executions
#[utoipa::path(
    delete, path = "/api/v1/sessions/{session_id}", tag = "sessions", params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 204, description = "It is gone"), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn delete(state: State, caller: Caller, id: Id) -> Result<StatusCode, Problem> {
    caller.require(Scope::Run)?;
    state.plane().purge_session(&caller.of_engine(), id.as_str()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Stop every program of a session where it is
#[utoipa::path(
    post, path = "/api/v1/sessions/{session_id}/pause", tag = "sessions", params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, body = Value), (status = 409, description = "It has no sandbox", body = crate::problem::Facts))
)]
async fn pause(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    Ok(Json(shown(&state.plane().pause_session(&caller.of_engine(), id.as_str()).await?)))
}

/// Let a paused session go on
#[utoipa::path(
    post, path = "/api/v1/sessions/{session_id}/resume", tag = "sessions", params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, body = Value), (status = 409, description = "It has no sandbox", body = crate::problem::Facts))
)]
async fn resume(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    Ok(Json(shown(&state.plane().resume_session(&caller.of_engine(), id.as_str()).await?)))
}

/// The states a session has been in, the oldest first
#[utoipa::path(
    get, path = "/api/v1/sessions/{session_id}/history", tag = "sessions", params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn history(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let found = state.plane().session_history(&caller.of_engine(), id.as_str(), None, 1000).await?;
    let step = |step: &engine::storage::Transition| json!({"number": step.number, "from": step.from.map(|state| state.word()), "to": step.to.word(), "at": rfc3339(step.at), "reason": step.reason});
    Ok(Json(json!({"items": found.items.iter().map(step).collect::<Vec<_>>()})))
}
