//! Webhooks: made, listed, resumed, removed. The operator may do that for every tenant, others for their own.

use crate::audit::Note;
use crate::clock::{now_ms, rfc3339};
use crate::doors::audit::unreadable;
use crate::events::Kinds;
use crate::layers::RequestId;
use crate::{Body, Caller, Id, Params, Problem, Scope, State, webhooks};
use axum::Json;
use axum::http::{HeaderName, StatusCode, header};
use engine::storage::{Cursor, EVERYBODY, Json as Stored, Webhook as Row};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const MOST: usize = 1000;
/// Webhooks of one tenant.
const MOST_OWN: usize = 20;
/// How long a secret is, in characters.
const SECRET: std::ops::RangeInclusive<usize> = 16..=256;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get, remove)).routes(routes!(resume))
}

/// What a webhook shall be like.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewWebhook {
    /// Where events are sent: `http` or `https`, an address of the public internet unless the operator allows others.
    #[schema(example = "https://example.org/hook", max_length = 2048)]
    url: String,
    /// Which kinds, such as `session.*`; all if it is left out.
    #[serde(default)]
    #[schema(example = json!(["session.*", "execution.finished"]), max_items = 32)]
    kinds: Vec<String>,
    /// What they are signed with; one is made if it is left out.
    #[schema(min_length = 16, max_length = 256)]
    secret: Option<String>,
    /// Whose events; the caller's own if it is left out. The operator may name others, and `*` for everybody's.
    #[schema(example = "default", max_length = 64)]
    tenant: Option<String>,
}

/// A webhook, without its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = Webhook)]
struct Shown {
    id: String,
    /// Whose events it gets; `*` for everybody's.
    tenant: String,
    url: String,
    /// An empty list for all.
    kinds: Vec<String>,
    /// `active`, `retrying` after a failure, or `failing` when it was given up.
    #[schema(example = "active")]
    status: &'static str,
    /// How often in a row sending failed.
    failures: i64,
    /// Why it failed last; none once something has arrived since.
    last_error: Option<String>,
    /// The number of the last event that arrived, or that it does not want.
    delivered: i64,
    created_at: String,
}

/// A webhook and its secret, which is shown this once.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookCreated)]
struct Created {
    #[serde(flatten)]
    webhook: Shown,
    /// What events are signed with. Nobody can show it again.
    secret: String,
}

/// A piece of the list of webhooks.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookPage)]
struct Webhooks {
    items: Vec<Shown>,
    /// Where the next piece begins, as `cursor`; none at the end.
    next: Option<String>,
}

impl Shown {
    fn of(row: Row) -> Result<Shown, Problem> {
        let status = match (row.active, row.failures) {
            (true, 0) => "active",
            (true, _) => "retrying",
            (false, _) => "failing",
        };
        Ok(Shown {
            kinds: row.kinds.read()?,
            id: row.id,
            tenant: row.owner,
            url: row.url,
            status,
            failures: row.failures,
            last_error: row.last_error,
            delivered: row.delivered,
            created_at: rfc3339(row.created_at),
        })
    }
}

/// Have events sent to an address, from the next one on
///
/// Each is a `POST` with the event as JSON and `X-Sandboxd-Signature: t=<seconds>,v1=<hex>`, where the latter is the
/// HMAC-SHA256 of `<seconds>.<body>` with the secret. What is not answered with 2xx in time is sent again, later each
/// time; redirects are not followed. Events come in their order, and sometimes twice: `id` tells.
#[utoipa::path(
    post, path = "/api/v1/webhooks", tag = "events", request_body = NewWebhook,
    responses(
        (status = 201, body = Created),
        (status = 403, description = "More than the caller may do itself", body = crate::problem::Facts),
        (status = 409, description = "There are too many already", body = crate::problem::Facts),
        (status = 422, description = "A field is wrong", body = crate::problem::Facts),
    )
)]
async fn create(
    state: State,
    caller: Caller,
    request: RequestId,
    Body(wanted): Body<NewWebhook>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Created>), Problem> {
    caller.require(Scope::Admin)?;
    let owner = wanted.tenant.clone().unwrap_or_else(|| caller.tenant.to_string());
    check(&state, &caller, &wanted, &owner)?;
    let kinds = Kinds::new(wanted.kinds)?;
    if state.store().webhooks(Some(&owner), None, MOST_OWN).await?.items.len() >= MOST_OWN {
        let detail = format!("there are {MOST_OWN} webhooks of this tenant already");
        return Err(Problem::new(StatusCode::CONFLICT, "too_many_webhooks", detail));
    }
    let row = Row {
        id: format!("wh_{}", uuid::Uuid::now_v7().simple()),
        owner,
        url: wanted.url,
        kinds: Stored::of(&kinds.patterns())?,
        secret: wanted.secret.unwrap_or_else(new_secret),
        active: true,
        delivered: state.store().latest_event().await?,
        failures: 0,
        last_error: None,
        created_at: now_ms(),
    };
    state.store().create_webhook(&row).await?;
    note(&state, &caller, "webhook.create", &row, &request).await?;
    let place = [(header::LOCATION, format!("/api/v1/webhooks/{}", row.id))];
    let secret = row.secret.clone();
    Ok((StatusCode::CREATED, place, Json(Created { webhook: Shown::of(row)?, secret })))
}

