//! A server of its own for each test, and a client that says exactly what it is told to.

use engine::Engine;
use engine::control::{ControlPlane, ControlSettings};
use engine::limits::Ceiling;
use engine::storage::{DatabaseUrl, Objects, Store, StoreSettings};
use serde_json::Value;
use server::{Address, Options, Server, ServerError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than anything here should take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server, and the directory it keeps things in.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) directory: TempDir,
    pub(crate) store: Arc<Store>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), ServerError>>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Is refused, in our words.
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let said = self.json();
        assert_eq!((&said["code"], &said["status"]), (&code.into(), &status.into()), "{said}");
        assert_eq!(said["request_id"].as_str(), self.header("x-request-id"));
        said
    }
}

pub(crate) async fn open_store(state: &Path) -> Arc<Store> {
    let objects = Objects::in_directory(&state.join("objects")).unwrap();
    let url = DatabaseUrl::file(state.join("sandboxd.db"));
    let settings = StoreSettings { events: true, ..StoreSettings::default() };
    Arc::new(Store::open(&url, objects, settings).await.unwrap())
}

/// What is behind the doors. Nothing can be run by it, which is not what is tried here.
pub(crate) async fn plane(store: Arc<Store>) -> Arc<ControlPlane> {
    let engine = Engine::new(PathBuf::from("/nonexistent/sandbox-executor"), Ceiling::default());
    ControlPlane::start(Arc::new(engine), store, ControlSettings::default()).await.unwrap()
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Options)) -> World {
        World::in_directory(TempDir::new().unwrap(), change).await
    }

    pub(crate) async fn in_directory(directory: TempDir, change: impl FnOnce(&mut Options)) -> World {
        let state = directory.path().join("state");
        let store = open_store(&state).await;
        let mut options = options(&state);
        change(&mut options);
        let given = options.token.clone();
        let server = Server::bind(options, plane(store.clone()).await).await.unwrap();
        let Address::Tcp(address) = *server.address() else { panic!("{:?}", server.address()) };
        let token = match given {
            Some(token) => token.reveal().to_owned(),
            None => std::fs::read_to_string(state.join("token")).unwrap().trim().to_owned(),
        };
        let (stop, told) = oneshot::channel();
        let task = tokio::spawn(server.run(told));
        World { address, token, directory, store, stop: Some(stop), task }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends these bytes on a connection of their own, and reads one answer.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect().await;
        // It may be refused before it is complete.
        let _ = stream.write_all(bytes).await;
        read(&mut stream).await
    }

    /// A request with the operator's token.
    pub(crate) async fn call(&self, line: &str, headers: &str, body: &str) -> Reply {
        let token = format!("Authorization: Bearer {}\r\n{headers}", self.token);
        self.send(line, &token, body).await
    }

    /// A request with JSON and some token.
    pub(crate) async fn json(&self, line: &str, token: &str, body: &Value) -> Reply {
        let headers = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        self.send(line, &headers, &body.to_string()).await
    }

    /// A decent request, such as `GET /health`, without a token.
    pub(crate) async fn send(&self, line: &str, headers: &str, body: &str) -> Reply {
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let text = format!("{line} HTTP/1.1\r\nHost: {}\r\n{headers}{length}\r\n{body}", self.address);
        self.raw(text.as_bytes()).await
    }

    /// Tells the server to stop, and does not wait for it.
    pub(crate) fn tell(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
    }

    /// Waits for the server to end; gives back what it leaves.
    pub(crate) async fn end(mut self) -> TempDir {
        self.tell();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap().unwrap();
        self.store.close().await;
        self.directory
    }
}

pub(crate) fn options(state: &Path) -> Options {
    Options {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        state_dir: state.to_owned(),
        socket_activation: false,
        ..Options::default()
    }
}

/// Reads one answer. A connection that ends before is one with status 0.
pub(crate) async fn read(stream: &mut TcpStream) -> Reply {
    tokio::time::timeout(PATIENCE, read_patiently(stream)).await.expect("no answer")
}

async fn read_patiently(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read_buf(&mut bytes).await {
            Ok(1..) => {}
            _ => return Reply { status: 0, headers: Vec::new(), body: bytes },
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let pairs = lines.filter_map(|line| line.split_once(": "));
    let headers: Vec<_> = pairs.map(|(key, value)| (key.to_lowercase(), value.to_owned())).collect();
    let mut body = bytes.split_off(end);
    let length =
        headers.iter().find(|(key, _)| key == "content-length").map(|(_, value)| value.parse().unwrap());
    let bodyless = status == 204 || length == Some(0);
    while !bodyless && length.is_none_or(|length: usize| body.len() < length) {
        if !matches!(stream.read_buf(&mut body).await, Ok(1..)) {
            break;
        }
    }
    Reply { status, headers, body }
}

/// Whether the other end has hung up, and how long that took.
pub(crate) async fn hung_up(stream: &mut TcpStream, within: Duration) -> Option<Duration> {
    let began = std::time::Instant::now();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(within, stream.read_to_end(&mut rest)).await;
    ended.is_ok().then(|| began.elapsed())
}
