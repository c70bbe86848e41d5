//! All doors, in one place: a new one is one line in `all`.

mod audit;
pub(crate) mod command;
mod document;
pub(crate) mod ended;
mod front;
mod health;
mod keys;
mod mcp;
mod numbers;
mod pages;
pub(crate) mod sandboxes;
mod se;
mod v1;

use crate::{Problem, State, layers};
use axum::Router;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;

/// Every route there is, with its layers.
pub(crate) fn router(state: &State) -> Router {
    let (router, document) = all(state).split_for_parts();
    let agents = state.mcp();
    let agents = agents.map(|agents| layers::guarded(mcp::door(state, agents), state).split_for_parts().0);
    let router = router
        .merge(agents.unwrap_or_default())
        .merge(document::door(document))
        .merge(pages::door())
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_this_way)
        .with_state(state.clone());
    layers::around(router, state)
}

/// The API in the words of OpenAPI, as JSON for people to read.
pub fn openapi(state: &State) -> String {
    document::text(&all(state).into_openapi())
}

fn all(state: &State) -> OpenApiRouter<State> {
    let guarded = |door| layers::guarded(door, state);
    OpenApiRouter::with_openapi(document::head())
        .merge(front::door())
        .merge(health::door())
        .merge(guarded(health::detailed_door()))
        .merge(match (state.options().metrics, state.options().metrics_public) {
            (false, _) => OpenApiRouter::new(),
            (true, true) => numbers::door(),
            (true, false) => guarded(numbers::door()),
        })
        .merge(guarded(keys::door()))
        .merge(guarded(audit::door()))
        .merge(guarded(v1::door()))
        .merge(guarded(sandboxes::door(state.options().mcp.is_some())))
        .merge(guarded(se::door()))
        .merge(se::open_door())
}

async fn nothing_here() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "route_not_found", "there is nothing at this address")
        .hint("the page `/docs` lists what there is")
}

async fn not_this_way() -> Problem {
    let detail = "this address does not take this method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        .hint("the header `Allow` of this answer lists those it takes")
}