/// 244 random bits.
fn new_secret() -> String {
    let [one, other] = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
    format!("whsec_{}{}", one.simple(), other.simple())
}

fn check(state: &State, caller: &Caller, wanted: &NewWebhook, owner: &str) -> Result<(), Problem> {
    if !caller.operator && owner != &*caller.tenant {
        let detail = "a webhook is made for the tenant of its maker";
        return Err(Problem::forbidden("other_tenant", detail).field("tenant"));
    }
    if owner != EVERYBODY && Id::new(owner).is_none() {
        let hint =
            "a letter or digit and up to 63 letters, digits, `_` and `-`, or `*` for everybody's events";
        return Err(Problem::invalid_field("tenant", "is no name of a tenant").hint(hint));
    }
    if let Some(fault) = webhooks::fault(&wanted.url, state.options().webhooks_allow_private) {
        return Err(Problem::invalid_field("url", fault));
    }
    let fits = |secret: &String| {
        SECRET.contains(&secret.len()) && secret.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !wanted.secret.as_ref().is_none_or(fits) {
        let detail = "is not 16 to 256 letters, digits and signs";
        return Err(Problem::invalid_field("secret", detail));
    }
    Ok(())
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only those of this tenant.
    tenant: Option<String>,
    /// Where the list goes on, as the piece before it says.
    cursor: Option<String>,
    /// At most so many: 1 to 1000, 100 if it is left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List webhooks, without their secrets
#[utoipa::path(get, path = "/api/v1/webhooks", tag = "events", params(Which), responses((status = 200, body = Webhooks)))]
async fn list(state: State, caller: Caller, Params(which): Params<Which>) -> Result<Json<Webhooks>, Problem> {
    caller.require(Scope::Admin)?;
    let limit = which.limit.unwrap_or(100);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::invalid_field("limit", format!("is not from 1 to {MOST}")));
    }
    let tenant = match (caller.sees(), &which.tenant) {
        (Some(own), Some(asked)) if own != asked => {
            return Ok(Json(Webhooks { items: Vec::new(), next: None }));
        }
        (own, asked) => asked.as_deref().or(own),
    };
    let after = which.cursor.as_deref().map(Cursor::from_text).transpose()?;
    let page = state.store().webhooks(tenant, after.as_ref(), limit).await?;
    let items = page.items.into_iter().map(Shown::of).collect::<Result<_, _>>()?;
    Ok(Json(Webhooks { items, next: page.next.map(|next| next.as_str().to_owned()) }))
}

/// One webhook, without its secret, and how sending goes
#[utoipa::path(
    get, path = "/api/v1/webhooks/{id}", tag = "events", params(("id" = String, Path, description = "Of the webhook")),
    responses((status = 200, body = Shown), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn get(state: State, caller: Caller, id: Id) -> Result<Json<Shown>, Problem> {
    caller.require(Scope::Admin)?;
    Ok(Json(Shown::of(state.store().webhook(caller.sees(), id.as_str()).await?)?))
}

/// Go on sending to a webhook that was given up, with the event that did not arrive
#[utoipa::path(
    post, path = "/api/v1/webhooks/{id}/resume", tag = "events",
    params(("id" = String, Path, description = "Of the webhook")),
    responses((status = 200, body = Shown), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn resume(state: State, caller: Caller, request: RequestId, id: Id) -> Result<Json<Shown>, Problem> {
    caller.require(Scope::Admin)?;
    let row = state.store().webhook(caller.sees(), id.as_str()).await?;
    if row.active {
        return Ok(Json(Shown::of(row)?));
    }
    state.store().webhook_progress(&row.id, row.delivered, 0, true, row.last_error.as_deref()).await?;
    note(&state, &caller, "webhook.resume", &row, &request).await?;
    Ok(Json(Shown::of(Row { failures: 0, active: true, ..row })?))
}

/// Send nothing there any more
#[utoipa::path(
    delete, path = "/api/v1/webhooks/{id}", tag = "events",
    params(("id" = String, Path, description = "Of the webhook")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is none", body = crate::problem::Facts),
    )
)]
async fn remove(state: State, caller: Caller, request: RequestId, id: Id) -> Result<StatusCode, Problem> {
    caller.require(Scope::Admin)?;
    let row = state.store().webhook(caller.sees(), id.as_str()).await?;
    state.store().delete_webhook(&row.owner, &row.id).await?;
    note(&state, &caller, "webhook.delete", &row, &request).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn note(
    state: &State,
    caller: &Caller,
    action: &'static str,
    row: &Row,
    request: &RequestId,
) -> Result<(), Problem> {
    let note = Note::of(caller, action, &row.id, request.as_str()).of_tenant(&row.owner);
    state.audit().record(note).await.map_err(unreadable)
}
