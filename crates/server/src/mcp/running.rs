//! Running programs for tools: whoever asked hears of output while it comes, and ends the run by not waiting for it.

use super::Connection;
use crate::{Caller, Problem, Scope};
use engine::Event;
use engine::control::{Done, Program};
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use serde_json::json;
use std::sync::{Mutex, PoisonError};
use tokio::sync::mpsc;

/// Most bytes that one notification carries.
const MOST_AT_ONCE: usize = 32 << 10;

/// Who asked, and how to tell them something meanwhile.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) caller: Caller,
    peer: Option<Peer<RoleServer>>,
    token: Option<ProgressToken>,
    level: Option<LoggingLevel>,
}

impl Asked {
    pub(super) fn new(
        connection: &Connection,
        caller: Caller,
        context: &RequestContext<RoleServer>,
    ) -> Asked {
        Asked {
            caller,
            peer: Some(context.peer.clone()),
            token: context.meta.get_progress_token(),
            level: context.meta.log_level().or(connection.own().level),
        }
    }

    /// Somebody who hears of nothing but the result.
    pub(super) fn alone(caller: Caller) -> Asked {
        Asked { caller, peer: None, token: None, level: None }
    }

    /// As the control plane wants to know them.
    pub(super) fn of_engine(&self) -> engine::control::Caller {
        self.caller.of_engine()
    }

    /// Says something that nobody has to hear.
    pub(super) async fn log(&self, level: LoggingLevel, data: serde_json::Value) {
        if let Some(peer) = &self.peer
            && self.level.is_some_and(|least| rank(level) >= rank(least))
        {
            let message =
                LoggingMessageNotificationParam::new(level, data).with_logger("sandboxd".to_owned());
            // Whoever is gone does not hear it.
            let _ = peer.notify_logging_message(message).await;
        }
    }

    /// Says that a file is another one now.
    pub(super) async fn changed(&self, uri: String) {
        if let Some(peer) = &self.peer {
            let param = rmcp::model::ResourceUpdatedNotificationParam::new(uri);
            let _ = peer.notify_resource_updated(param).await;
        }
    }
}

fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        _ => 7,
    }
}

/// Where a program wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Its output.
    Stdout,
    /// Its diagnostics.
    Stderr,
}

impl Stream {
    pub(super) fn word(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// What was written, in the order in which it came.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) stream: Stream,
    pub(super) bytes: Vec<u8>,
}

/// A program that is over.
pub(super) struct Ran {
    pub(super) done: Done,
    pub(super) pieces: Vec<Piece>,
}

impl Connection {
    /// Runs a program in a session, or in a sandbox of its own.
    pub(super) async fn run(
        &self,
        asked: &Asked,
        session: Option<&str>,
        program: Program,
    ) -> Result<Ran, Problem> {
        asked.caller.require(Scope::Run)?;
        let (caller, plane) = (asked.of_engine(), self.mcp.plane());
        let pieces = Mutex::new(Vec::new());
        let (tell, told) = mpsc::unbounded_channel();
        let run = async {
            // Output is bounded by the limits of the program, so what waits to be told is too.
            let tell = asked.token.is_some().then_some(tell);
            let hear = |event| {
                let (stream, bytes) = match event {
                    Event::Stdout { bytes, .. } => (Stream::Stdout, bytes),
                    Event::Stderr { bytes, .. } => (Stream::Stderr, bytes),
                    Event::Preparing { .. } | Event::Started { .. } => return,
                };
                let piece = Piece { stream, bytes };
                if let Some(tell) = &tell {
                    let _ = tell.send(piece.clone());
                }
                pieces.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
            };
            plane.execute_heard(&caller, session, program, &hear).await
        };
        let (done, ()) = tokio::join!(run, asked.pass_on(told));
        let done = done?;
        let facts = json!({"execution_id": done.id, "status": done.status.word(), "session_id": session});
        asked.log(LoggingLevel::Info, facts).await;
        Ok(Ran { done, pieces: pieces.into_inner().unwrap_or_else(PoisonError::into_inner) })
    }
}

impl Asked {
    /// Tells of output while it comes, as much at once as there is.
    async fn pass_on(&self, mut told: mpsc::UnboundedReceiver<Piece>) {
        let (Some(peer), Some(token)) = (&self.peer, &self.token) else { return };
        let mut count = 0;
        let mut next = told.recv().await;
        let mut rest = Vec::new();
        while let Some(Piece { stream, bytes }) = next.take() {
            count += bytes.len();
            rest.extend(bytes);
            while rest.len() < MOST_AT_ONCE && next.is_none() {
                match told.try_recv() {
                    Ok(more) if more.stream == stream => {
                        count += more.bytes.len();
                        rest.extend(more.bytes);
                    }
                    Ok(other) => next = Some(other),
                    Err(_) => break,
                }
            }
            // A character may have come only in part.
            let cut = if next.is_none() { whole(&rest) } else { rest.len() };
            let text = String::from_utf8_lossy(&rest[..cut]).into_owned();
            rest.drain(..cut);
            if !text.is_empty() {
                let mut progress =
                    ProgressNotificationParam::new(token.clone(), count as f64).with_message(text);
                let mut meta = rmcp::model::NotificationMetaObject::new();
                meta.insert("role".to_owned(), json!(stream.word()));
                progress.meta = Some(meta);
                if peer.notify_progress(progress).await.is_err() {
                    return;
                }
            }
            if next.is_none() {
                next = told.recv().await;
            }
        }
    }
}

/// How many bytes of this do not end within a character.
fn whole(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_cut() {
        assert_eq!(whole("aé".as_bytes()), 3);
        assert_eq!(whole(&"aé".as_bytes()[..2]), 1);
        assert_eq!(whole(&[b'a', 0xff, b'b']), 3);
        assert_eq!(whole(&[]), 0);
    }
}
