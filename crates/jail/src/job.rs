//! The ladder of one program inside a box: from a fork of PID 1 to the user's code.
//!
//! What can be made ahead is made ahead, in [`Ready`]: the system call filter and the Landlock rules. What
//! remains at a request is a fork and a dozen cheap calls.

use crate::error::{At, JailError, Step};
use crate::landlock::Fence;
use crate::mutant::{Mutant, lacks};
use crate::seccomp::Filter;
use crate::spec::{CgroupKind, InitSpec};
use crate::sys;
use crate::{SingleThreaded, caps, fds, rlimits};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use rustix::thread::CapabilitySet;
use std::ffi::CString;
use std::time::Duration;

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Absolute path of the file to execute.
    pub path: CString,
    /// Its arguments, name first.
    pub argv: Vec<CString>,
    /// Its whole environment.
    pub env: Vec<CString>,
    /// What it starts with beside that.
    pub stage: Stage,
}

/// What a process starts with, whatever it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its working directory.
    pub directory: CString,
    /// CPU time one process of it may use.
    pub cpu_seconds: Option<u64>,
}

/// Everything that could be prepared before a program was known.
#[derive(Debug)]
pub struct Ready {
    proof: SingleThreaded,
    init: InitSpec,
    filter: Filter,
    /// What is refused beside it where no cgroup counts.
    uncounted: Option<Filter>,
    fence: Fence,
    rate_door: Option<OwnedFd>,
}

impl Ready {
    /// Builds the walls programs will stand behind. For PID 1 of a box, which from now on touches files as the
    /// user.
    pub fn prepare(
        proof: SingleThreaded,
        init: InitSpec,
        rate_door: Option<OwnedFd>,
    ) -> Result<Ready, JailError> {
        if init.two_ids {
            sys::set_file_ids(init.user);
            // A change of ids makes the kernel forget both of these.
            if !lacks(Mutant::KillTree) {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
                    .at(Step::Ids, "death signal")?;
            }
            let how = match lacks(Mutant::Dumpable) {
                false => rustix::process::DumpableBehavior::NotDumpable,
                true => rustix::process::DumpableBehavior::Dumpable,
            };
            rustix::process::set_dumpable_behavior(how).at(Step::Ids, "make PID 1 unreadable")?;
        }
        let filter = Filter::new(init.profile);
        let uncounted = (init.cgroup == CgroupKind::None).then(Filter::no_nameless_files);
        let fence = Fence::new(&init.readable, &init.writable)?;
        Ok(Ready { proof, init, filter, uncounted, fence, rate_door })
    }

    /// What PID 1 was told at its start.
    pub fn init(&self) -> &InitSpec {
        &self.init
    }

    /// Landlock interface in force.
    pub fn landlock_abi(&self) -> u32 {
        self.fence.abi()
    }

    /// Ends every process of the box but PID 1.
    pub fn signal_all(&self, signal: Signal) {
        // Nobody there is not an error, and nothing else can fail.
        let _ = sys::signal_everybody_else(&self.proof, signal);
    }

    /// Starts `program` with these standard streams. Returns once it has been executed, or says which rung
    /// broke.
    pub fn start(&self, program: &Program, streams: [OwnedFd; 3]) -> Result<Pid, JailError> {
        start(&self.proof, program, streams, |rung| self.climb(rung))
    }

    /// What a copy can leave a word on.
    pub fn note(&self) -> Result<sys::Note, JailError> {
        sys::Note::new(&self.proof).at(Step::Exec, "a note")
    }

    /// Starts a copy of this process with these standard streams, which climbs as a program does and then leads this
    /// life. Which rung broke, if one does, it says on its standard output.
    pub fn fork(&self, stage: &Stage, streams: [OwnedFd; 3], life: Life) -> Result<Pid, JailError> {
        let climb = || match life {
            Life::Interpreter(live) => {
                rungs(stage, &streams, &|rung| self.climb_as_copy(rung))?;
                part(&self.proof).map(|()| live)
            }
            Life::Launcher(live) => rungs(stage, &streams, &|rung| self.climb(rung)).map(|()| live),
        };
        match sys::fork(&self.proof).at(Step::Exec, "fork")? {
            Some(pid) => Ok(pid),
            None => match climb() {
                Ok(live) => live(),
                Err(error) => {
                    // Nobody is left to tell when this fails.
                    let _ = rustix::io::write(&streams[1], &encode(&error));
                    sys::exit_now(127)
                }
            },
        }
    }

    /// Makes a copy of this process with all it may do. `None` in the copy.
    pub fn copy(&self) -> Result<Option<Pid>, Errno> {
        sys::fork(&self.proof)
    }

    /// One rung more, below the last.
    fn climb_as_copy(&self, rung: Rung) -> Result<(), JailError> {
        if rung == Rung::Filter {
            // A change of ids has made it unreadable again.
            readable_again()?;
            if self.init.cgroup == CgroupKind::None {
                Filter::stays_readable().install().at(Step::Seccomp, "seccomp")?;
            }
        }
        self.climb(rung)
    }

    fn climb(&self, rung: Rung) -> Result<(), JailError> {
        match rung {
            Rung::Limits => rlimits::of_user_code(&self.init.limits, self.init.cgroup, self.init.two_ids),
            Rung::Restrict => self.restrict(),
            Rung::Filter => {
                let first = self.uncounted.as_ref().map_or(Ok(()), Filter::install);
                first.and_then(|()| self.filter.install()).at(Step::Seccomp, "seccomp")
            }
        }
    }

