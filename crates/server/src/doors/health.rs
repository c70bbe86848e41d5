//! How the server does. Anybody may know whether it is up; what exactly is wrong is for those with a token.

mod checks;

use super::front::VERSION;
use crate::{Caller, Problem, Scope, State, clock};
use axum::Json;
use axum::http::StatusCode;
use checks::Check;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(api_health))
        .routes(routes!(live))
        .routes(routes!(ready))
}

pub(super) fn detailed_door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(detailed)).routes(routes!(sync)).routes(routes!(api_sync))
}

/// How the server does.
#[derive(Serialize, ToSchema)]
struct Health {
    /// `ok`, or `unavailable` when no work is taken.
    #[schema(example = "ok")]
    status: &'static str,
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// Seconds since it was started.
    uptime: f64,
    /// RFC 3339.
    timestamp: String,
}

impl Health {
    fn now(state: &State, status: &'static str) -> Health {
        Health { status, version: VERSION, uptime: state.uptime().as_secs_f64(), timestamp: clock::now() }
    }
}

/// Whether the server is up, and for how long
#[utoipa::path(get, path = "/health", tag = "server", security(()), responses((status = 200, body = Health)))]
async fn health(state: State) -> Json<Health> {
    Json(Health::now(&state, "ok"))
}

/// The same, below `/api/v1`
#[utoipa::path(get, path = "/api/v1/health", tag = "server", security(()), responses((status = 200, body = Health)))]
async fn api_health(state: State) -> Json<Health> {
    Json(Health::now(&state, "ok"))
}

/// Whether the process answers at all; restart it if not
#[utoipa::path(get, path = "/health/live", tag = "server", security(()), responses((status = 200, body = Health)))]
async fn live(state: State) -> Json<Health> {
    Json(Health::now(&state, "ok"))
}

/// Whether work is taken: storage answers, and the server is not about to stop
#[utoipa::path(
    get, path = "/health/ready", tag = "server", security(()),
    responses((status = 200, body = Health), (status = 503, description = "No work is taken now", body = crate::problem::Facts))
)]
async fn ready(state: State) -> Result<Json<Health>, Problem> {
    state.ready().await?;
    Ok(Json(Health::now(&state, "ok")))
}

/// How everything does that the server needs.
#[derive(Serialize, ToSchema)]
#[schema(as = HealthDetailed)]
struct Detailed {
    /// `healthy`, `warning` or `unhealthy`: that of the worst check.
    #[schema(example = "healthy")]
    status: &'static str,
    version: &'static str,
    uptime: f64,
    timestamp: String,
    /// What was tried just now, by name.
    dependencies: BTreeMap<&'static str, Check>,
    /// Sandboxes that wait for programs.
    pool: Vec<Shelf>,
}

/// A kind of sandbox that is kept.
#[derive(Serialize, ToSchema)]
#[schema(as = PoolShelf)]
struct Shelf {
    /// Language of the program that waits; none where it becomes any program.
    language: Option<String>,
    /// The template it is for, if it is for one.
    template: Option<String>,
    /// How many wait.
    depth: usize,
    /// How many should.
    target: usize,
    hits: u64,
    misses: u64,
    /// How long making one takes, lately.
    refill_ms: f64,
    /// Why none can be made, while that is so.
    trouble: Option<String>,
}

/// Tries everything the server needs: database, objects, isolation, disk
#[utoipa::path(
    get, path = "/health/detailed", tag = "server",
    responses(
        (status = 200, description = "It works, perhaps with a warning", body = Detailed),
        (status = 503, description = "Something does not work", body = Detailed),
        (status = 401, description = "No token that works", body = crate::problem::Facts),
    )
)]
async fn detailed(state: State, _: Caller) -> (StatusCode, Json<Detailed>) {
    let dependencies = checks::all(&state).await;
    let worst = dependencies.values().map(|check| check.status).max().unwrap_or_default();
    let status = if worst.works() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let now = Health::now(&state, worst.word());
    let pool = state.engine().pool().into_iter().map(|shelf| Shelf {
        language: shelf.language,
        template: shelf.template,
        depth: shelf.depth,
        target: shelf.target,
        hits: shelf.hits,
        misses: shelf.misses,
        refill_ms: shelf.refill_ms,
        trouble: shelf.trouble,
    });
    let detailed = Detailed {
        status: now.status,
        version: now.version,
        uptime: now.uptime,
        timestamp: now.timestamp,
        dependencies,
        pool: pool.collect(),
    };
    (status, Json(detailed))
}

/// What came of looking at every session.
#[derive(Serialize, ToSchema)]
struct Synced {
    #[schema(example = "completed")]
    status: &'static str,
    message: String,
    result: Counts,
}

/// Sessions that were looked at.
#[derive(Serialize, ToSchema)]
#[schema(as = SyncedSessions)]
struct Counts {
    checked: usize,
    healthy: usize,
    /// Those whose sandbox was gone.
    unhealthy: usize,
    /// Of these, those that have another one now, with their saved workspace.
    recovered: usize,
    failed: usize,
    errors: Vec<String>,
}

/// Look at every session now; one whose sandbox is gone gets another one
#[utoipa::path(
    post, path = "/health/sync", tag = "server",
    responses(
        (status = 200, body = Synced),
        (status = 401, description = "No token that works", body = crate::problem::Facts),
        (status = 403, description = "Not for this key", body = crate::problem::Facts),
    )
)]
async fn sync(state: State, caller: Caller) -> Result<Json<Synced>, Problem> {
    caller.require(Scope::Admin)?;
    let checked = state.plane().check_sessions().await;
    let (failed, unhealthy) = (checked.errors.len(), checked.errors.len() + checked.recovered);
    Ok(Json(Synced {
        status: "completed",
        message: format!("{} sessions were looked at", checked.healthy + unhealthy),
        result: Counts {
            checked: checked.healthy + unhealthy,
            healthy: checked.healthy,
            unhealthy,
            recovered: checked.recovered,
            failed,
            errors: checked.errors,
        },
    }))
}

/// The same, below `/api/v1`
#[utoipa::path(
    post, path = "/api/v1/health/sync", tag = "server",
    responses(
        (status = 200, body = Synced),
        (status = 401, description = "No token that works", body = crate::problem::Facts),
        (status = 403, description = "Not for this key", body = crate::problem::Facts),
    )
)]
async fn api_sync(state: State, caller: Caller) -> Result<Json<Synced>, Problem> {
    sync(state, caller).await
}
