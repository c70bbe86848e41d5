//! The role that makes sandboxes: one thread, one socket, one order at a time.
//!
//! When the engine hangs up, however it ended, every box ends: this process ends, and the kernel kills the
//! boxes with it.

use jail::enter::{Blank, JailBox, Lines, Workshop};
use jail::spec::{JailSpec, MOST_SEATS, Seats};
use jail::{JailError, SingleThreaded, sys};
use protocol::spawner::{Order, Reply, pack, unpack};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::collections::HashMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;

/// What becomes of a copy of an interpreter on the host.
type Branch = fn(&str) -> !;

pub(crate) fn run(
    proof: SingleThreaded,
    socket: &OwnedFd,
    branch: Option<Branch>,
    begins_ahead: bool,
) -> Result<(), String> {
    // A signal from the terminal is for the engine to act upon.
    let _ = rustix::process::setsid();
    if rustix::process::geteuid().is_root() {
        // Without root it has to stay readable: only then may it write the id maps of its children.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
            .map_err(|e| format!("could not make the spawner unreadable: {e}"))?;
    }
    // The engine may have been put into a cgroup of its own together with us.
    let workshop = Workshop::open(proof, rustix::process::getppid(), crate::init);
    let mut spawner = Spawner {
        workshop,
        branch,
        branches: Vec::new(),
        boxes: HashMap::new(),
        begins_ahead,
        ahead: None,
        expected: None,
        doomed: Vec::new(),
        dying: Vec::new(),
    };
    spawner.serve(socket)
}

/// How long nothing must be asked for before a box is begun ahead.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

struct Spawner {
    workshop: Workshop,
    branch: Option<Branch>,
    /// Copies of us that load more, until they have ended. They take their orders from the engine, not from us.
    branches: Vec<OwnedFd>,
    boxes: HashMap<String, JailBox>,
    begins_ahead: bool,
    /// Begun before anybody asked for it, once there was nothing else to do.
    ahead: Option<Blank>,
    /// What it will be like.
    expected: Option<JailSpec>,
    /// To be killed when whoever asked for it has been answered: its end comes before everything else.
    doomed: Vec<JailBox>,
    /// Killed, and not yet gone. Nobody has to wait for the kernel to take them down.
    dying: Vec<JailBox>,
}

impl Spawner {
    fn serve(&mut self, socket: &OwnedFd) -> Result<(), String> {
        let served = self.obey_all(socket);
        // When nobody waits for anything any more, however that came about.
        self.workshop.sweep();
        let _ = self.ahead.take().map(Blank::discard);
        let left = self.boxes.drain().map(|(_, jail_box)| jail_box);
        for jail_box in left.chain(self.doomed.drain(..)).chain(self.dying.drain(..)) {
            jail_box.kill();
            // The engine is gone; what cannot be removed now is swept by the next spawner.
            let _ = jail_box.bury();
        }
        served
    }

    /// Obeys until the engine hangs up.
    fn obey_all(&mut self, socket: &OwnedFd) -> Result<(), String> {
        let mut inbox = Inbox::default();
        loop {
            let Some(order) = inbox.next()? else {
                self.wait_for_news(socket)?;
                if inbox.fill(socket)? { continue } else { return Ok(()) }
            };
            let lines = std::mem::take(&mut inbox.lines);
            let reply = pack(&self.obey(order, lines)).map_err(|e| e.to_string())?;
            if send_all(socket, &reply).is_err() {
                return Ok(());
            }
            self.doomed.iter().for_each(|jail_box| {
                jail_box.kill();
            });
            self.dying.append(&mut self.doomed);
        }
    }

