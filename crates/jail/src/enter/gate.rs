//! The gate: specifications go through it to the process that becomes PID 1, and with
//! them descriptors: the doors and meters of its cgroup, the stream to the engine, the streams of its program.

use crate::error::{At, JailError, Step};
use crate::spec::{CgroupKind, JailSpec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Longest specification.
const LONGEST: usize = 32 << 10;
/// Most descriptors that go along with one.
const MOST_FDS: usize = 40;

/// What a descriptor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Carried {
    /// One of [`crate::cgroup::MeterFds`], by its place there.
    Meter(usize),
    /// To be entered by PID 1.
    Door,
    /// To be left through again by PID 1, once its view of cgroups is its own.
    WayBack,
    /// To be entered by programs.
    RateDoor,
    /// The stream to the engine.
    Control,
    /// Standard input, output and error of the program that will wait in the box, in this order.
    Stream,
    /// The stream to a seat.
    Seat,
}

/// Descriptors, and what they are for.
pub(super) type Load = Vec<(Carried, OwnedFd)>;

/// A specification, and what the descriptors beside it are for.
#[derive(Serialize, Deserialize)]
struct Passage<S> {
    spec: S,
    /// None where there is no telling yet.
    kind: Option<CgroupKind>,
    carried: Vec<Carried>,
}

/// A specification, what kind of cgroup there is, if that is known yet, and the descriptors beside it.
type Arrived = (JailSpec, Option<CgroupKind>, Load);

/// One end. Packets keep specifications apart.
#[derive(Debug)]
pub(super) struct Gate(OwnedFd);

impl Gate {
    pub(super) fn pair() -> Result<(Gate, Gate), JailError> {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .at(Step::Namespaces, "gate")?;
        Ok((Gate(a), Gate(b)))
    }

    pub(super) fn send(
        &self,
        spec: &JailSpec,
        kind: Option<CgroupKind>,
        carried: &[(Carried, OwnedFd)],
    ) -> Result<(), JailError> {
        let passage = Passage { spec, kind, carried: carried.iter().map(|(what, _)| *what).collect() };
        let text = serde_json::to_vec(&passage)
            .map_err(|_| JailError::new(Step::Namespaces, "specification", Errno::INVAL))?;
        let fds: Vec<BorrowedFd<'_>> = carried.iter().map(|(_, fd)| fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        }
        sendmsg(&self.0, &[IoSlice::new(&text)], &mut ancillary, SendFlags::NOSIGNAL)
            .at(Step::Namespaces, "gate")
            .map(drop)
    }

    /// Waits for the next one.
    pub(super) fn receive(&self) -> Result<Arrived, JailError> {
        let gave_up = || JailError::new(Step::Namespaces, "the spawner gave up", Errno::PIPE);
        // How long it is, first: to have room for the longest would cost more than to ask.
        let (_, length) =
            recv(&self.0, &mut [0; 0], RecvFlags::PEEK | RecvFlags::TRUNC).at(Step::Namespaces, "gate")?;
        let mut buffer = vec![0; length.min(LONGEST)];
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
        let passage: Passage<JailSpec> = serde_json::from_slice(&buffer[..length]).map_err(|_| gave_up())?;
        if passage.carried.len() != fds.len() {
            return Err(JailError::new(Step::Descriptors, "a descriptor got lost", Errno::BADF));
        }
        Ok((passage.spec, passage.kind, passage.carried.into_iter().zip(fds).collect()))
    }
}
