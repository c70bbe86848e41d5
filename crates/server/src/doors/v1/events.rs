//! What happens: a list that grows at its end, a piece at a time or as it grows.
//!
//! A stream reads from storage what its reader has not seen, when the reader has taken what came before. So a slow one
//! keeps nothing in memory, and one that takes nothing at all is cut off like every other (`listen/watch.rs`).

use crate::events::{Kinds, Told};
use crate::{Caller, Params, Problem, Scope, State};
use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use engine::storage::{Event, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const USUAL: usize = 100;
const MOST: usize = 1000;
/// Events that are read at a time for a stream.
const PIECE: usize = 100;
/// How often something is said where nothing happens.
const PULSE: Duration = Duration::from_secs(15);
/// The least time between two looks of a stream, so that many of them are no burden where much happens.
const BREATH: Duration = Duration::from_millis(50);
/// How long a stream lasts. Who comes back behind it shows its key again.
const LONGEST: Duration = Duration::from_secs(3600);

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(read))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only events behind this number. The header `Last-Event-ID` says the same. If neither is there, a list begins with
    /// the oldest event that is kept, and a stream with the next one that happens.
    after: Option<u64>,
    /// Only these kinds, with commas between them, such as `session.*,execution.finished`.
    #[param(example = "session.*")]
    kinds: Option<String>,
    /// At most so many are looked through for a list: 1 to 1000, 100 if it is left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A piece of the list of events.
#[derive(Serialize, ToSchema)]
#[schema(as = EventPage)]
struct Events {
    items: Vec<Told>,
    /// What to ask for next, as `after`. The same again means that there is nothing newer.
    next: i64,
}

/// What happened, the oldest first; as it happens with `Accept: text/event-stream`
///
/// The operator sees everything, others what is about their own tenant, and keys only with the scope `admin`. Each
/// message of a stream has the number of its event as `id` and its kind as `event`. `missing` says that some are not kept
/// any more, and `error` that the stream ends before its time; who comes back with `Last-Event-ID` goes on where it was.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "events", params(Which),
    responses(
        (status = 200, description = "Events", content((Events = "application/json"), (String = "text/event-stream"))),
        (status = 422, description = "A parameter is wrong", body = crate::problem::Facts),
    )
)]
async fn read(
    state: State,
    caller: Caller,
    Params(which): Params<Which>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.require(Scope::Run)?;
    let limit = which.limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::invalid_field("limit", format!("is not from 1 to {MOST}")));
    }
    let view = View {
        tenant: caller.sees().map(str::to_owned),
        kinds: Kinds::listed(which.kinds.as_deref())?,
        keys: caller.require(Scope::Admin).is_ok(),
    };
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let after = which.after.or(last).map(|after| i64::try_from(after).unwrap_or(i64::MAX));
    match wants_stream(&headers) {
        true => Ok(stream(Feed::new(state, view, after).await?)),
        false => Ok(Json(list(&state, &view, after.unwrap_or(0), limit).await?).into_response()),
    }
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| {
        value.split(',').any(|kind| {
            kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
        })
    })
}

/// What of all that happens somebody sees.
struct View {
    /// Whose; none for everybody's.
    tenant: Option<String>,
    kinds: Kinds,
    /// Whether also what happens to keys.
    keys: bool,
}

impl View {
    fn shows(&self, event: &Event) -> bool {
        let kind = event.event.kind.as_str();
        self.kinds.include(kind) && (self.keys || !kind.starts_with("key."))
    }

    fn of(&self, events: &[Event]) -> Vec<Told> {
        events.iter().filter(|event| self.shows(event)).map(Told::of).collect()
    }
}

async fn list(state: &State, view: &View, after: i64, limit: usize) -> Result<Events, Problem> {
    let events = state.store().events(view.tenant.as_deref(), after, limit).await?;
    let next = events.last().map_or(after, |last| last.sequence);
    Ok(Events { items: view.of(&events), next })
}

/// Where somebody is who follows what happens.
struct Feed {
    state: State,
    view: View,
    after: i64,
    news: watch::Receiver<u64>,
    looked: Instant,
    began: Instant,
    /// Whether events are not kept any more that should have come first.
    missing: bool,
    over: bool,
}

impl Feed {
    async fn new(state: State, view: View, after: Option<i64>) -> Result<Feed, Problem> {
        let news = state.store().news();
        let (after, missing) = match after {
            Some(after) => {
                let first = state.store().events(None, after, 1).await?;
                (after, first.first().is_some_and(|first| first.sequence > after.saturating_add(1)))
            }
            None => (state.store().latest_event().await?, false),
        };
        let now = Instant::now();
        let looked = now.checked_sub(BREATH).unwrap_or(now);
        Ok(Feed { state, view, after, news, looked, began: now, missing, over: false })
    }

    /// What happened since, as soon as something has.
    async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        loop {
            tokio::time::sleep_until(self.looked + BREATH).await;
            self.looked = Instant::now();
            self.news.borrow_and_update();
            let tenant = self.view.tenant.as_deref();
            let mut events = self.state.store().events(tenant, self.after, PIECE).await?;
            let more = events.len() == PIECE;
            self.after = events.last().map_or(self.after, |last| last.sequence);
            events.retain(|event| self.view.shows(event));
            if !events.is_empty() {
                return Ok(events);
            }
            if !more && self.news.changed().await.is_err() {
                return Err(StoreError::NotFound { what: "storage" });
            }
        }
    }

    /// The next piece of the stream; nothing when it is over.
    async fn piece(&mut self) -> Option<String> {
        if self.over || self.began.elapsed() >= LONGEST {
            return None;
        }
        if std::mem::take(&mut self.missing) {
            return Some(format!("event: missing\ndata: {}\n\n", json!({"after": self.after})));
        }
        let state = self.state.clone();
        let next = tokio::select! {
            biased;
            () = state.drained() => return None,
            next = tokio::time::timeout(PULSE, self.next()) => next,
        };
        Some(match next {
            Err(_) => ": still there\n\n".to_owned(),
            Ok(Ok(events)) => events.iter().map(message).collect(),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a stream of events ends");
                self.over = true;
                let data = json!({"code": "unavailable", "detail": "storage does not answer at the moment"});
                format!("event: error\ndata: {data}\n\n")
            }
        })
    }
}

fn message(event: &Event) -> String {
    let data = serde_json::to_string(&Told::of(event)).unwrap_or_default();
    format!("id: {}\nevent: {}\ndata: {data}\n\n", event.sequence, event.event.kind)
}

fn stream(feed: Feed) -> Response {
    let hello = futures_util::stream::iter([Bytes::from_static(b"retry: 1000\n\n")]);
    let rest = futures_util::stream::unfold(feed, |mut feed| async {
        let piece = feed.piece().await?;
        Some((Bytes::from(piece), feed))
    });
    let bytes = futures_util::StreamExt::chain(hello, rest);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let body = futures_util::StreamExt::map(bytes, Ok::<_, std::convert::Infallible>);
    (headers, Body::from_stream(body)).into_response()
}