    fn restrict(&self) -> Result<(), JailError> {
        // PID 1 is more urgent than others. Who enters as urgent as that seems to want a processor more than anything, and the
        // kernel remembers it: on other processors the box would hardly weigh anything for a while.
        sys::set_scheduling(None, self.init.nice, Duration::ZERO)
            .or_else(|_| rustix::process::setpriority_process(None, self.init.nice))
            .at(Step::Rlimits, "priority")?;
        if let Some(door) = &self.rate_door {
            rustix::io::write(door, b"0").at(Step::Cgroup, "enter the CPU rate")?;
        }
        if self.init.two_ids {
            let uid = rustix::process::Uid::from_raw(self.init.user);
            let gid = rustix::process::Gid::from_raw(self.init.user);
            rustix::thread::set_thread_res_gid(gid, gid, gid).at(Step::Ids, "gid")?;
            rustix::thread::set_thread_res_uid(uid, uid, uid).at(Step::Ids, "uid")?;
        }
        if !lacks(Mutant::Capabilities) {
            caps::only(CapabilitySet::empty())?;
        }
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at(Step::Ids, "death signal")?;
        rustix::thread::set_no_new_privs(true).at(Step::NoNewPrivs, "prctl")?;
        self.fence.restrict()
    }
}

/// What a copy of a process does.
#[derive(Clone, Copy, Debug)]
pub enum Life {
    /// It is an interpreter, and runs a program itself. Beside it there is [`KEEPER`], who keeps its memory: the end of a
    /// program is known sooner if the kernel does not have to take that down first.
    Interpreter(fn() -> !),
    /// It executes a program.
    Launcher(fn() -> !),
}

/// Who keeps the memory of what waits: the third process of its box.
pub const KEEPER: Pid = match Pid::from_raw(3) {
    Some(pid) => pid,
    None => unreachable!(),
};

/// The rungs that differ between a box and no isolation at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// Resource limits.
    Limits,
    /// Ids, capabilities, Landlock.
    Restrict,
    /// The system call filter, last before exec.
    Filter,
}

/// Leaves the keeper behind, who has climbed as far, and is out of the program's sight. For what waits for its program,
/// when it has climbed and nothing else was started in its box.
pub fn part(proof: &SingleThreaded) -> Result<(), JailError> {
    let keeper = sys::leave_keeper(proof).at(Step::Exec, "keeper")?;
    if keeper != KEEPER {
        return Err(JailError::new(Step::Exec, "the keeper is somebody else", Errno::CHILD));
    }
    if lacks(Mutant::Landlock) { Ok(()) } else { Fence::step_inside() }
}

/// The same for a program that was executed, and has not begun yet.
pub fn part_before_main() -> Result<(), JailError> {
    let threads = || JailError::new(Step::Exec, "it has threads already", Errno::AGAIN);
    part(&SingleThreaded::prove().ok_or_else(threads)?)
}

/// Starts a program with no isolation but resource limits: for the `process` isolator.
pub fn start_plain(
    proof: &SingleThreaded,
    limits: &crate::spec::BoxLimits,
    program: &Program,
    streams: [OwnedFd; 3],
) -> Result<Pid, JailError> {
    start(proof, program, streams, |rung| match rung {
        Rung::Limits => rlimits::without_isolation(limits),
        Rung::Restrict | Rung::Filter => Ok(()),
    })
}

fn start(
    proof: &SingleThreaded,
    program: &Program,
    streams: [OwnedFd; 3],
    climb: impl Fn(Rung) -> Result<(), JailError>,
) -> Result<Pid, JailError> {
    let image = sys::Image::new(&program.path, &program.argv, &program.env);
    let mut broken = None;
    let child = sys::lend_to_child(proof, &mut || {
        // What it allocates it frees before exec: the memory is not its own.
        broken = Some(match rungs(&program.stage, &streams, &climb) {
            Ok(()) => JailError::new(Step::Exec, program.path.to_string_lossy(), image.execute()),
            Err(error) => error,
        });
    });
    let pid = child.at(Step::Exec, "fork")?;
    broken.map_or(Ok(pid), Err)
}

/// A program may look at itself, as one that was executed may: PID 1, whose copy it is, may not.
fn readable_again() -> Result<(), JailError> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)
        .at(Step::Ids, "make the program readable")
}

/// Everything between a new process and what it shall do.
fn rungs(
    stage: &Stage,
    streams: &[OwnedFd; 3],
    climb: &impl Fn(Rung) -> Result<(), JailError>,
) -> Result<(), JailError> {
    rustix::process::setsid().at(Step::Exec, "setsid")?;
    climb(Rung::Limits)?;
    if let Some(seconds) = stage.cpu_seconds {
        rlimits::cpu_time(seconds)?;
    }
    climb(Rung::Restrict)?;
    rustix::process::chdir(stage.directory.as_c_str())
        .at(Step::WorkingDirectory, stage.directory.to_string_lossy())?;
    fds::only(streams)?;
    sys::reset_signals();
    climb(Rung::Filter)
}

/// Errors cross a pipe as three lines, without allocation-heavy formats: step number, errno, subject.
pub fn encode(error: &JailError) -> Vec<u8> {
    format!("{}\n{}\n{}", error.step as u8, error.errno, error.subject).into_bytes()
}

/// What a process said of the rung that broke.
pub fn decode(bytes: &[u8]) -> JailError {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.splitn(3, '\n');
    let step =
        lines.next().and_then(|n| n.parse::<u8>().ok()).and_then(|n| Step::ALL.get(n as usize).copied());
    let errno = lines.next().and_then(|n| n.parse().ok()).unwrap_or(libc::EIO);
    let subject = lines.next().unwrap_or_default();
    JailError::new(step.unwrap_or(Step::Exec), subject, Errno::from_raw_os_error(errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_cross_the_pipe_unchanged() {
        for step in Step::ALL {
            let error = JailError::new(step, "a\nb", Errno::PERM);
            assert_eq!(decode(&encode(&error)), error);
        }
    }
}
