//! The gate: specifications go through it to the process that becomes PID 1, and with
//! them descriptors: the doors and meters of its cgroup, and the stream to the engine.

use crate::error::{At, JailError, Step};
use crate::spec::JailSpec;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Longest specification.
const LONGEST: usize = 32 << 10;
/// Most descriptors that go along with one: the doors of a cgroup and its meters.
const MOST_FDS: usize = 8;

/// One end. Packets keep specifications apart.
#[derive(Debug)]
pub(super) struct Gate(OwnedFd);

impl Gate {
    pub(super) fn pair() -> Result<(Gate, Gate), JailError> {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .at(Step::Namespaces, "gate")?;
        Ok((Gate(a), Gate(b)))
    }

    pub(super) fn send(&self, spec: &JailSpec, fds: &[BorrowedFd<'_>]) -> Result<(), JailError> {
        let text = serde_json::to_vec(spec)
            .map_err(|_| JailError::new(Step::Namespaces, "specification", Errno::INVAL))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        sendmsg(&self.0, &[IoSlice::new(&text)], &mut ancillary, SendFlags::NOSIGNAL)
            .at(Step::Namespaces, "gate")
            .map(drop)
    }

    /// Waits for the next specification, and the descriptors that come along.
    pub(super) fn receive(&self) -> Result<(JailSpec, impl Iterator<Item = OwnedFd> + use<>), JailError> {
        let gave_up = || JailError::new(Step::Namespaces, "the spawner gave up", Errno::PIPE);
        let mut buffer = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let length = {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
                .at(Step::Namespaces, "gate")?
                .bytes
        };
        let mut fds = Vec::with_capacity(MOST_FDS);
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = part {
                fds.extend(received);
            }
        }
        let spec = serde_json::from_slice(&buffer[..length]).map_err(|_| gave_up())?;
        Ok((spec, fds.into_iter()))
    }
}
