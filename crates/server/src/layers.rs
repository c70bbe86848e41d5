//! What every request passes before a handler sees it, and every answer before a client does.
//!
//! From the outside in:
//!
//! 1. `request_id`: a name for the request, on every answer.
//! 2. `observe`: numbers and one line in the log, of what really goes out.
//! 3. `harden`: headers that tell browsers what not to do.
//! 4. `render`: problems get their bodies.
//! 5. `catch`: a panic is a problem like others.
//! 6. `host`: who is called by a name that is not ours says nothing.
//! 7. `origin`: pages of others do not get to call us.
//! 8. `content`: bodies of kinds that a page can send without asking, or packed ones, go no further.
//! 9. `inflow`: how long and how slow a body may be.
//!
//! Doors that are not for everybody have two more, in `doors.rs`:
//!
//! 10. `authenticate`: whose token it is.
//! 11. `pace`: how often that key may ask.

mod authenticate;
mod catch;
mod content;
mod harden;
mod host;
mod inflow;
mod observe;
mod origin;
mod pace;
mod request_id;

pub(crate) use authenticate::token;
pub(crate) use inflow::BodyError;
pub(crate) use request_id::RequestId;

use crate::State;
use crate::problem::{Style, render};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;

/// Layers for every request.
pub(crate) fn around(router: Router, state: &State) -> Router {
    router
        // Bodies are bounded by layer 9, for everybody alike.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(state.clone(), inflow::inflow))
        .layer(from_fn(content::content))
        .layer(from_fn_with_state(state.clone(), origin::origin))
        .layer(from_fn_with_state(state.clone(), host::host))
        .layer(from_fn(catch::catch))
        .layer(from_fn(write_problems))
        .layer(from_fn(harden::harden))
        .layer(from_fn_with_state(state.clone(), observe::observe))
        .layer(from_fn(request_id::request_id))
}

/// Layers for doors that take a token.
pub(crate) fn guarded(router: OpenApiRouter<State>, state: &State) -> OpenApiRouter<State> {
    router
        .route_layer(from_fn(pace::pace))
        .route_layer(from_fn_with_state(state.clone(), authenticate::authenticate))
}

/// Layer 4.
async fn write_problems(request: Request, next: Next) -> Response {
    let style = Style::of(request.uri().path());
    let id = RequestId::of(request.extensions());
    let response = next.run(request).await;
    render(response, style, id.as_str())
}
