//! The answer to "does it work here?", and a forked child that finds many such answers.
//!
//! The child reports each answer as three bytes through a pipe, so that what it found before a refusal, or
//! before being killed by somebody's system call filter, is kept.

use crate::sys::exit_now;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, waitpid};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether something works here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Trial {
    /// It was done, and worked.
    Works,
    /// The kernel, or a filter in front of it, refused.
    Refused {
        /// The error number.
        errno: i32,
        /// The same in words.
        reason: String,
    },
    /// The process that tried was killed for it, as a strict system call filter does.
    Killed {
        /// The signal that ended it.
        signal: i32,
    },
    /// Something it rests on did not work.
    NotTried,
}

impl Trial {
    /// Whether it was done and worked.
    pub fn works(&self) -> bool {
        *self == Trial::Works
    }

    /// The error number of a refusal.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Trial::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    pub(super) fn of<T>(result: Result<T, Errno>) -> Trial {
        match result {
            Ok(_) => Trial::Works,
            Err(errno) => Trial::refused(errno.raw_os_error()),
        }
    }

    fn refused(errno: i32) -> Trial {
        Trial::Refused { errno, reason: reason(errno) }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trial::Works => f.write_str("works"),
            Trial::Refused { errno, reason } => write!(f, "{reason} (errno {errno})"),
            Trial::Killed { signal } => write!(f, "the trial was killed by signal {signal}"),
            Trial::NotTried => f.write_str("not tried"),
        }
    }
}

/// An error number in words, without the number the standard library adds.
pub(super) fn reason(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// How many different answers a child may give.
pub(super) const ANSWERS: usize = 16;

/// The child's side: says answers and waits at the gate. Makes system calls only.
pub(super) struct Reporter<'a> {
    answers: BorrowedFd<'a>,
    gate: BorrowedFd<'a>,
}

impl Reporter<'_> {
    /// Reports the answer to question `index`, and whether it is good.
    pub(super) fn say(&self, index: usize, result: Result<(), Errno>) -> bool {
        let errno = result.err().map_or(0, |errno| errno.raw_os_error());
        self.write([index as u8, errno as u8, 0]);
        errno == 0
    }

    /// Reports that whoever tried `index` was killed.
    pub(super) fn say_killed(&self, index: usize, signal: i32) {
        self.write([index as u8, 0, signal as u8]);
    }

    /// Waits for the parent to act on the answers so far. `false`: it could not.
    pub(super) fn wait_at_gate(&self) -> bool {
        let mut byte = [0];
        matches!(retry_on_intr(|| rustix::io::read(self.gate, &mut byte)), Ok(1))
    }

    fn write(&self, record: [u8; 3]) {
        // A pipe takes three bytes whole; if the parent is gone nobody wants them.
        let _ = retry_on_intr(|| rustix::io::write(self.answers, &record));
    }
}

/// Runs `child` in a forked process. When it has given its first answer, and that is good, `between` is
/// called with its id and opens the gate by succeeding; its failure is the answer to question 1.
///
/// # Safety
/// `child` must be fit for the child of a threaded process: system calls only, no allocation, no lock.
pub(super) unsafe fn in_child(
    child: impl FnOnce(&Reporter<'_>),
    between: impl FnOnce(Pid) -> Result<(), Errno>,
) -> Result<[Trial; ANSWERS], Errno> {
    let (answers, answers_in) = pipe_with(PipeFlags::CLOEXEC)?;
    let (gate, gate_in) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: the child calls only `child`, fit by this function's contract, closes descriptors and exits.
    let Some(pid) = (unsafe { fork() })? else {
        drop((answers, gate_in));
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        child(&Reporter { answers: answers_in.as_fd(), gate: gate.as_fd() });
        exit_now(0);
    };
    drop((answers_in, gate));
    let found = collect(&answers, gate_in, || between(pid));
    // Where SIGCHLD is ignored there is nothing to wait for, and what was answered still counts.
    let ended = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty())).ok().flatten();
    let signal = ended.and_then(|(_, status)| status.terminating_signal());
    Ok(finish(found, signal))
}

/// Forks. `None` in the child.
///
/// # Safety
/// Until it exits the child may do only what is safe in the child of a threaded process.
pub(super) unsafe fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: fork touches no memory of ours; what the child does is the caller's contract.
    match unsafe { libc::fork() } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN)),
        pid => Ok(Pid::from_raw(pid)),
    }
}

fn collect(
    answers: &OwnedFd,
    gate: OwnedFd,
    between: impl FnOnce() -> Result<(), Errno>,
) -> [Trial; ANSWERS] {
    let mut found = [const { Trial::NotTried }; ANSWERS];
    let mut gate = Some((gate, between));
    let mut record = [0; 3];
    while let Ok(3) = retry_on_intr(|| rustix::io::read(answers, &mut record)) {
        let trial = match record {
            [_, 0, 0] => Trial::Works,
            [_, 0, signal] => Trial::Killed { signal: i32::from(signal) },
            [_, errno, _] => Trial::refused(i32::from(errno)),
        };
        let index = usize::from(record[0]);
        if let Some((gate, between)) = gate.take()
            && trial.works()
        {
            match between() {
                // Dropping the gate instead of writing to it tells the child to go on without.
                Err(errno) => found[1] = Trial::refused(errno.raw_os_error()),
                Ok(()) => drop(rustix::io::write(&gate, &[1])),
            }
        }
        if let Some(place) = found.get_mut(index) {
            *place = trial;
        }
    }
    found
}

/// Blames a death on the question that would have been answered next.
fn finish(mut found: [Trial; ANSWERS], signal: Option<i32>) -> [Trial; ANSWERS] {
    if let Some(signal) = signal {
        let next = found.iter().rposition(|t| *t != Trial::NotTried).map_or(0, |last| last + 1);
        if let Some(place) = found.get_mut(next) {
            *place = Trial::Killed { signal };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_before_a_death_are_kept() {
        // SAFETY: the child makes system calls only.
        let found = unsafe {
            in_child(
                |report| {
                    report.say(0, Ok(()));
                    report.say(1, Err(Errno::PERM));
                    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
                },
                |_| Ok(()),
            )
        }
        .unwrap();
        assert_eq!(found[0], Trial::Works);
        assert_eq!(found[1].errno(), Some(libc::EPERM));
        assert_eq!(found[2], Trial::Killed { signal: libc::SIGKILL });
        assert_eq!(found[3], Trial::NotTried);
    }

    #[test]
    fn the_gate_opens_only_when_the_parent_succeeds() {
        let run = |answer: Result<(), Errno>| {
            // SAFETY: the child makes system calls only.
            unsafe {
                in_child(
                    |report| {
                        report.say(0, Ok(()));
                        if report.wait_at_gate() {
                            report.say(1, Ok(()));
                        }
                        report.say(2, Ok(()));
                    },
                    move |_| answer,
                )
            }
            .unwrap()
        };
        assert_eq!(run(Ok(()))[..3], [Trial::Works, Trial::Works, Trial::Works]);
        let refused = run(Err(Errno::ACCESS));
        assert_eq!(refused[1].errno(), Some(libc::EACCES));
        assert_eq!(refused[2], Trial::Works);
    }

    #[test]
    fn reasons_carry_no_number() {
        assert_eq!(reason(libc::EPERM), "Operation not permitted");
    }
}
