//! Connections: how many there are, what is spoken on them, and how they end.

use super::outflow::Outflow;
use super::stream::Stream;
use super::watch::{Watch, Watched};
use super::{Listener, Peer};
use crate::{Options, State};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

/// Most clients that are turned away at once; further ones hear nothing.
const MOST_REFUSALS: usize = 64;
/// How long it takes at most to turn one away.
const REFUSAL: Duration = Duration::from_millis(500);
/// How long accepting rests when the system has run out of something.
const REST: Duration = Duration::from_millis(50);
/// How long a client has that was told to go because it kept us waiting.
const GOODBYE: Duration = Duration::from_secs(1);
/// Requests at once on one connection.
const STREAMS: u32 = 128;

/// What answers requests.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) router: Router,
    pub(crate) state: State,
}

/// All connections of a server.
pub(crate) struct Connections {
    door: Door,
    http: auto::Builder<TokioExecutor>,
    places: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    tasks: JoinSet<()>,
    ending: watch::Sender<bool>,
}

impl Connections {
    pub(crate) fn new(door: Door) -> Connections {
        let options = door.state.options();
        Connections {
            http: http(options),
            places: Arc::new(Semaphore::new(options.max_connections)),
            refusals: Arc::new(Semaphore::new(MOST_REFUSALS)),
            tasks: JoinSet::new(),
            ending: watch::Sender::new(false),
            door,
        }
    }

    /// Lets clients in, for as long as it is polled.
    pub(crate) async fn accept(&mut self, listener: &Listener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = self.tasks.join_next() => continue,
            };
            match accepted {
                Ok((stream, peer)) => match self.places.clone().try_acquire_owned() {
                    Ok(place) => self.serve(stream, peer, place),
                    Err(_) => self.turn_away(stream),
                },
                Err(error) => {
                    tracing::warn!(%error, "a client was not let in");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    /// Waits for requests in flight, then cuts what is left. Returns how many that were.
    pub(crate) async fn end(mut self, grace: Duration) -> usize {
        self.ending.send_replace(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(grace, all).await;
        let left = self.tasks.len();
        self.tasks.shutdown().await;
        left
    }

    fn serve(&mut self, stream: Stream, peer: Peer, place: OwnedSemaphorePermit) {
        let watch = Watch::new(self.door.state.options());
        let io = TokioIo::new(Watched { stream, watch: watch.clone() });
        let (door, watched) = (self.door.clone(), watch.clone());
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            answer(door.clone(), watched.clone(), peer, request.map(Body::new))
        });
        let connection = self.http.serve_connection_with_upgrades(io, service).into_owned();
        let mut ending = self.ending.subscribe();
        let state = self.door.state.clone();
        self.tasks.spawn(engine::answering(async move {
            let _place = place;
            let _open = Open::new(state);
            let mut connection = pin!(connection);
            // The first look at a client that keeps us waiting asks it to go, the second one cuts it off.
            let mut over = pin!(watch.over());
            let mut cut = pin!(tokio::time::sleep(Duration::MAX));
            let (mut told, mut late) = (false, false);
            loop {
                tokio::select! {
                    ended = connection.as_mut() => {
                        if let Err(error) = ended {
                            tracing::debug!(%error, from = %peer, "a connection broke");
                        }
                        return;
                    }
                    () = &mut over, if !late => {
                        late = true;
                        cut.as_mut().reset(tokio::time::Instant::now() + GOODBYE);
                        connection.as_mut().graceful_shutdown();
                    }
                    () = &mut cut, if late => {
                        tracing::debug!(from = %peer, "a client kept us waiting and was cut off");
                        return;
                    }
                    _ = ending.wait_for(|ending| *ending), if !told => {
                        told = true;
                        connection.as_mut().graceful_shutdown();
                    }
                }
            }
        }));
    }

    /// Says that there is no place, if that can be said quickly.
    fn turn_away(&mut self, mut stream: Stream) {
        self.door.state.metrics().turned_away();
        let Ok(permit) = self.refusals.clone().try_acquire_owned() else { return };
        self.tasks.spawn(async move {
            let _permit = permit;
            let refuse = async {
                stream.write_all(full().as_bytes()).await?;
                stream.shutdown().await?;
                // What it has sent has to be taken, or it is told of a broken connection instead.
                let mut rest = [0; 1024];
                while stream.read(&mut rest).await? > 0 {}
                std::io::Result::Ok(())
            };
            let _ = tokio::time::timeout(REFUSAL, refuse).await;
        });
    }
}

/// The answer to those for whom there is no place.
fn full() -> String {
    let body = serde_json::json!({
        "type": "urn:sandboxd:problem:too_many_connections",
        "title": "Service Unavailable",
        "status": 503,
        "code": "too_many_connections",
        "detail": "there are too many connections",
        "retry_after": 1,
    });
    let body = body.to_string();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn http(options: &Options) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        // The watch is stricter; this is for what it may overlook.
        .header_read_timeout(options.header_timeout.max(options.idle_timeout) * 2)
        .max_buf_size(options.max_header_bytes.max(8192))
        .max_headers(options.max_headers);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(options.max_header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(options.idle_timeout)
        .keep_alive_timeout(options.header_timeout);
    http
}

async fn answer(
    door: Door,
    watch: Arc<Watch>,
    peer: Peer,
    mut request: Request,
) -> Result<Response, Infallible> {
    let answering = watch.begin();
    request.extensions_mut().insert(peer);
    let response = door.router.oneshot(request).await?;
    Ok(response.map(|body| Body::new(Outflow { body, state: door.state, _answering: answering })))
}

/// A connection that is counted.
struct Open(State);

impl Open {
    fn new(state: State) -> Open {
        state.metrics().connected();
        Open(state)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.metrics().disconnected();
    }
}
