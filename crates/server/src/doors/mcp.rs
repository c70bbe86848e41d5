//! The Model Context Protocol over HTTP, at `/mcp`, and over WebSockets, at `/mcp` and `/mcp/ws`.

mod owners;

use crate::keys::Refusal;
use crate::mcp::{Connection, LONGEST_MESSAGE, Mcp, Socket, serve, with_style};
use crate::panics::caught;
use crate::{Caller, Problem, State, layers};
use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http_body_util::BodyExt as _;
use owners::{HEADER, Owners};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;

/// How often it is looked whether whoever has a socket is still welcome.
const GLANCE: Duration = Duration::from_secs(1);

type Service = StreamableHttpService<Connection, LocalSessionManager>;

pub(super) fn door(state: &State, mcp: &Mcp) -> OpenApiRouter<State> {
    let stop = CancellationToken::new();
    let (told, until) = (stop.clone(), state.clone());
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move {
            until.drained().await;
            told.cancel();
        });
    }
    let config = StreamableHttpServerConfig::default()
        // Names and origins are checked by the layers that every request passes.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_json_response(true)
        .with_max_request_body_bytes(usize::try_from(state.options().max_json).unwrap_or(usize::MAX))
        .with_cancellation_token(stop.clone());
    let sessions = Arc::<LocalSessionManager>::default();
    let theirs = mcp.clone();
    let service = Service::new(move || Ok(theirs.requests()), sessions.clone(), config);
    let way = Way { state: state.clone(), mcp: mcp.clone(), service, owners: Owners::new(sessions), stop };
    let socket = way.clone();
    OpenApiRouter::new()
        .route("/mcp", any(move |caller: Caller, request: Request| way.clone().handle(caller, request)))
        .route(
            "/mcp/ws",
            get(move |caller: Caller, headers: HeaderMap, upgrade: WebSocketUpgrade| async move {
                socket.upgrade(caller, &headers, upgrade)
            }),
        )
}

#[derive(Clone)]
struct Way {
    state: State,
    mcp: Mcp,
    service: Service,
    owners: Owners,
    stop: CancellationToken,
}

impl Way {
    async fn handle(self, caller: Caller, request: Request) -> Result<Response, Problem> {
        if wants_socket(request.headers()) {
            let (mut parts, _) = request.into_parts();
            return match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
                Ok(upgrade) => self.upgrade(caller, &parts.headers, upgrade),
                Err(refusal) => Ok(refusal.into_response()),
            };
        }
        let known = request.headers().get(HEADER).cloned();
        if let Some(id) = &known
            && !self.owners.is_of(id, &caller)
        {
            // As if there was none: knowing its name is not owning it.
            return Err(Problem::not_found("session"));
        }
        let ends = request.method() == Method::DELETE;
        let response = self.service.handle(request).await;
        let response = match self.mcp.has_style() {
            true => response.map(|body| Body::new(body.map_frame(|frame| frame.map_data(with_style)))),
            false => response.map(Body::new),
        };
        match (known, response.headers().get(HEADER)) {
            (Some(id), _) if ends && response.status().is_success() => {
                self.owners.forget(&id);
                // It is over, not about to be: some clients complain about the latter.
                return Ok(StatusCode::NO_CONTENT.into_response());
            }
            (None, Some(id)) => self.owners.add(id, &caller).await,
            _ => {}
        }
        Ok(response)
    }

    fn upgrade(
        self,
        caller: Caller,
        headers: &HeaderMap,
        upgrade: WebSocketUpgrade,
    ) -> Result<Response, Problem> {
        let (connection, stop) = (self.mcp.connection(caller), self.stop.child_token());
        let token = layers::token(headers).map_err(Problem::unauthorized)?;
        let upgrade =
            upgrade.protocols(["mcp"]).max_message_size(LONGEST_MESSAGE).max_frame_size(LONGEST_MESSAGE);
        Ok(upgrade.on_upgrade(async move |socket| {
            let served = async {
                tokio::select! {
                    () = serve(connection, Socket::over(socket), stop) => {}
                    () = self.revoked(&token) => {}
                }
            };
            // A socket ends without a word.
            let _ = caught(served).await;
        }))
    }

    /// Returns when a token does not work any more: a socket outlives the request that brought it.
    async fn revoked(&self, token: &str) {
        loop {
            tokio::time::sleep(GLANCE).await;
            if let Err(Refusal::Wrong) = self.state.keys().check(token, None).await {
                return;
            }
        }
    }
}

fn wants_socket(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}
