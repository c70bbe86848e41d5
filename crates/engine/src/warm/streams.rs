//! What goes to a waiting program and what comes from it.

use crate::conversation::{End, Heard};
use crate::engine::Event;
use protocol::{Ending, Frame, FromHost, Kind};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long small writes are gathered, so that a program that writes bytes cannot keep us busy.
const GATHER: Duration = Duration::from_millis(1);
/// What is at least this large is passed on at once.
const LARGE: usize = 16 << 10;
/// Small pieces in a row that are passed on at once.
const FEW: u32 = 8;

/// Bytes on their way out.
pub(super) struct Outbox<'a> {
    first: Vec<u8>,
    rest: &'a [u8],
    sent: usize,
}

impl<'a> Outbox<'a> {
    pub(super) fn new(first: Vec<u8>, rest: &'a [u8]) -> Outbox<'a> {
        Outbox { first, rest, sent: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.first.len() + self.rest.len()
    }

    pub(super) fn clear(&mut self) {
        *self = Outbox::new(Vec::new(), &[]);
    }

    /// Adds a message at the end, where nothing but messages goes out.
    pub(super) fn add(&mut self, message: &FromHost) {
        Frame::control(message).write_to(&mut self.first);
    }

    /// Sends as much as there is room for.
    pub(super) fn push(
        &mut self,
        mut write: impl FnMut(&[u8]) -> std::io::Result<usize>,
    ) -> std::io::Result<()> {
        while !self.is_empty() {
            let bytes = match self.sent.checked_sub(self.first.len()) {
                None => &self.first[self.sent..],
                Some(sent) => &self.rest[sent..],
            };
            match write(bytes) {
                Ok(length) => self.sent += length,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// A stream of a program's, where we hear it.
#[derive(Debug)]
pub(super) enum Tap {
    Open(pipe::Receiver),
    /// Nobody is told when something is written until then: to be told once for every byte costs more than the byte.
    Rests(OwnedFd, Instant),
    Closed,
}

impl Tap {
    /// Resolves when there may be something to read.
    pub(super) async fn ready(&mut self) {
        if let Tap::Rests(_, until) = self {
            sleep_until(*until).await;
            if let Tap::Rests(fd, _) = std::mem::replace(self, Tap::Closed) {
                *self = pipe::Receiver::from_owned_fd_unchecked(fd).map_or(Tap::Closed, Tap::Open);
            }
        }
        if let Tap::Open(pipe) = self {
            // An error is found by reading.
            let _ = pipe.readable().await;
        }
    }

    /// What is there to read.
    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
        buffer.clear();
        match self {
            Tap::Open(pipe) => pipe.try_read_buf(buffer),
            Tap::Rests(..) => Err(ErrorKind::WouldBlock.into()),
            Tap::Closed => Ok(0),
        }
    }

    /// Rests if so much came in small pieces that it is worth it.
    pub(super) fn rest_after(&mut self, stream: &Stream) {
        if stream.small <= FEW || !stream.open {
            return;
        }
        if let Tap::Open(pipe) = std::mem::replace(self, Tap::Closed)
            && let Ok(fd) = pipe.into_nonblocking_fd()
        {
            *self = Tap::Rests(fd, Instant::now() + GATHER);
        }
    }

    /// What is left of it at the end, however the reactor sees it.
    fn rest(&self, buffer: &mut Vec<u8>) -> rustix::io::Result<usize> {
        buffer.clear();
        let from = match self {
            Tap::Open(pipe) => pipe.as_fd(),
            Tap::Rests(fd, _) => fd.as_fd(),
            Tap::Closed => return Ok(0),
        };
        rustix::io::read(from, rustix::buffer::spare_capacity(buffer))
    }
}

pub(super) struct Stream {
    kind: Kind,
    pub(super) open: bool,
    /// Small pieces in a row.
    small: u32,
    kept: Vec<u8>,
    pub(super) written: u64,
}

impl Stream {
    pub(super) fn new(kind: Kind) -> Stream {
        Stream { kind, open: true, small: 0, kept: Vec::new(), written: 0 }
    }
}

/// What a program writes, kept within bounds and passed on.
pub(super) struct Listening<'a> {
    pub(super) out: Stream,
    pub(super) err: Stream,
    pub(super) sequence: u64,
    pub(super) most: usize,
    /// Until when somebody may take to listen.
    pub(super) deadline: Instant,
    pub(super) events: &'a mpsc::Sender<Event>,
    pub(super) buffer: Vec<u8>,
    pub(super) heard: Heard,
}

impl Listening<'_> {
    /// Takes what was read of a stream into the buffer.
    pub(super) async fn hear(&mut self, kind: Kind, read: std::io::Result<usize>) {
        let stream = if kind == Kind::Stdout { &mut self.out } else { &mut self.err };
        let length = match read {
            Ok(0) => {
                stream.open = false;
                return;
            }
            Ok(length) => length,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(_) => {
                stream.open = false;
                return;
            }
        };
        stream.written += length as u64;
        stream.small = if length < LARGE { stream.small + 1 } else { 0 };
        let bytes = &self.buffer[..length.min(self.most.saturating_sub(stream.kept.len()))];
        if bytes.is_empty() {
            return;
        }
        stream.kept.extend_from_slice(bytes);
        self.sequence += 1;
        let (sequence, bytes) = (self.sequence, bytes.to_vec());
        let event = match stream.kind {
            Kind::Stdout => Event::Stdout { sequence, bytes },
            _ => Event::Stderr { sequence, bytes },
        };
        // Nobody listening any more is noticed as a cancellation.
        let _ = tokio::time::timeout_at(self.deadline, self.events.send(event)).await;
    }

    /// Takes what is left.
    pub(super) async fn drain(&mut self, kind: Kind, from: &Tap) {
        loop {
            match from.rest(&mut self.buffer) {
                Ok(length) if length > 0 => self.hear(kind, Ok(length)).await,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    pub(super) fn finish(self, mut end: End, told: Option<Ending>) -> Heard {
        if let End::Finished(result) = &mut end {
            result.written = protocol::Written { stdout: self.out.written, stderr: self.err.written };
            if let (Ending::Cancelled, Some(told)) = (&result.ending, told) {
                result.ending = told;
            }
        }
        Heard { stdout: self.out.kept, stderr: self.err.kept, end, ..self.heard }
    }
}
