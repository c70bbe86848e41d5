//! Keys: made, listed, revoked. The operator may do that for every tenant, others for their own.

use super::audit::unreadable;
use crate::audit::Note;
use crate::clock::{now_ms, rfc3339};
use crate::keys::NewToken;
use crate::layers::RequestId;
use crate::{Body, Caller, Id, KeyLimits, Params, Problem, Scope, State};
use axum::Json;
use axum::http::{HeaderName, StatusCode, header};
use engine::storage::{ApiKey, Cursor, Json as Stored};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const MOST: usize = 1000;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get, revoke))
}

/// What a key shall be like.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewKey {
    /// For people.
    #[schema(example = "build server", max_length = 255)]
    name: String,
    /// Whose it is; the caller's own if it is left out.
    #[schema(example = "default", max_length = 64)]
    tenant: Option<String>,
    /// What it may be used for.
    #[schema(min_items = 1)]
    scopes: BTreeSet<Scope>,
    /// When it stops working by itself, RFC 3339.
    #[schema(value_type = Option<String>, format = DateTime, example = "2030-01-01T00:00:00Z")]
    expires_at: Option<jiff::Timestamp>,
    /// How much it may use.
    #[serde(default)]
    limits: KeyLimits,
}

/// A key, without its secret.
#[derive(Serialize, ToSchema)]
struct Key {
    id: String,
    tenant: String,
    name: String,
    scopes: BTreeSet<Scope>,
    /// As they were set; what is left out has the default of the server.
    limits: KeyLimits,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
    /// To the minute.
    last_used_at: Option<String>,
}

/// A key and its secret, which is shown this once.
#[derive(Serialize, ToSchema)]
#[schema(as = KeyCreated)]
struct Created {
    #[serde(flatten)]
    key: Key,
    /// What to send with requests. Nobody can show it again.
    token: String,
}

/// A piece of the list of keys.
#[derive(Serialize, ToSchema)]
#[schema(as = KeyPage)]
struct Keys {
    items: Vec<Key>,
    /// Where the next piece begins, as `cursor`; none at the end.
    next: Option<String>,
}

impl Key {
    fn of(row: ApiKey) -> Result<Key, Problem> {
        Ok(Key {
            scopes: row.scopes.read()?,
            limits: row.limits.read()?,
            id: row.id,
            tenant: row.tenant,
            name: row.name,
            created_at: rfc3339(row.created_at),
            expires_at: row.expires_at.map(rfc3339),
            revoked_at: row.revoked_at.map(rfc3339),
            last_used_at: row.last_used_at.map(rfc3339),
        })
    }
}

/// Make a key; its secret is shown this once
#[utoipa::path(
    post, path = "/api/v1/keys", tag = "keys", request_body = NewKey,
    responses(
        (status = 201, body = Created),
        (status = 403, description = "More than the caller may do itself", body = crate::problem::Facts),
        (status = 422, description = "A field is wrong", body = crate::problem::Facts),
    )
)]
async fn create(
    state: State,
    caller: Caller,
    id: RequestId,
    Body(wanted): Body<NewKey>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Created>), Problem> {
    caller.require(Scope::Admin)?;
    let tenant = wanted.tenant.clone().unwrap_or_else(|| caller.tenant.to_string());
    check(&wanted, &tenant, &caller)?;
    let made = NewToken::make().map_err(|error| {
        tracing::error!(%error, "there are no random numbers");
        Problem::internal()
    })?;
    let row = ApiKey {
        id: made.id,
        tenant,
        name: wanted.name,
        secret_sha256: made.secret_sha256,
        scopes: Stored::of(&wanted.scopes)?,
        limits: Stored::of(&wanted.limits)?,
        created_at: now_ms(),
        expires_at: wanted.expires_at.map(|at| at.as_millisecond()),
        revoked_at: None,
        last_used_at: None,
    };
    state.keys().add(row.clone()).await?;
    let scopes: Vec<String> = wanted.scopes.iter().map(Scope::to_string).collect();
    let note = Note::of(&caller, "key.create", &row.id, id.as_str())
        .of_tenant(&row.tenant)
        .detail(&scopes.join(" "));
    state.audit().record(note).await.map_err(unreadable)?;
    let place = [(header::LOCATION, format!("/api/v1/keys/{}", row.id))];
    let created = Created { key: Key::of(row)?, token: made.token.reveal().to_owned() };
    Ok((StatusCode::CREATED, place, Json(created)))
}

