//! Words that the routes share: versions, pages of lists, sandboxes as they are asked for and shown.

use crate::clock::{now, rfc3339};
use crate::doors::v1::wire::{Amount, millicores, seconds, size};
use crate::{Problem, State};
use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use engine::control::{NewSession, SessionSpec, SessionView};
use engine::limits::Wanted;
use engine::storage::SessionStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// Which version was asked for: by the path, else by a header, else the first.
pub(super) struct Version(pub(super) &'static str);

impl FromRequestParts<State> for Version {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &State) -> Result<Version, Problem> {
        let path = parts.extensions.get::<OriginalUri>().map_or(parts.uri.path(), |uri| uri.0.path());
        match path.split('/').nth(2) {
            Some("v1") => Ok(Version("v1")),
            Some("v2") => Ok(Version("v2")),
            _ => by_header(&parts.headers),
        }
    }
}

fn by_header(headers: &HeaderMap) -> Result<Version, Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let accepted = text(ACCEPT.as_str()).and_then(|kinds| {
        let (_, rest) = kinds.split_once("application/vnd.sandboxrunner.")?;
        rest.split_once("+json").map(|(version, _)| version)
    });
    match text("api-version").or(accepted).map(|version| version.trim_start_matches(['v', 'V'])) {
        None | Some("1") => Ok(Version("v1")),
        Some("2") => Ok(Version("v2")),
        Some(_) => {
            Err(Problem::invalid_field("API-Version", "there is no such version").hint("`v1` or `v2`"))
        }
    }
}

/// Which piece of a list.
#[derive(Clone, Copy, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Piece {
    /// At most so many: 1 to 100, 20 if it is left out.
    pub(super) page_size: Option<usize>,
    /// How many are passed over, up to 10000.
    pub(super) page_offset: Option<usize>,
}

impl Piece {
    /// How many, and how many are passed over.
    pub(super) fn read(&self) -> Result<(usize, usize), Problem> {
        let (size, offset) = (self.page_size.unwrap_or(20), self.page_offset.unwrap_or(0));
        if !(1..=100).contains(&size) {
            return Err(Problem::invalid_field("page_size", "is not from 1 to 100"));
        }
        if offset > 10_000 {
            return Err(Problem::invalid_field("page_offset", "is more than 10000"));
        }
        Ok((size, offset))
    }
}

/// A piece of a list, in its envelope.
pub(super) fn envelope(
    data: Vec<Value>,
    (size, offset): (usize, usize),
    total: u64,
    version: &Version,
) -> Value {
    let next = offset + data.len();
    let has_next = (next as u64) < total && !data.is_empty();
    json!({
        "data": data,
        "pagination": {
            "page_size": size,
            "page_offset": offset,
            "has_next": has_next,
            "has_prev": offset > 0,
            "next_offset": has_next.then_some(next),
            "prev_offset": (offset > 0).then(|| offset.saturating_sub(size)),
        },
        "total": total,
        "timestamp": now(),
        "version": version.0,
    })
}

/// What a sandbox shall be like.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = SandboxNew)]
pub(super) struct New {
    /// For people.
    name: Option<String>,
    /// What it is made from: a template, or an image that stands for one, such as `python:3.11` or `ubuntu:22.04`.
    #[schema(example = "python-basic")]
    pub(super) image: Option<String>,
    /// What it may use.
    resources: Resources,
    /// Environment of its programs.
    environment: BTreeMap<String, String>,
    /// What the caller wants to find again.
    metadata: BTreeMap<String, String>,
    /// How long it may live: seconds or text.
    ttl: Option<Amount>,
}

/// What a sandbox may use.
#[derive(Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = SandboxResources)]
struct Resources {
    /// Cores.
    #[serde(alias = "cpu")]
    cpu_limit: Option<Amount>,
    /// Memory: bytes, or text such as `512M`.
    #[serde(alias = "memory")]
    memory_limit: Option<Amount>,
    /// Storage, likewise. Files live in memory, so it is within that.
    #[serde(alias = "disk")]
    disk_limit: Option<Amount>,
}

/// Where name and image of a sandbox are kept among what callers want to find again.
const NAME: &str = "sandbox.name";
const IMAGE: &str = "sandbox.image";

impl New {
    /// A session made from a template, with an id in the form these sandboxes have.
    pub(super) fn session(self, template: Option<String>) -> Result<NewSession, Problem> {
        let mut metadata = self.metadata;
        metadata.extend(self.name.map(|name| (NAME.to_owned(), name)));
        metadata.extend(self.image.map(|image| (IMAGE.to_owned(), image)));
        let limits = Wanted {
            cpu_millis: millicores("resources.cpu_limit", self.resources.cpu_limit.as_ref())?,
            memory_bytes: size("resources.memory_limit", self.resources.memory_limit.as_ref())?,
            disk_bytes: size("resources.disk_limit", self.resources.disk_limit.as_ref())?,
            ..Wanted::default()
        };
        let lifetime = seconds("ttl", self.ttl.as_ref())?.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
        Ok(NewSession {
            id: Some(uuid::Uuid::new_v4().to_string()),
            template,
            spec: SessionSpec { limits, env: self.environment, metadata, ..SessionSpec::default() },
            lifetime_ms: lifetime,
            ..NewSession::default()
        })
    }
}

