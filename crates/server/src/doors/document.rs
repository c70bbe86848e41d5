//! The description of the API, made from the handlers themselves.

use crate::State;
use crate::problem::{Facts, Style};
use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use serde_json::{Value, json};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi, SecurityRequirement};
use utoipa::{Modify, OpenApi as _};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "sandboxd",
        description = "Runs untrusted code safely and fast.\n\nSend the token of the server, or a key made with it, as \
                       `Authorization: Bearer <token>` or `X-API-Key: <token>`. Whatever goes wrong is answered with \
                       one shape, `application/problem+json`; its `code` stays the same.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
        contact()
    ),
    components(schemas(Facts)),
    modifiers(&Tokens),
    tags(
        (name = "server", description = "What this server is and how it does"),
        (name = "keys", description = "Who may do what"),
        (name = "audit", description = "Who did what"),
        (name = "executions", description = "Programs, and what came of them"),
        (name = "sessions", description = "Sandboxes that stay, with a workspace"),
        (name = "files", description = "Files of sessions"),
        (name = "templates", description = "What sessions are made from"),
        (name = "events", description = "What happens, as a list, as a stream, and sent to others"),
        (name = "runtimes", description = "What this host can run"),
        (name = "workspace", description = "Sessions that are there when they are used, as the shared environment had them"),
        (name = "sandboxes", description = "Sandboxes as the first of the founding systems had them; also below `/api/v2` and `/api`"),
    )
)]
struct Head;

/// The two ways to send a token.
struct Tokens;

impl Modify for Tokens {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        let bearer =
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("sbx_<id>_<secret>").build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        let header = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("X-API-Key")));
        components.add_security_scheme("api_key", header);
        let none: [&str; 0] = [];
        document.security =
            Some(vec![SecurityRequirement::new("bearer", none), SecurityRequirement::new("api_key", none)]);
    }
}

/// What the description says before any route.
pub(super) fn head() -> OpenApi {
    Head::openapi()
}

/// The description as text that is the same whenever the API is.
pub(super) fn text(document: &OpenApi) -> String {
    // By way of a value, whose keys are sorted.
    let mut value = serde_json::to_value(document).unwrap_or_default();
    if let Some(paths) = value["paths"].as_object_mut() {
        // The router's sign for "all that follows" is not one of OpenAPI's.
        *paths =
            std::mem::take(paths).into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
        for (path, item) in paths {
            for (method, operation) in item.as_object_mut().into_iter().flatten() {
                operation["operationId"] = name(method, path).into();
                refusals(Style::of(path), &mut operation["responses"]);
            }
        }
    }
    let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text.push('\n');
    text
}

/// A name for an operation that no other has.
fn name(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

/// Every operation can be refused, and always in the shape of its API.
fn refusals(style: Style, responses: &mut Value) {
    let Some(responses) = responses.as_object_mut() else { return };
    let problem = json!({"schema": {"$ref": "#/components/schemas/Problem"}});
    let part = match style {
        Style::Problem => None,
        Style::Envelope => Some("error"),
        Style::Detail => Some("detail"),
    };
    if let Some(part) = part {
        let schema = json!({"type": "object", "required": [part], "properties": {part: {"type": "object"}}});
        let content = json!({"application/json": {"schema": schema}});
        responses
            .entry("default")
            .or_insert(json!({"description": "It is refused, or failed", "content": content}));
        return;
    }
    for response in responses.values_mut() {
        if response["content"]["application/json"] == problem {
            response["content"] = json!({"application/problem+json": problem});
        }
    }
    let refused =
        json!({"description": "It is refused, or failed", "content": {"application/problem+json": problem}});
    responses.entry("default").or_insert(refused);
}

/// Where the description is.
pub(super) fn door(document: OpenApi) -> Router<State> {
    let text = Bytes::from(text(&document));
    let serve = move || std::future::ready(answer(text.clone()));
    Router::new().route("/openapi.json", get(serve.clone())).route("/api/openapi.json", get(serve))
}

fn answer(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}
