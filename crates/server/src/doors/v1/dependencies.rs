//! Packages of sessions: asked for, installed, shown.

use super::sessions::shown;
use crate::clock::rfc3339;
use crate::{Body, Caller, Id, Problem, Scope, State};
use axum::Json;
use engine::control::{Dependencies, Index, Install, InstallStatus, PACKAGES, Package};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(install))
}

/// A package of Python.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Package)]
pub(super) struct PackageIn {
    /// Its name, and nothing else.
    #[schema(example = "requests", max_length = 100)]
    name: String,
    /// Which versions will do: `2.32.3` is that one, `>=2,<3` a range; any if it is left out.
    #[serde(default)]
    #[schema(example = ">=2,<3", max_length = 64)]
    version: Option<String>,
}

impl From<PackageIn> for Package {
    fn from(package: PackageIn) -> Package {
        Package { name: package.name, version: package.version }
    }
}

/// Packages to install.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDependencies)]
struct InstallIn {
    /// Where they come from: an index by http or https. If it is left out, where they came from before.
    #[serde(default)]
    #[schema(max_length = 512)]
    python_package_index_url: Option<String>,
    /// Which: 1 to 50. One that the session has is replaced by the one of that name; the others stay.
    #[schema(min_items = 1, max_items = 50)]
    dependencies: Vec<PackageIn>,
}

/// The index of an address, if there is one.
pub(super) fn index(address: Option<&str>) -> Result<Option<Index>, Problem> {
    Ok(address.map(Index::parse).transpose()?)
}

/// Adds to a session what is shown of its packages.
pub(super) fn show(dependencies: Option<&Dependencies>, session: &mut Value) {
    // Where nothing was asked for, all of that is there.
    let status = dependencies.map_or(InstallStatus::Completed, |found| found.status);
    let found = dependencies.cloned().unwrap_or_default();
    let at = found.completed_at.map(rfc3339);
    let installed = found.installed.iter().map(|package| {
        json!({
            "name": package.name,
            "version": package.version,
            "install_location": PACKAGES,
            "install_time": at,
            "is_from_template": false,
        })
    });
    // Without one it is pip's own.
    session["python_package_index_url"] = json!(found.index);
    session["requested_dependencies"] = json!(found.requested);
    session["installed_dependencies"] = installed.collect();
    session["dependency_install_status"] = json!(status);
    session["dependency_install_error"] = json!(found.error);
    session["dependency_install_started_at"] = json!(found.started_at.map(rfc3339));
    session["dependency_install_completed_at"] = json!(at);
}

/// Install packages of Python in a session, beside those it has. What came of it is found in the session
#[utoipa::path(
    post, path = "/api/v1/sessions/{session_id}/dependencies/install", tag = "sessions",
    params(("session_id" = String, Path, description = "Of the session")), request_body = InstallIn,
    responses(
        (status = 200, description = "They are there, or `dependency_install_error` says why not", body = Value),
        (status = 403, description = "Sessions here install no packages", body = crate::problem::Facts),
        (status = 404, description = "There is none", body = crate::problem::Facts),
        (status = 409, description = "It is installing already, or has ended", body = crate::problem::Facts),
        (status = 422, description = "A field is wrong", body = crate::problem::Facts),
        (status = 503, description = "There is no pip, or no sandbox for it", body = crate::problem::Facts),
    )
)]
async fn install(
    state: State,
    caller: Caller,
    id: Id,
    Body(asked): Body<InstallIn>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let install = Install {
        packages: asked.dependencies.into_iter().map(Into::into).collect(),
        index: index(asked.python_package_index_url.as_deref())?,
        ..Install::default()
    };
    Ok(Json(shown(&state.plane().install(&caller.of_engine(), id.as_str(), install).await?)))
}
