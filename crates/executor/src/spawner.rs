//! The role that makes sandboxes: one thread, one socket, one order at a time.
//!
//! When the engine hangs up, however it ended, every box ends: this process ends, and the kernel kills the
//! boxes with it.

use jail::enter::{JailBox, Workshop};
use jail::spec::JailSpec;
use jail::{JailError, SingleThreaded, sys};
use protocol::spawner::{Order, Reply, pack, unpack};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use std::collections::HashMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;

pub(crate) fn run() -> Result<(), String> {
    let socket = sys::inherited(crate::CONTROL).ok_or("no control socket")?;
    if rustix::process::geteuid().is_root() {
        // Without root it has to stay readable: only then may it write the id maps of its children.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
            .map_err(|e| format!("could not make the spawner unreadable: {e}"))?;
    }
    let proof = SingleThreaded::prove().ok_or("the spawner must have one thread")?;
    let workshop = Workshop::open(proof, crate::init).map_err(|e| e.to_string())?;
    Spawner { workshop, boxes: HashMap::new(), dying: Vec::new() }.serve(&socket)
}

struct Spawner {
    workshop: Workshop,
    boxes: HashMap<String, JailBox>,
    /// Killed, and not yet gone. Nobody has to wait for the kernel to take them down.
    dying: Vec<JailBox>,
}

impl Spawner {
    fn serve(&mut self, socket: &OwnedFd) -> Result<(), String> {
        while self.wait_for_order(socket)? {
            let Some((order, stream)) = next_order(socket)? else { break };
            let reply = pack(&self.obey(order, stream)).map_err(|e| e.to_string())?;
            if send_all(socket, &reply).is_err() {
                break;
            }
        }
        // When nobody waits for anything any more.
        self.workshop.sweep();
        let left = self.boxes.drain().map(|(_, jail_box)| jail_box);
        for jail_box in left.chain(self.dying.drain(..)) {
            jail_box.kill();
            // The engine is gone; what cannot be removed now is swept by the next spawner.
            let _ = jail_box.bury();
        }
        Ok(())
    }

    /// Buries the dead until an order comes. `false` when none will.
    fn wait_for_order(&mut self, socket: &OwnedFd) -> Result<bool, String> {
        loop {
            let mut fds = vec![PollFd::new(socket, PollFlags::IN)];
            fds.extend(self.dying.iter().map(|jail_box| PollFd::new(&jail_box.pidfd, PollFlags::IN)));
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(format!("control socket: {errno}")),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            // From the end, so that what is removed does not shift what is still to be looked at.
            for index in (0..self.dying.len()).rev().filter(|index| ready[index + 1]) {
                if let Err(error) = self.dying.swap_remove(index).bury() {
                    eprintln!("sandbox-executor: {error}");
                }
            }
            if ready[0] {
                return Ok(true);
            }
        }
    }

    fn obey(&mut self, order: Order, stream: Option<OwnedFd>) -> Reply {
        match order {
            Order::Make { spec } => match stream {
                Some(stream) => self.make(&spec, stream),
                None => failed(&spec.id, Errno::BADF),
            },
            Order::Measure { id } => match self.boxes.get(&id) {
                Some(jail_box) => Reply::Measured { usage: jail_box.cgroup.usage() },
                None => Reply::Unknown,
            },
            Order::Destroy { id } => match self.boxes.remove(&id) {
                Some(jail_box) => {
                    let usage = jail_box.kill();
                    self.dying.push(jail_box);
                    Reply::Destroyed { usage }
                }
                None => Reply::Unknown,
            },
        }
    }

    fn make(&mut self, spec: &JailSpec, stream: OwnedFd) -> Reply {
        if self.boxes.contains_key(&spec.id) {
            return failed(&spec.id, Errno::EXIST);
        }
        match self.workshop.make(spec, stream) {
            Ok(jail_box) => {
                let layers = jail_box.layers.clone();
                self.boxes.insert(spec.id.clone(), jail_box);
                Reply::Made { layers }
            }
            Err(error) => Reply::Failed { error },
        }
    }
}

fn failed(id: &str, errno: Errno) -> Reply {
    Reply::Failed { error: JailError::new(jail::Step::Namespaces, id, errno) }
}

/// Waits for an order and the descriptor that may come along. Nothing when the engine has hung up.
fn next_order(socket: &OwnedFd) -> Result<Option<(Order, Option<OwnedFd>)>, String> {
    let mut bytes = Vec::new();
    let mut stream = None;
    loop {
        if let Some(order) = unpack(&bytes)? {
            return Ok(Some((order, stream)));
        }
        let mut buffer = [0; 16 << 10];
        match receive(socket, &mut buffer) {
            Ok((0, _)) => return Ok(None),
            Ok((length, came_along)) => {
                bytes.extend_from_slice(&buffer[..length]);
                stream = came_along.or(stream);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(format!("control socket: {errno}")),
        }
    }
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg(socket.as_fd(), &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let stream = ancillary.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((message.bytes, stream))
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
