//! The audit log, for those who may see it.

use crate::audit::Line;
use crate::{Caller, Params, Problem, Scope, State};
use axum::Json;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const USUAL: usize = 100;
const MOST: usize = 1000;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(read))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only lines behind this number.
    #[serde(default)]
    after: u64,
    /// At most so many: 1 to 1000, 100 if it is left out.
    limit: Option<usize>,
}

/// A piece of the log.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditPage)]
struct Lines {
    items: Vec<Line>,
    /// What to ask for next, as `after`. The same again means that there is nothing newer.
    next: u64,
}

/// Who did what: lines behind a number, the oldest first
///
/// The operator sees everything, others what is about their own tenant. Each line carries the hash of the one before
/// it, so a log in which something was changed or left out does not hold together.
#[utoipa::path(
    get, path = "/api/v1/audit", tag = "audit", params(Which),
    responses(
        (status = 200, body = Lines),
        (status = 403, description = "The key does not have the scope `admin`", body = crate::problem::Facts),
    )
)]
async fn read(state: State, caller: Caller, Params(which): Params<Which>) -> Result<Json<Lines>, Problem> {
    caller.require(Scope::Admin)?;
    let limit = which.limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::invalid_field("limit", format!("is not from 1 to {MOST}")));
    }
    let tenant = caller.sees().map(str::to_owned);
    let items = state.audit().read(which.after, tenant, limit).await.map_err(unreadable)?;
    let next = items.last().map_or(which.after, |line| line.seq);
    Ok(Json(Lines { items, next }))
}

pub(super) fn unreadable(error: crate::audit::AuditError) -> Problem {
    tracing::error!(%error, "the audit log cannot be used");
    Problem::unavailable("the audit log cannot be used at the moment", Duration::from_secs(5))
}