    /// Buries the dead until something comes from the engine.
    fn wait_for_news(&mut self, socket: &OwnedFd) -> Result<(), String> {
        loop {
            let mut fds = vec![PollFd::new(socket, PollFlags::IN)];
            fds.extend(self.dying.iter().map(|jail_box| PollFd::new(&jail_box.pidfd, PollFlags::IN)));
            fds.extend(self.branches.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
            let may_begin = self.ahead.is_none() && self.expected.is_some();
            match poll(&mut fds, may_begin.then_some(&IDLE)) {
                Ok(0) => {
                    self.begin_one_more();
                    continue;
                }
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(format!("control socket: {errno}")),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            // From the end, so that what is removed does not shift what is still to be looked at.
            let first = 1 + self.dying.len();
            for index in (0..self.branches.len()).rev().filter(|index| ready[first + index]) {
                let ended = self.branches.swap_remove(index);
                let _ = waitid(WaitId::PidFd(ended.as_fd()), WaitIdOptions::EXITED);
            }
            for index in (0..self.dying.len()).rev().filter(|index| ready[index + 1]) {
                // What cannot be removed now is swept by the next spawner.
                let _ = self.dying.swap_remove(index).bury();
            }
            if ready[0] {
                return Ok(());
            }
        }
    }

    fn obey(&mut self, order: Order, lines: Vec<OwnedFd>) -> Reply {
        match order {
            Order::Make { spec } => match understood(lines, spec.seats.as_ref()) {
                Some(lines) => self.make(&spec, lines),
                None => failed(&spec.id, Errno::BADF),
            },
            Order::Measure { id } => match self.boxes.get(&id) {
                Some(jail_box) => Reply::Measured { usage: jail_box.cgroup.usage() },
                None => Reply::Unknown,
            },
            Order::Relieve { id } => match self.boxes.get(&id) {
                Some(jail_box) => {
                    jail_box.cgroup.relieve();
                    Reply::Relieved
                }
                None => Reply::Unknown,
            },
            Order::Destroy { id } => match self.boxes.remove(&id) {
                Some(jail_box) => {
                    let usage = jail_box.cgroup.usage();
                    self.doomed.push(jail_box);
                    Reply::Destroyed { usage }
                }
                None => Reply::Unknown,
            },
            Order::Branch { load } => match (self.branch, lines.into_iter().next()) {
                (Some(branch), Some(socket)) => self.branch_off(branch, &load, &socket),
                _ => failed("branch", Errno::INVAL),
            },
        }
    }

    fn branch_off(&mut self, branch: Branch, load: &str, socket: &OwnedFd) -> Reply {
        match self.workshop.fork_plain() {
            Ok(Some((_, pidfd))) => {
                self.branches.push(pidfd);
                Reply::Branched
            }
            // Everything else we hold is ours: boxes, their cgroups and ids, and above all the way to the engine, which
            // would not notice our end while somebody else has it.
            Ok(None) => match sys::copy_fd(socket.as_fd(), 0, false).and_then(|()| sys::close_from(3)) {
                Ok(()) => branch(load),
                Err(_) => sys::exit_now(1),
            },
            Err(error) => Reply::Failed { error },
        }
    }

    fn make(&mut self, spec: &JailSpec, lines: Lines) -> Reply {
        if self.boxes.contains_key(&spec.id) {
            return failed(&spec.id, Errno::EXIST);
        }
        match self.blank(spec).and_then(|blank| blank.finish(spec, lines)?.stand()) {
            Ok(jail_box) => {
                let layers = jail_box.layers.clone();
                self.boxes.insert(spec.id.clone(), jail_box);
                self.expected = self.begins_ahead.then(|| spec.clone());
                Reply::Made { layers }
            }
            Err(error) => Reply::Failed { error },
        }
    }

    /// Begins a box like the last one. Whatever goes wrong with it will go wrong again, and be reported, when
    /// one is asked for.
    fn begin_one_more(&mut self) {
        let Some(spec) = self.expected.take() else { return };
        let begun = self.workshop.begin(spec.network).and_then(|mut blank| match blank.furnish(&spec) {
            Ok(()) => Ok(blank),
            Err(error) => blank.discard().and(Err(error)),
        });
        self.ahead = begun.ok();
    }

    /// The box that was begun ahead, if it suits, or else a new one.
    fn blank(&mut self, spec: &JailSpec) -> Result<Blank, JailError> {
        match self.ahead.take() {
            Some(blank) if blank.suits(spec) => return Ok(blank),
            Some(blank) => blank.discard()?,
            None => {}
        }
        self.workshop.begin(spec.network)
    }
}

/// A control stream, and beside it one for each seat, or three streams of a program, or none.
fn understood(fds: Vec<OwnedFd>, seats: Option<&Seats>) -> Option<Lines> {
    let mut fds = fds.into_iter();
    let control = fds.next()?;
    let streams: Vec<OwnedFd> = fds.collect();
    match (streams.len(), seats) {
        (count, Some(seats)) => {
            (count == seats.count as usize).then_some(Lines { control, program: None, seats: streams })
        }
        (0, None) => Some(control.into()),
        (_, None) => Some(Lines { control, program: Some(streams.try_into().ok()?), seats: Vec::new() }),
    }
}

fn failed(id: &str, errno: Errno) -> Reply {
    Reply::Failed { error: JailError::new(jail::Step::Namespaces, id, errno) }
}

/// What has arrived and was not understood yet: several orders may come at once, or one in pieces.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    lines: Vec<OwnedFd>,
}

impl Inbox {
    /// Whether a whole order is there already.
    fn next(&mut self) -> Result<Option<Order>, String> {
        let Some((order, length)) = unpack(&self.bytes)? else { return Ok(None) };
        self.bytes.drain(..length);
        Ok(Some(order))
    }

    /// Takes in what has arrived. `false` when the engine has hung up.
    fn fill(&mut self, socket: &OwnedFd) -> Result<bool, String> {
        let mut buffer = [0; 16 << 10];
        match receive(socket, &mut buffer) {
            Ok((0, _)) => Ok(false),
            Ok((length, lines)) => {
                self.bytes.extend_from_slice(&buffer[..length]);
                self.lines.extend(lines);
                Ok(true)
            }
            Err(Errno::INTR) => Ok(true),
            Err(errno) => Err(format!("control socket: {errno}")),
        }
    }
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1 + MOST_SEATS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg(socket.as_fd(), &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut lines = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = part {
            lines.extend(fds);
        }
    }
    Ok((message.bytes, lines))
}

fn send_all(socket: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
