//! The three streams of a running program.

use jail::mutant::{Mutant, lacks};
use protocol::{Frame, Kind};
use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Small writes are gathered for this long, so that a program writing bytes cannot flood us with frames.
const GATHER: Duration = Duration::from_millis(5);
/// A chunk at least this large is passed on at once.
const LARGE: usize = 4096;

/// One output stream.
pub(crate) struct Output {
    kind: Kind,
    from: Option<OwnedFd>,
    /// Bytes written by the program, passed on or not.
    pub(crate) written: u64,
    most: u64,
    not_before: Option<Instant>,
}

impl Output {
    /// The stream and the end the program gets.
    pub(crate) fn new(kind: Kind, most: u64, written: u64) -> Result<(Output, OwnedFd), Errno> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&from, true)?;
        Ok((Output { kind, from: Some(from), written, most, not_before: None }, to))
    }

    /// A stream that never carries anything.
    pub(crate) fn none() -> Output {
        Output { kind: Kind::Stdout, from: None, written: 0, most: 0, not_before: None }
    }

    /// What to wait on, unless it is over or gathering.
    pub(crate) fn fd(&self, now: Instant) -> Option<BorrowedFd<'_>> {
        let gathering = self.not_before.is_some_and(|at| at > now);
        self.from.as_ref().filter(|_| !gathering).map(AsFd::as_fd)
    }

    /// When gathering ends.
    pub(crate) fn wake(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|at| self.from.is_some() && *at > now)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.from.is_none()
    }

    /// Reads once and returns the frame to pass on, if any of it may be. `sequence` counts frames.
    pub(crate) fn pump(&mut self, buffer: &mut Vec<u8>, sequence: &mut u64) -> Option<Frame> {
        buffer.clear();
        let length = match read(self.from.as_ref()?, spare_capacity(buffer)) {
            Ok(0) => {
                self.from = None;
                return None;
            }
            Ok(length) => length,
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Err(_) => {
                self.from = None;
                return None;
            }
        };
        if length < LARGE {
            self.not_before = Some(Instant::now() + GATHER);
        }
        let most = if lacks(Mutant::OutputCap) { u64::MAX } else { self.most };
        let room = most.saturating_sub(self.written).min(length as u64) as usize;
        self.written += length as u64;
        if room == 0 {
            return None;
        }
        *sequence += 1;
        Some(Frame::output(self.kind, *sequence, &buffer[..room]))
    }

    /// Whether something is left to read now.
    pub(crate) fn has_more(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        self.from.as_ref().is_some_and(|fd| {
            let mut fds = [PollFd::new(fd, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        })
    }
}

/// The input stream.
#[derive(Default)]
pub(crate) struct Input {
    to: Option<OwnedFd>,
    waiting: VecDeque<Vec<u8>>,
    /// Bytes of the first that are written already.
    begun: usize,
    /// No more comes.
    ended: bool,
    /// Nobody reads any more.
    closed: bool,
}

/// Input kept for a program that does not read; beyond it the engine has to wait.
const ENOUGH_INPUT: usize = 256 << 10;

impl Input {
    /// An empty file for a program without input.
    pub(crate) fn none() -> Result<OwnedFd, Errno> {
        rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    }

    /// Opens the pipe and returns the end the program gets.
    pub(crate) fn connect(&mut self) -> Result<OwnedFd, Errno> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&to, true)?;
        self.to = Some(to);
        self.pump();
        Ok(from)
    }

    /// Takes a frame of input; an empty one ends it.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            self.ended = true;
        } else if !self.closed {
            self.waiting.push_back(bytes);
        }
        self.pump();
    }

    /// What to wait on for room in the pipe.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.to.as_ref().filter(|_| !self.waiting.is_empty()).map(AsFd::as_fd)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.iter().map(Vec::len).sum::<usize>() > ENOUGH_INPUT
    }

    pub(crate) fn pump(&mut self) {
        while let (Some(to), Some(first)) = (&self.to, self.waiting.front()) {
            match write(to, &first[self.begun..]) {
                Ok(length) if self.begun + length == first.len() => {
                    self.waiting.pop_front();
                    self.begun = 0;
                }
                Ok(length) => self.begun += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // The program closed its input: the rest is for nobody.
                Err(_) => self.close(),
            }
        }
        if self.ended && self.waiting.is_empty() {
            self.close();
        }
    }

    fn close(&mut self) {
        self.to = None;
        self.closed = true;
        self.waiting.clear();
    }
}
