//! Takes a box down whose maker does not stay to do it, however the maker ends.

use super::Blank;
use crate::SingleThreaded;
use crate::cgroup::{Layout, sweep};
use crate::error::{At, JailError, Step};
use crate::fds;
use crate::mutant::{Mutant, lacks};
use crate::sys::{self, Forked};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, pidfd_send_signal};

/// A process that does nothing until this is closed, which the kernel does when we end. Then it kills the box,
/// removes its cgroup, and frees its ids.
#[derive(Debug)]
pub struct Janitor {
    _until_closed: OwnedFd,
}

impl Janitor {
    pub(super) fn fork(proof: &SingleThreaded, blank: &Blank) -> Result<Janitor, JailError> {
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC).at(Step::Namespaces, "janitor")?;
        match sys::fork_into(proof, 0, None).at(Step::Namespaces, "janitor")? {
            Forked::Parent(..) => Ok(Janitor { _until_closed: ours }),
            Forked::Child(proof) => {
                sys::forget_environment(&proof);
                drop(ours);
                sys::exit_now(i32::from(work(blank, theirs).is_err()))
            }
        }
    }
}

/// It keeps three descriptors: that of PID 1, the lock on the ids, and the one that tells when to begin. Not standard
/// error either: whoever reads our caller's would wait for us.
fn work(blank: &Blank, begin: OwnedFd) -> Result<(), JailError> {
    let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().at(Step::Descriptors, "janitor");
    let null = || {
        rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .at(Step::Descriptors, "/dev/null")
    };
    let mut held = vec![begin, own(blank.pidfd.as_fd())?];
    if let Some(lock) = blank.identity.lock() {
        held.push(own(lock)?);
    }
    let held = fds::exactly(vec![null()?, null()?, null()?], held)?;
    // A signal from the terminal is for our maker to act upon.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"sandbox-janitor");
    if let [begin, pid1, ..] = held.as_slice() {
        wait_until(begin, PollFlags::HUP);
        if !lacks(Mutant::KillTree) {
            // Fails only when it is dead already.
            let _ = pidfd_send_signal(pid1, Signal::KILL);
            wait_until(pid1, PollFlags::IN);
        }
    }
    let removed = blank.cgroup.remove();
    sweep(&Layout::detect(&[]));
    removed
}

fn wait_until(fd: &OwnedFd, what: PollFlags) {
    let mut fds = [PollFd::new(fd, what)];
    while let Err(Errno::INTR) = poll(&mut fds, None) {}
}
