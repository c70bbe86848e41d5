//! The control stream: frames in, frames out, never blocking.

use crate::files::Files;
use protocol::{ASIDE, Frame, FromExecutor, FromHost, Kind, PARKED_FDS, Reader};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, read, write};

/// Waiting output beyond which programs are made to wait.
const ENOUGH_WAITING: usize = 1 << 20;

pub(crate) struct Control {
    stream: OwnedFd,
    reader: Reader,
    /// Only the pages of it that are used cost anything.
    buffer: Vec<u8>,
    waiting: Vec<u8>,
    sent: usize,
    hung_up: bool,
    /// Told here, so that what is asked of files is answered whatever else is going on.
    files: Option<Files>,
    has_shown_files: bool,
}

impl Control {
    pub(crate) fn new(stream: OwnedFd) -> Result<Control, String> {
        jail::sys::ignore_broken_pipes();
        rustix::io::fcntl_setfd(&stream, rustix::io::FdFlags::CLOEXEC).map_err(|e| e.to_string())?;
        rustix::io::ioctl_fionbio(&stream, true).map_err(|e| e.to_string())?;
        Ok(Control {
            stream,
            reader: Reader::default(),
            buffer: Vec::with_capacity(64 << 10),
            waiting: Vec::new(),
            sent: 0,
            hung_up: false,
            files: None,
            has_shown_files: false,
        })
    }

    /// Answers from now on what is asked of these files.
    pub(crate) fn show(&mut self, files: Files) {
        self.files = Some(files);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(crate) fn hung_up(&self) -> bool {
        self.hung_up
    }

    /// Whether anything was asked of files.
    pub(crate) fn has_shown_files(&self) -> bool {
        self.has_shown_files
    }

    /// Takes in what has arrived.
    pub(crate) fn fill(&mut self) {
        self.buffer.clear();
        match read(&self.stream, spare_capacity(&mut self.buffer)) {
            Ok(0) => self.hung_up = true,
            Ok(_) => self.reader.push(&self.buffer),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.hung_up = true,
        }
    }

    /// The next frame that has arrived whole and is not about files. Nonsense from the engine counts as hanging up.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = self.reader.next_frame().unwrap_or_else(|_| {
                self.hung_up = true;
                None
            })?;
            match frame.kind {
                Kind::FileIn if frame.stream & ASIDE != 0 => {
                    let answer =
                        self.files.as_mut().and_then(|files| files.content(frame.stream, &frame.body));
                    answer.iter().for_each(|answer| self.send(answer));
                }
                // Cheaper than reading every message twice.
                Kind::Control if frame.body.starts_with(br#"{"file""#) => {
                    self.has_shown_files = true;
                    if let (Some(FromHost::File { id, op }), Some(files)) =
                        (self.message(&frame), self.files.as_mut())
                    {
                        let answer = files.take(id, op).unwrap_or_default();
                        answer.iter().for_each(|answer| self.send(answer));
                    }
                }
                _ => return Some(frame),
            }
        }
    }

    /// Waits for news of the engine, which are taken in, or of a child, if anybody wants to hear of it. Whether they are
    /// of a child.
    pub(crate) fn wait(&mut self, signals: &OwnedFd, hears_children: bool) -> bool {
        let wanted = if self.has_waiting() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [PollFd::new(&self.stream, wanted), PollFd::new(signals, PollFlags::IN)];
        // Whoever is listed is woken by every signal, wanted or not.
        let heard = if hears_children { &mut fds[..] } else { &mut fds[..1] };
        if poll(heard, None).is_err() {
            return false;
        }
        let (news, child) = (fds[0].revents(), hears_children && !fds[1].revents().is_empty());
        if news.contains(PollFlags::OUT) {
            self.flush();
        }
        if !(news & !PollFlags::OUT).is_empty() {
            self.fill();
        }
        child
    }

    pub(crate) fn message(&mut self, frame: &Frame) -> Option<FromHost> {
        frame.message().inspect_err(|_| self.hung_up = true).ok()
    }

    pub(crate) fn send(&mut self, frame: &Frame) {
        frame.write_to(&mut self.waiting);
        self.flush();
    }

    /// Says something that need not be heard before the next thing we say.
    pub(crate) fn note(&mut self, message: &FromExecutor) {
        Frame::control(message).write_to(&mut self.waiting);
    }

    pub(crate) fn tell(&mut self, message: &FromExecutor) {
        self.send(&Frame::control(message));
    }

    /// Says something together with everything that waits, and hands over descriptors.
    pub(crate) fn hand_over(&mut self, message: &FromExecutor, fds: &[BorrowedFd<'_>]) {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        self.note(message);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PARKED_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
        let bytes = [std::io::IoSlice::new(&self.waiting[self.sent..])];
        match sendmsg(&self.stream, &bytes, &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(length) => self.sent += length,
            // Nothing has been said yet for which there might be no room.
            Err(_) => self.hung_up = true,
        }
    }

    pub(crate) fn flush(&mut self) {
        while self.sent < self.waiting.len() && !self.hung_up {
            match write(&self.stream, &self.waiting[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.hung_up = true,
            }
        }
        if self.sent == self.waiting.len() {
            self.waiting.clear();
            self.sent = 0;
        }
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.sent < self.waiting.len()
    }

    /// Whether programs should be made to wait before they write more.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting.len() - self.sent > ENOUGH_WAITING
    }

    /// Sends everything that waits, however long the engine takes.
    pub(crate) fn drain(&mut self) {
        while self.has_waiting() && !self.hung_up {
            let mut fds = [PollFd::new(&self.stream, PollFlags::OUT)];
            let _ = poll(&mut fds, None);
            self.flush();
        }
    }

    pub(crate) fn broken(&mut self, reason: &str) {
        self.tell(&FromExecutor::Broken { reason: reason.to_owned() });
        self.drain();
    }
}