/// The template an image stands for, where it is none itself.
pub(crate) fn template_of(image: &str) -> Option<&'static str> {
    let name = image.rsplit('/').next()?.split([':', '@']).next()?;
    match name {
        "python" => Some("python-basic"),
        "node" => Some("nodejs-basic"),
        "ubuntu" | "debian" | "alpine" => Some("multi-language"),
        _ => None,
    }
}

/// A sandbox as it is shown.
pub(super) fn shown(view: &SessionView) -> Value {
    let (session, limits) = (&view.session, &view.spec.limits);
    let mut metadata = view.spec.metadata.clone();
    let (name, image) = (metadata.remove(NAME), metadata.remove(IMAGE));
    let expires = (session.lifetime_ms >= 0).then(|| session.created_at.saturating_add(session.lifetime_ms));
    json!({
        "id": session.id,
        "name": name.unwrap_or_else(|| session.id.clone()),
        "image": image.unwrap_or_else(|| session.template.clone()),
        "status": word(session.status),
        "resources": {
            "cpu_limit": limits.cpu_millis.map(|millis| millis as f64 / 1000.0),
            "memory_limit": limits.memory_bytes,
            "disk_limit": limits.disk_bytes,
        },
        "languages": view.spec.languages,
        "environment": view.spec.env,
        "metadata": metadata,
        "created_at": rfc3339(session.created_at),
        "updated_at": rfc3339(session.last_activity_at),
        "expires_at": expires.map(rfc3339),
    })
}

/// The founding system's word for a state.
pub(crate) fn word(state: SessionStatus) -> &'static str {
    match state {
        SessionStatus::Creating => "creating",
        SessionStatus::Ready | SessionStatus::Running => "running",
        SessionStatus::Paused => "paused",
        SessionStatus::Stopping | SessionStatus::Stopped => "stopped",
        SessionStatus::Failed => "error",
        SessionStatus::Terminated => "terminated",
    }
}

/// The state of such a word.
pub(super) fn state_of(text: &str) -> Result<SessionStatus, Problem> {
    Ok(match text {
        "creating" => SessionStatus::Creating,
        "running" | "ready" => SessionStatus::Ready,
        "paused" => SessionStatus::Paused,
        "stopped" => SessionStatus::Stopped,
        "error" | "failed" => SessionStatus::Failed,
        "terminated" => SessionStatus::Terminated,
        _ => {
            return Err(Problem::invalid_field("filter_status", "is no state of a sandbox")
                .hint("creating, running, paused, stopped, error or terminated"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_stand_for_templates_by_their_names() {
        for (image, template) in [
            ("python:3.11", Some("python-basic")),
            ("docker.io/library/node@sha256:1", Some("nodejs-basic")),
            ("ubuntu", Some("multi-language")),
            ("pythonic:1", None),
            ("", None),
        ] {
            assert_eq!(template_of(image), template, "{image}");
        }
    }

    #[test]
    fn pages_know_their_neighbours() {
        let page = |data: usize, size, offset, total| {
            envelope(vec![json!(1); data], (size, offset), total, &Version("v1"))["pagination"].clone()
        };
        let first = page(2, 2, 0, 5);
        assert_eq!((&first["has_next"], &first["next_offset"]), (&json!(true), &json!(2)));
        assert_eq!((&first["has_prev"], &first["prev_offset"]), (&json!(false), &json!(null)));
        let last = page(1, 2, 4, 5);
        assert_eq!((&last["has_next"], &last["next_offset"]), (&json!(false), &json!(null)));
        assert_eq!((&last["has_prev"], &last["prev_offset"]), (&json!(true), &json!(2)));
        assert_eq!(page(0, 2, 9, 5)["has_next"], json!(false));
        assert_eq!(page(2, 2, 1, 5)["prev_offset"], json!(0));
    }

    #[test]
    fn versions_are_told_by_headers() {
        let of = |name: &'static str, value: &str| {
            by_header(&HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]))
                .map(|version| version.0)
        };
        assert_eq!(of("api-version", "v2").unwrap(), "v2");
        assert_eq!(of("accept", "text/html, application/vnd.sandboxrunner.v2+json").unwrap(), "v2");
        assert_eq!(of("accept", "application/json").unwrap(), "v1");
        assert!(of("api-version", "3").is_err());
    }
}
