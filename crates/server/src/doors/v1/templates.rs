//! Templates: what sessions are made from, and what programs that name one get. Everybody may look, the operator may
//! change.

use super::executions::Piece;
use super::wire::{Amount, Limits, NetworkIn, count, millicores, seconds};
use crate::clock::rfc3339;
use crate::{Body, Caller, Id, Params, Problem, Scope, State};
use axum::Json;
use axum::http::{HeaderName, StatusCode, header};
use engine::TemplatePool;
use engine::control::TemplateSpec;
use engine::limits::Wanted;
use engine::storage::Template;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get, update, delete))
}

/// A template, as it is made. The names beginning with `default_` are those of the founding platform.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewTemplate)]
struct New {
    /// Its id.
    #[schema(example = "data-team", max_length = 64)]
    id: String,
    /// For people; no two have the same.
    #[schema(example = "Data team", max_length = 255)]
    name: String,
    #[serde(flatten)]
    content: Content,
}

/// What a template says.
#[derive(Deserialize, ToSchema, Default)]
#[serde(default)]
#[schema(as = TemplateContent)]
struct Content {
    /// For people.
    description: Option<String>,
    /// Languages its sessions have; all of the host if it is left out.
    languages: Option<Vec<String>>,
    /// What its sessions may use.
    limits: Option<Limits>,
    /// What its sessions may reach.
    network: Option<NetworkIn>,
    /// Programs of one of its sessions that run at once: from 1 to what the operator allows.
    #[schema(minimum = 1, maximum = 16)]
    max_concurrent: Option<i64>,
    /// By language, modules that are loaded wherever one of its programs waits to be told what to do, as far as this host
    /// has them. Only for languages whose interpreters are copied: `python`.
    #[schema(example = json!({"python": ["numpy", "pandas"]}))]
    preload: Option<BTreeMap<String, Vec<String>>>,
    /// By language, a program that has run in each sandbox before one of its programs does: what it did is faster
    /// afterwards. What it writes goes nowhere, and what goes wrong with it is passed over.
    #[schema(example = json!({"python": "import pandas\npandas.DataFrame({'a': [1]}).describe()"}))]
    rehearsal: Option<BTreeMap<String, String>>,
    /// How many sandboxes with waiting programs are kept for it. What is left out is as the server is set.
    pool: Option<PoolIn>,
    /// Environment of its sessions.
    #[serde(alias = "env")]
    default_env_vars: Option<BTreeMap<String, String>>,
    /// Cores.
    default_cpu_cores: Option<f64>,
    /// Memory, in MiB.
    default_memory_mb: Option<u64>,
    /// Storage, in MiB.
    default_disk_mb: Option<u64>,
    /// Wall time of one program, in seconds.
    #[serde(alias = "default_timeout_sec")]
    default_timeout: Option<f64>,
    /// Kept for old clients; of no effect on this isolator.
    image_url: Option<String>,
    /// Such as `python3.11`: says the language where `languages` does not.
    runtime_type: Option<String>,
    /// Whether sessions can be made from it.
    is_active: Option<bool>,
}

/// How many sandboxes with waiting programs are kept for a template, for each of its languages.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TemplatePool)]
struct PoolIn {
    /// At least, from the beginning and as long as the template is there.
    min: Option<usize>,
    /// At most.
    max: Option<usize>,
    /// Time nobody has to ask until those beyond the least are taken down: seconds, or text such as `10m`.
    idle_timeout: Option<Amount>,
}

