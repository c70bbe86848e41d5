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
//! Doors that are not for everybody have two more:
//!
//! 10. `authenticate`: whose token it is.
//! 11. `pace`: how often that key may ask.
//!
//! They are functions, called one after the other in two middlewares. A middleware each would be clearer by a little, and
//! took half of the time of a request: the framework copies everything inside of one for every request.

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
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use origin::Asker;
use utoipa_axum::router::OpenApiRouter;

/// Layers for every request.
pub(crate) fn around(router: Router, state: &State) -> Router {
    // Bodies are bounded by layer 9, for everybody alike.
    router.layer((from_fn_with_state(state.clone(), outer), DefaultBodyLimit::disable()))
}

/// Layers for doors that take a token.
pub(crate) fn guarded(router: OpenApiRouter<State>, state: &State) -> OpenApiRouter<State> {
    router.route_layer(from_fn_with_state(state.clone(), inner))
}

/// Layers 1 to 9.
async fn outer(state: State, mut request: Request, next: Next) -> Response {
    let id = request_id::name(&mut request);
    let style = Style::of(request.uri().path());
    let answer = async |request| {
        let response = catch::catch(admitted(&state, request, next), &id).await;
        let mut response = render(response, style, id.as_str());
        harden::harden(&mut response);
        response
    };
    let mut response = observe::observe(&state, &id, request, answer).await;
    request_id::show(&mut response, &id);
    response
}

/// Layers 6 to 9.
async fn admitted(state: &State, request: Request, next: Next) -> Response {
    let asker = host::check(state, &request).and_then(|called| origin::check(state, &called, &request));
    let page = match asker {
        Ok(Asker::Anybody) => None,
        Ok(Asker::Page(page)) => Some(page),
        Ok(Asker::Preflight(page)) => {
            let mut response = origin::preflight();
            origin::show(&mut response, page);
            return response;
        }
        Err(problem) => return problem.into_response(),
    };
    let watched = content::check(&request).and_then(|()| inflow::watch(state, request));
    let mut response = match watched {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    if let Some(page) = page {
        origin::show(&mut response, page);
    }
    response
}

/// Layers 10 and 11.
async fn inner(state: State, mut request: Request, next: Next) -> Response {
    let caller = match authenticate::authenticate(
        &state,
        request.uri(),
        request.headers(),
        request.extensions(),
    )
    .await
    {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let (may, left) = pace::take(&caller);
    let mut response = match may {
        Ok(()) => {
            request.extensions_mut().insert(caller.clone());
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    if let Some(left) = left {
        pace::show(&mut response, &left);
    }
    // For the log.
    response.extensions_mut().insert(caller);
    response
}