/// Nobody hands out more than they have.
fn check(wanted: &NewKey, tenant: &str, caller: &Caller) -> Result<(), Problem> {
    if Id::new(tenant).is_none() {
        let hint = "a letter or digit and up to 63 letters, digits, `_` and `-`";
        return Err(Problem::invalid_field("tenant", "is no name of a tenant").hint(hint));
    }
    if wanted.scopes.is_empty() {
        return Err(Problem::invalid_field("scopes", "is empty").hint("give `run`, `files` or `admin`"));
    }
    if wanted.expires_at.is_some_and(|at| at.as_millisecond() <= now_ms()) {
        return Err(Problem::invalid_field("expires_at", "is in the past"));
    }
    let most = if caller.operator { KeyLimits::default() } else { caller.limits };
    if let Some((field, why)) = wanted.limits.fault(&most) {
        return Err(Problem::invalid_field(format!("limits.{field}"), why));
    }
    if !caller.operator && tenant != &*caller.tenant {
        return Err(
            Problem::forbidden("other_tenant", "a key is made for the tenant of its maker").field("tenant")
        );
    }
    wanted
        .scopes
        .iter()
        .try_for_each(|scope| caller.require(*scope))
        .map_err(|problem| problem.field("scopes"))
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
    limit: Option<usize>,
}

/// List keys, without their secrets
#[utoipa::path(get, path = "/api/v1/keys", tag = "keys", params(Which), responses((status = 200, body = Keys)))]
async fn list(state: State, caller: Caller, Params(which): Params<Which>) -> Result<Json<Keys>, Problem> {
    caller.require(Scope::Admin)?;
    let limit = which.limit.unwrap_or(100);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::invalid_field("limit", format!("is not from 1 to {MOST}")));
    }
    let tenant = match (caller.sees(), &which.tenant) {
        (Some(own), Some(asked)) if own != asked => return Ok(Json(Keys { items: Vec::new(), next: None })),
        (own, asked) => asked.as_deref().or(own),
    };
    let after = which.cursor.as_deref().map(Cursor::from_text).transpose()?;
    let page = state.store().api_keys(tenant, after.as_ref(), limit).await?;
    let items = page.items.into_iter().map(Key::of).collect::<Result<_, _>>()?;
    Ok(Json(Keys { items, next: page.next.map(|next| next.as_str().to_owned()) }))
}

/// One key, without its secret
#[utoipa::path(
    get, path = "/api/v1/keys/{id}", tag = "keys", params(("id" = String, Path, description = "Of the key")),
    responses((status = 200, body = Key), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn get(state: State, caller: Caller, id: Id) -> Result<Json<Key>, Problem> {
    caller.require(Scope::Admin)?;
    Ok(Json(Key::of(visible(&state, &caller, &id).await?)?))
}

/// Have a key stop working, at once and for good
#[utoipa::path(
    delete, path = "/api/v1/keys/{id}", tag = "keys", params(("id" = String, Path, description = "Of the key")),
    responses(
        (status = 204, description = "It does not work any more"),
        (status = 404, description = "There is none", body = crate::problem::Facts),
    )
)]
async fn revoke(state: State, caller: Caller, request: RequestId, id: Id) -> Result<StatusCode, Problem> {
    caller.require(Scope::Admin)?;
    let row = visible(&state, &caller, &id).await?;
    state.keys().revoke(id.as_str()).await?;
    let note = Note::of(&caller, "key.revoke", &row.id, request.as_str()).of_tenant(&row.tenant);
    state.audit().record(note).await.map_err(unreadable)?;
    Ok(StatusCode::NO_CONTENT)
}

/// A key that this caller may see; others look as if there were none.
async fn visible(state: &State, caller: &Caller, id: &Id) -> Result<ApiKey, Problem> {
    let row = state.store().api_key(id.as_str()).await?;
    match caller.sees() {
        Some(tenant) if tenant != row.tenant => Err(Problem::not_found("API key")),
        _ => Ok(row),
    }
}
