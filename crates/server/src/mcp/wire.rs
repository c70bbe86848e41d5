//! Messages over lines of text and over WebSockets. What is no message is answered as the protocol wants it, and ends
//! nothing.

mod admit;

use super::{Connection, style};
use admit::{Admitted, Gate};
use axum::extract::ws::{Message, WebSocket};
use engine::After;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleServer, ServiceExt as _};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longest message.
pub(crate) const LONGEST: usize = 16 << 20;
/// How often something is said where nothing happens, so that nobody in between takes a WebSocket for dead.
const PULSE: Duration = Duration::from_secs(30);

/// Serves a client until it is gone, or until it is told to stop.
pub(crate) async fn serve<S: Source, T: Target>(
    connection: Connection,
    mut wire: Wire<S, T>,
    stop: CancellationToken,
) {
    wire.style = connection.mcp.has_style();
    wire.after = connection.after.clone();
    match connection.serve_with_ct(wire, stop).await {
        Ok(running) => drop(running.waiting().await),
        Err(error) => tracing::debug!(%error, "a client went away before it began"),
    }
}

/// The same over standard input and output, until `stop` is over.
pub async fn serve_standard_streams(connection: Connection, stop: impl Future + Send + 'static) {
    let token = CancellationToken::new();
    let told = token.clone();
    let waits = tokio::spawn(async move {
        stop.await;
        told.cancel();
    });
    let (read, write) = rmcp::transport::stdio_pipes();
    serve(connection, Lines::over(read, write), token).await;
    waits.abort();
}

/// What was heard.
pub(crate) enum Heard {
    /// A message, or what should be one.
    Text(Vec<u8>),
    /// One that is longer than any may be. It is gone.
    TooLong,
}

/// Where messages come from. Waiting for one can be given up at any time, and loses nothing.
pub(crate) trait Source: Send + 'static {
    /// The next one; none when there will be no more.
    fn next(&mut self) -> impl Future<Output = Option<Heard>> + Send;
}

/// Where messages go.
pub(crate) trait Target: Send + 'static {
    /// Sends one, whole.
    fn put(&mut self, text: String) -> impl Future<Output = io::Result<()>> + Send;
}

/// A client at the other end.
pub(crate) struct Wire<S, T> {
    source: S,
    target: Arc<Mutex<T>>,
    gate: Gate,
    style: bool,
    /// What can wait until answers are out.
    after: After,
    /// An answer of ours that is on its way.
    answer: Option<JoinHandle<()>>,
}

impl<S: Source, T: Target> Wire<S, T> {
    fn new(source: S, target: Arc<Mutex<T>>) -> Wire<S, T> {
        Wire { source, target, gate: Gate::default(), style: false, after: After::default(), answer: None }
    }

    /// Sends something from a task of its own: it has to be whole even if nobody waits for it any more.
    fn send_apart(&mut self, text: String) {
        let target = self.target.clone();
        self.answer = Some(tokio::spawn(async move {
            // Whoever does not read it is gone, which the next message finds out.
            let _ = target.lock().await.put(text).await;
        }));
    }
}

impl<S: Source, T: Target> Transport<RoleServer> for Wire<S, T> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let target = self.target.clone();
        let (open, answered) = (self.gate.open.clone(), admit::answered(&message));
        let text = if self.style { style::text(message) } else { serde_json::to_string(&message) };
        async move {
            let sent = target.lock().await.put(text?).await;
            // Only now: whoever does not take answers gets no more of them.
            answered.iter().for_each(|id| open.over(id));
            sent
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(answer) = &mut self.answer {
                // Who sends what is no message waits for the answer to it.
                let _ = answer.await;
                self.answer = None;
            }
            self.gate.open.room().await;
            let heard = tokio::select! {
                biased;
                heard = self.source.next() => heard?,
                never = self.after.pass() => match never {},
            };
            let admitted = match heard {
                Heard::TooLong => Admitted::too_long(),
                Heard::Text(text) => self.gate.admit(&text),
            };
            match admitted {
                Admitted::Message(message) => return Some(*message),
                Admitted::Refused(answer) => self.send_apart(answer),
                Admitted::Nothing => {}
                Admitted::Goodbye => return None,
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

/// Messages that are lines.
pub(crate) struct Lines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// Whether the rest of a line is of one that was too long.
    skipping: bool,
}

impl<R: AsyncRead + Send + Unpin + 'static> Lines<R> {
    /// A client that reads and writes lines.
    pub(crate) fn over<W: AsyncWrite + Send + Unpin + 'static>(
        read: R,
        write: W,
    ) -> Wire<Lines<R>, Written<W>> {
        Wire::new(
            Lines { read: BufReader::with_capacity(64 << 10, read), line: Vec::new(), skipping: false },
            Arc::new(Mutex::new(Written(write))),
        )
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Source for Lines<R> {
    async fn next(&mut self) -> Option<Heard> {
        loop {
            let found = self.read.fill_buf().await.ok()?;
            if found.is_empty() {
                return None;
            }
            let end = found.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(found.len(), |at| at + 1);
            let too_long = !self.skipping && self.line.len() + length > LONGEST;
            if !self.skipping && !too_long {
                self.line.extend_from_slice(&found[..length]);
            }
            self.read.consume(length);
            if too_long {
                (self.line, self.skipping) = (Vec::new(), end.is_none());
                return Some(Heard::TooLong);
            }
            match (end, self.skipping) {
                (Some(_), true) => self.skipping = false,
                (Some(_), false) => {
                    let line = std::mem::take(&mut self.line);
                    if !line.trim_ascii().is_empty() {
                        return Some(Heard::Text(line));
                    }
                }
                (None, _) => {}
            }
        }
    }
}

/// Where lines are written to.
pub(crate) struct Written<W>(W);

impl<W: AsyncWrite + Send + Unpin + 'static> Target for Written<W> {
    async fn put(&mut self, mut text: String) -> io::Result<()> {
        text.push('\n');
        self.0.write_all(text.as_bytes()).await?;
        self.0.flush().await
    }
}

/// Messages that are texts of a WebSocket.
pub(crate) struct Socket {
    stream: SplitStream<WebSocket>,
    pulse: JoinHandle<()>,
}

impl Socket {
    /// A client at the other end of a WebSocket.
    pub(crate) fn over(socket: WebSocket) -> Wire<Socket, SplitSink<WebSocket, Message>> {
        let (sink, stream) = socket.split();
        let target = Arc::new(Mutex::new(sink));
        let theirs = target.clone();
        let pulse = tokio::spawn(async move {
            loop {
                tokio::time::sleep(PULSE).await;
                if theirs.lock().await.send(Message::Ping(Default::default())).await.is_err() {
                    return;
                }
            }
        });
        Wire::new(Socket { stream, pulse }, target)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.pulse.abort();
    }
}

impl Source for Socket {
    async fn next(&mut self) -> Option<Heard> {
        loop {
            match self.stream.next().await? {
                Ok(Message::Text(text)) => return Some(Heard::Text(text.as_bytes().to_vec())),
                Ok(Message::Binary(bytes)) => return Some(Heard::Text(bytes.to_vec())),
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(Message::Close(_)) | Err(_) => return None,
            }
        }
    }
}

impl Target for SplitSink<WebSocket, Message> {
    async fn put(&mut self, text: String) -> io::Result<()> {
        self.send(Message::Text(text.into())).await.map_err(io::Error::other)
    }
}