impl Content {
    /// What was there, changed by what is said.
    fn onto(self, mut spec: TemplateSpec) -> Result<TemplateSpec, Problem> {
        let cpus = self.default_cpu_cores.map(Amount::Number);
        let timeout = self.default_timeout.map(Amount::Number);
        let mebibytes = |field: &str, value: Option<u64>| match value.map(|value| value.checked_mul(1 << 20))
        {
            Some(None) => Err(Problem::invalid_field(field, "is out of range")),
            Some(value) => Ok(value),
            None => Ok(None),
        };
        let own = Wanted {
            cpu_millis: millicores("default_cpu_cores", cpus.as_ref())?,
            timeout_ms: seconds("default_timeout", timeout.as_ref())?,
            memory_bytes: mebibytes("default_memory_mb", self.default_memory_mb)?,
            disk_bytes: mebibytes("default_disk_mb", self.default_disk_mb)?,
            ..Wanted::default()
        };
        let wanted = self.limits.map(|limits| limits.wanted()).transpose()?.unwrap_or_default();
        spec.limits = wanted.or(own).or(spec.limits);
        let named = self
            .runtime_type
            .as_deref()
            .map(|kind| kind.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'));
        let named = named.map(|name| if name == "nodejs" { "javascript" } else { name }.to_owned());
        if let Some(languages) = self.languages.or(named.map(|name| vec![name])) {
            spec.languages = languages;
        }
        spec.description = self.description.unwrap_or(spec.description);
        spec.network = self.network.map(Into::into).or(spec.network);
        spec.max_concurrent = self.max_concurrent.map(count).or(spec.max_concurrent);
        spec.preload = self.preload.unwrap_or(spec.preload);
        spec.rehearsal = self.rehearsal.unwrap_or(spec.rehearsal);
        if let Some(PoolIn { min, max, idle_timeout }) = self.pool {
            let idle_timeout_ms = seconds("pool.idle_timeout", idle_timeout.as_ref())?;
            spec.pool = TemplatePool { min, max, idle_timeout_ms };
        }
        spec.env = self.default_env_vars.unwrap_or(spec.env);
        spec.image = self.image_url.or(spec.image);
        spec.runtime_type = self.runtime_type.or(spec.runtime_type);
        spec.inactive = self.is_active.map_or(spec.inactive, |active| !active);
        Ok(spec)
    }
}

fn shown(template: &Template) -> Result<Value, Problem> {
    let spec: TemplateSpec = template.spec.read()?;
    let limits = spec.limits;
    Ok(json!({
        "id": template.id,
        "name": template.name,
        "description": spec.description,
        "languages": spec.languages,
        "network": spec.network,
        "max_concurrent": spec.max_concurrent,
        "preload": spec.preload,
        "rehearsal": spec.rehearsal,
        "pool": {
            "min": spec.pool.min,
            "max": spec.pool.max,
            "idle_timeout": spec.pool.idle_timeout_ms.map(|ms| ms as f64 / 1000.0),
        },
        "image_url": spec.image,
        "runtime_type": spec.runtime_type,
        "limits": limits,
        "default_cpu_cores": limits.cpu_millis.map(|millis| millis as f64 / 1000.0),
        "default_memory_mb": limits.memory_bytes.map(|bytes| bytes >> 20),
        "default_disk_mb": limits.disk_bytes.map(|bytes| bytes >> 20),
        "default_timeout_sec": limits.timeout_ms.map(|ms| ms as f64 / 1000.0),
        "default_env_vars": spec.env,
        "is_active": !spec.inactive,
        "created_at": rfc3339(template.created_at),
        "updated_at": rfc3339(template.updated_at),
    }))
}

/// Make a template
#[utoipa::path(
    post, path = "/api/v1/templates", tag = "templates", request_body = New,
    responses((status = 201, body = Value), (status = 409, description = "Id or name are taken", body = crate::problem::Facts))
)]
async fn create(
    state: State,
    caller: Caller,
    Body(new): Body<New>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Value>), Problem> {
    caller.require(Scope::Admin)?;
    if Id::new(&new.id).is_none() {
        let hint = "a letter or digit and up to 63 letters, digits, `_` and `-`";
        return Err(Problem::invalid_field("id", "is no id").hint(hint));
    }
    let spec = new.content.onto(TemplateSpec::default())?;
    let made = state.plane().create_template(&new.id, &new.name, &spec).await?;
    let place = [(header::LOCATION, format!("/api/v1/templates/{}", made.id))];
    Ok((StatusCode::CREATED, place, Json(shown(&made)?)))
}

/// List templates
#[utoipa::path(get, path = "/api/v1/templates", tag = "templates", params(Piece), responses((status = 200, body = Vec<Value>)))]
async fn list(
    state: State,
    caller: Caller,
    Params(piece): Params<Piece>,
) -> Result<Json<Vec<Value>>, Problem> {
    caller.require(Scope::Run)?;
    let (limit, after, offset) = piece.read()?;
    let found = state.plane().templates(after.as_ref(), (limit + offset).min(1000)).await?;
    let shown: Result<Vec<Value>, Problem> = found.items.iter().skip(offset).take(limit).map(shown).collect();
    Ok(Json(shown?))
}

/// One template
#[utoipa::path(
    get, path = "/api/v1/templates/{template_id}", tag = "templates", params(("template_id" = String, Path, description = "Of the template")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn get(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    Ok(Json(shown(&state.plane().template(id.as_str()).await?)?))
}

/// What changes about a template.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TemplateChange)]
struct Change {
    /// For people.
    name: Option<String>,
    #[serde(flatten)]
    content: Content,
}

/// Change a template. Sessions made from it stay as they are
#[utoipa::path(
    put, path = "/api/v1/templates/{template_id}", tag = "templates", request_body = Change, params(("template_id" = String, Path, description = "Of the template")),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn update(
    state: State,
    caller: Caller,
    id: Id,
    Body(change): Body<Change>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Admin)?;
    let old = state.plane().template(id.as_str()).await?;
    let spec = change.content.onto(old.spec.read()?)?;
    let name = change.name.unwrap_or(old.name);
    Ok(Json(shown(&state.plane().update_template(id.as_str(), &name, &spec).await?)?))
}

/// Remove a template that no session needs
#[utoipa::path(
    delete, path = "/api/v1/templates/{template_id}", tag = "templates", params(("template_id" = String, Path, description = "Of the template")),
    responses((status = 200, body = Value), (status = 409, description = "A session needs it", body = crate::problem::Facts))
)]
async fn delete(state: State, caller: Caller, id: Id) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Admin)?;
    state.plane().delete_template(id.as_str()).await?;
    Ok(Json(json!({"message": format!("template `{}` is gone", id.as_str())})))
}
