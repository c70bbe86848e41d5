//! What this server is.

use crate::State;
use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const NAME: &str = "sandboxd";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(root)).routes(routes!(info))
}

#[derive(Serialize, ToSchema)]
#[schema(as = ServerIndex)]
struct Root {
    #[schema(example = "sandboxd")]
    name: &'static str,
    version: &'static str,
    /// `running`.
    #[schema(example = "running")]
    status: &'static str,
    features: Vec<&'static str>,
    documentation: Links,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ServerLinks)]
struct Links {
    docs: &'static str,
    openapi: &'static str,
    health: &'static str,
    metrics: &'static str,
}

/// What this is, and where to go from here
#[utoipa::path(get, path = "/", tag = "server", security(()), responses((status = 200, body = Root)))]
async fn root() -> Json<Root> {
    Json(Root {
        name: NAME,
        version: VERSION,
        status: "running",
        features: features(),
        documentation: Links {
            docs: "/docs",
            openapi: "/openapi.json",
            health: "/health",
            metrics: "/metrics",
        },
    })
}

#[derive(Serialize, ToSchema)]
#[schema(as = ServerAbout)]
struct About {
    name: &'static str,
    version: &'static str,
    capabilities: Vec<&'static str>,
    config: Config,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ServerConfig)]
struct Config {
    websocket_enabled: bool,
    compression_enabled: bool,
    cors_enabled: bool,
    metrics_enabled: bool,
    max_connections: usize,
    max_request_size: u64,
}

/// What this server can do
#[utoipa::path(get, path = "/info", tag = "server", security(()), responses((status = 200, body = About)))]
async fn info(state: State) -> Json<About> {
    let options = state.options();
    Json(About {
        name: NAME,
        version: VERSION,
        capabilities: features(),
        config: Config {
            websocket_enabled: false,
            compression_enabled: false,
            cors_enabled: !options.allowed_origins.is_empty(),
            metrics_enabled: true,
            max_connections: options.max_connections,
            max_request_size: options.max_body,
        },
    })
}

/// What the doors of this build offer.
fn features() -> Vec<&'static str> {
    vec!["keys", "audit", "metrics", "openapi"]
}
