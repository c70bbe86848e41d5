//! What happens to an execution, while it happens: as server-sent events, or over a WebSocket. Everything has a number,
//! and whoever was cut off goes on behind the last one it saw.

use crate::panics::caught;
use crate::{Caller, Id, Params, Problem, Scope, State};
use axum::body::Body;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use engine::control::{Caller as Asker, ControlPlane, Follow, Happening, Program, What};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// How often something is said where nothing happens, so that nobody in between takes the connection for dead.
const PULSE: Duration = Duration::from_secs(15);

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(stream)).routes(routes!(socket))
}

/// From where on.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct From {
    /// The number of the last one seen; 0 for all. The header `Last-Event-ID` says the same.
    after: Option<u64>,
}

/// Follow an execution by server-sent events
#[utoipa::path(
    get, path = "/api/v1/executions/{execution_id}/stream", tag = "executions",
    params(("execution_id" = String, Path, description = "Of the execution"), From),
    responses((status = 200, content_type = "text/event-stream", description = "Events `status`, `started`, `stdout`, `stderr`, `missing`, `finished`", body = String))
)]
async fn stream(
    state: State,
    caller: Caller,
    id: Id,
    Params(from): Params<From>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.require(Scope::Run)?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let after = from.after.or(last).unwrap_or(0);
    let follow = state.plane().follow(&caller.of_engine(), id.as_str(), after).await?;
    Ok(events(follow, None))
}

/// Begins an execution and follows it. Unless it has an idempotency key it ends when nobody follows it any more.
pub(super) async fn of_new(
    state: &State,
    caller: &Caller,
    session: Option<&str>,
    program: Program,
    key: Option<&str>,
) -> Result<Response, Problem> {
    let (plane, caller) = (state.plane().clone(), caller.of_engine());
    let accepted = plane.submit(&caller, session, program, key).await?;
    let follow = plane.follow(&caller, &accepted.id, 0).await?;
    let leash = key.is_none().then(|| Leash { plane, caller, id: accepted.id.clone(), over: false });
    let mut response = events(follow, leash);
    if let Ok(id) = HeaderValue::from_str(&accepted.id) {
        response.headers_mut().insert("x-execution-id", id);
    }
    Ok(response)
}

/// Ends an execution that nobody follows any more.
struct Leash {
    plane: Arc<ControlPlane>,
    caller: Asker,
    id: String,
    over: bool,
}

impl Drop for Leash {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (plane, caller, id) = (self.plane.clone(), self.caller.clone(), std::mem::take(&mut self.id));
        tokio::spawn(async move { plane.cancel(&caller, &id).await });
    }
}

fn events(follow: Follow, leash: Option<Leash>) -> Response {
    let stream = futures_util::stream::unfold((follow, leash), |(mut follow, mut leash)| async {
        let bytes = match tokio::time::timeout(PULSE, follow.next()).await {
            Err(_) => ": still there\n\n".to_owned(),
            Ok(happened) if happened.is_empty() => {
                if let Some(leash) = &mut leash {
                    leash.over = true;
                }
                return None;
            }
            Ok(happened) => happened.iter().map(event).collect(),
        };
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(bytes)), (follow, leash)))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(stream)).into_response()
}

fn event(happening: &Happening) -> String {
    let (name, data) = told(happening);
    format!("id: {}\nevent: {name}\ndata: {data}\n\n", happening.sequence)
}

/// What happened, in a word and its facts.
fn told(happening: &Happening) -> (&'static str, Value) {
    let chunk = |bytes: &Bytes| match std::str::from_utf8(bytes) {
        Ok(text) => json!({"text": text, "at": happening.at}),
        Err(_) => json!({"base64": STANDARD.encode(bytes), "at": happening.at}),
    };
    match &happening.what {
        What::Status(status) => ("status", json!({"status": status.word(), "at": happening.at})),
        What::Preparing => ("preparing", json!({"at": happening.at})),
        What::Started(step) => ("started", json!({"step": step, "at": happening.at})),
        What::Stdout(bytes) => ("stdout", chunk(bytes)),
        What::Stderr(bytes) => ("stderr", chunk(bytes)),
        What::Paused => ("paused", json!({"at": happening.at})),
        What::Resumed => ("resumed", json!({"at": happening.at})),
        What::Missing(count) => ("missing", json!({"count": count})),
        What::Finished(record) => ("finished", record.read().unwrap_or(Value::Null)),
    }
}

/// Follow an execution over a WebSocket
///
/// Each message is one event: `{"sequence":…,"event":…,"data":…}`. `{"cancel":true}` ends the execution.
#[utoipa::path(
    get, path = "/api/v1/executions/{execution_id}/ws", tag = "executions",
    params(("execution_id" = String, Path, description = "Of the execution"), From),
    responses((status = 101, description = "The protocol changes"))
)]
async fn socket(
    state: State,
    caller: Caller,
    id: Id,
    Params(from): Params<From>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    caller.require(Scope::Run)?;
    let caller = caller.of_engine();
    let follow = state.plane().follow(&caller, id.as_str(), from.after.unwrap_or(0)).await?;
    let plane = state.plane().clone();
    // What comes in is a word or two.
    let upgrade = upgrade.max_message_size(4096).max_frame_size(4096);
    Ok(upgrade.on_upgrade(async move |socket| {
        // A socket ends without a word.
        let _ = caught(talk(socket, follow, plane, caller, id)).await;
    }))
}

async fn talk(mut socket: WebSocket, mut follow: Follow, plane: Arc<ControlPlane>, caller: Asker, id: Id) {
    loop {
        let happened = tokio::select! {
            happened = follow.next() => happened,
            heard = socket.recv() => match heard {
                Some(Ok(Message::Text(text))) => {
                    let wish: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
                    if wish["cancel"] == true {
                        let _ = plane.cancel(&caller, id.as_str()).await;
                    }
                    continue;
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
            () = tokio::time::sleep(PULSE) => {
                if socket.send(Message::Ping(Bytes::new())).await.is_err() {
                    return;
                }
                continue;
            }
        };
        if happened.is_empty() {
            let goodbye = CloseFrame { code: close_code::NORMAL, reason: "finished".into() };
            let _ = socket.send(Message::Close(Some(goodbye))).await;
            return;
        }
        for happening in &happened {
            let (event, data) = told(happening);
            let text = json!({"sequence": happening.sequence, "event": event, "data": data}).to_string();
            if socket.send(Message::Text(text.into())).await.is_err() {
                return;
            }
        }
    }
}
