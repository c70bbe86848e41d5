//! The role that makes sandboxes: one thread, one socket, one order at a time.
//!
//! When the engine hangs up, however it ended, every box ends: this process ends, and the kernel kills the
//! boxes with it.

use jail::enter::{JailBox, Workshop};
use jail::spec::JailSpec;
use jail::{JailError, SingleThreaded, sys};
use protocol::spawner::{Order, Reply, pack, unpack};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send,
};
use std::collections::HashMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;

pub(crate) fn run() -> Result<(), String> {
    let socket = sys::inherited(crate::CONTROL).ok_or("no control socket")?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|e| format!("could not make the spawner unreadable: {e}"))?;
    // The socket must not pass to PID 1 of any box.
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).map_err(|e| e.to_string())?;
    let executor = rustix::fs::open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| format!("could not open the executor: {e}"))?;
    let proof = SingleThreaded::prove().ok_or("the spawner must have one thread")?;
    let workshop = Workshop::open(proof, executor).map_err(|e| e.to_string())?;
    Spawner { workshop, boxes: HashMap::new() }.serve(&socket)
}

struct Spawner {
    workshop: Workshop,
    boxes: HashMap<String, JailBox>,
}

impl Spawner {
    fn serve(&mut self, socket: &OwnedFd) -> Result<(), String> {
        while let Some((order, stream)) = next_order(socket)? {
            let reply = pack(&self.obey(order, stream)).map_err(|e| e.to_string())?;
            if send_all(socket, &reply).is_err() {
                break;
            }
        }
        for (_, jail_box) in self.boxes.drain() {
            // The engine is gone; what cannot be removed now is swept by the next spawner.
            let _ = jail_box.destroy();
        }
        Ok(())
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
            Order::Destroy { id } => match self.boxes.remove(&id).map(JailBox::destroy) {
                Some(Ok(usage)) => Reply::Destroyed { usage },
                Some(Err(error)) => Reply::Failed { error },
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
