//! What a job stands on: a box of our own ([`Walled`]), or nothing at all ([`Plain`]).

use jail::job::{KEEPER, Life, Program, Ready, Stage};
use jail::spec::{BoxLimits, InitSpec};
use jail::{JailError, SingleThreaded};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::launcher;
use crate::meters::Meters;

/// What the executor needs of the place it runs in.
pub(crate) trait Ground {
    /// Starts a program.
    fn start(&self, program: &Program, streams: [OwnedFd; 3]) -> Result<Pid, JailError>;
    /// Starts a program that waits, on the streams the place was made with, and leaves a keeper or does not; none for a
    /// copy of this interpreter.
    fn park(&self, program: Option<(&Program, bool)>, stage: &Stage) -> Result<Pid, JailError>;
    /// Makes a copy of this process, for work that may take long. `None` in the copy.
    fn copy(&self) -> Result<Option<Pid>, Errno>;
    /// Does not keep its output open beside it any more: its end can be heard there.
    fn let_go_of_output(&self);
    /// Who keeps the memory of the program that waits, and is no part of the job, while there is one.
    fn keeper(&self) -> Option<Pid>;
    /// Sends the keeper away, who is only of use to a program that ends soon: where memory runs out, the kernel ends him
    /// as well, and then takes us for the one that is to blame.
    fn dismiss_keeper(&self);
    /// Takes note that this process has ended.
    fn bury(&self, pid: Pid);
    /// Whether none of the job's processes is left.
    fn is_clear(&self) -> bool;
    /// Where the kernel names the children of this process, for the engine to read as well.
    fn children(&self) -> Option<BorrowedFd<'_>>;
    /// Ends every process of the job.
    fn kill_all(&self) {
        self.signal_all(Signal::KILL);
    }
    /// Sends something to every process of the job.
    fn signal_all(&self, signal: Signal);
    /// Where the user's files are.
    fn workspace(&self) -> &Path;
    /// Where compilers leave their output.
    fn build(&self) -> &Path;
    /// Bounds of the place as a whole.
    fn limits(&self) -> &BoxLimits;
    /// How use is measured.
    fn meters(&self) -> &Meters;
    /// SHA-256 of the system call filter.
    fn seccomp_sha256(&self) -> Option<String>;
    /// Landlock interface in force.
    fn landlock_abi(&self) -> u32;
}

/// What a copy of this process does in a sandbox.
pub(crate) static LIFE: OnceLock<Life> = OnceLock::new();

/// PID 1 of a box.
pub(crate) struct Walled {
    ready: Ready,
    meters: Meters,
    /// Of the program that shall wait.
    streams: Cell<Option<[OwnedFd; 3]>>,
    /// Its output, kept open: whoever reads there would be woken by its end, and again by what we tell of it.
    output: Cell<Option<[OwnedFd; 2]>>,
    keeper: Cell<Option<Pid>>,
    /// Where the kernel names our children.
    children: Option<File>,
}

impl Walled {
    pub(crate) fn new(
        proof: SingleThreaded,
        spec: InitSpec,
        meters: Meters,
        rate_door: Option<OwnedFd>,
        streams: Option<[OwnedFd; 3]>,
    ) -> Result<Walled, String> {
        let ready = Ready::prepare(proof, spec, rate_door).map_err(|e| e.to_string())?;
        let children = File::open("/proc/thread-self/children").ok();
        Ok(Walled {
            ready,
            meters,
            streams: Cell::new(streams),
            output: Cell::new(None),
            keeper: Cell::new(None),
            children,
        })
    }
}

impl Ground for Walled {
    fn start(&self, program: &Program, streams: [OwnedFd; 3]) -> Result<Pid, JailError> {
        self.ready.start(program, streams)
    }

    fn park(&self, program: Option<(&Program, bool)>, stage: &Stage) -> Result<Pid, JailError> {
        let missing = |what| JailError::new(jail::Step::Exec, what, Errno::BADF);
        let streams = self.streams.take().ok_or_else(|| missing("no streams to wait on"))?;
        let kept = |stream: &OwnedFd| fcntl_dupfd_cloexec(stream, 3);
        self.output.set(kept(&streams[1]).and_then(|out| Ok([out, kept(&streams[2])?])).ok());
        match (program, LIFE.get()) {
            (Some((program, has_keeper)), _) => {
                let pid = self.ready.start(program, streams)?;
                self.keeper.set(has_keeper.then_some(KEEPER));
                Ok(pid)
            }
            (None, Some(life)) => {
                match life {
                    Life::Interpreter(_) => self.keeper.set(Some(KEEPER)),
                    Life::Launcher(_) => launcher::leave(self.ready.note()?),
                }
                self.ready.fork(stage, streams, *life)
            }
            (None, None) => Err(missing("nobody who could wait")),
        }
    }

    fn copy(&self) -> Result<Option<Pid>, Errno> {
        self.ready.copy()
    }

    fn let_go_of_output(&self) {
        drop(self.output.take());
    }

    fn keeper(&self) -> Option<Pid> {
        self.keeper.get()
    }

    fn dismiss_keeper(&self) {
        if let Some(keeper) = self.keeper.get() {
            // Fails only when he is dead already.
            let _ = kill_process(keeper, Signal::KILL);
        }
    }

    fn bury(&self, pid: Pid) {
        if self.keeper.get() == Some(pid) {
            self.keeper.set(None);
        }
    }

    /// Whoever loses its parent becomes our child, so nobody is left when all our children are the keeper, who has none.
    fn is_clear(&self) -> bool {
        let (Some(keeper), Some(children)) = (self.keeper.get(), &self.children) else { return false };
        let mut buffer = [0; 64];
        let length = children.read_at(&mut buffer, 0).unwrap_or(0);
        buffer[..length].trim_ascii() == keeper.as_raw_nonzero().to_string().as_bytes()
    }

    fn children(&self) -> Option<BorrowedFd<'_>> {
        self.children.as_ref().map(AsFd::as_fd)
    }

    fn signal_all(&self, signal: Signal) {
        self.ready.signal_all(signal);
    }

    fn workspace(&self) -> &Path {
        Path::new("/workspace")
    }

    fn build(&self) -> &Path {
        Path::new("/build")
    }

    fn limits(&self) -> &BoxLimits {
        &self.ready.init().limits
    }

    fn meters(&self) -> &Meters {
        &self.meters
    }

    fn seccomp_sha256(&self) -> Option<String> {
        Some(self.ready.init().profile.sha256().to_owned())
    }

    fn landlock_abi(&self) -> u32 {
        self.ready.landlock_abi()
    }
}

/// A child of the engine, as free as the engine itself.
pub(crate) struct Plain {
    proof: SingleThreaded,
    spec: PlainSpec,
    meters: Meters,
}

/// The one argument of the plain role.
#[derive(Deserialize)]
pub(crate) struct PlainSpec {
    workspace: PathBuf,
    build: PathBuf,
    limits: BoxLimits,
}

impl Plain {
    pub(crate) fn new(spec: PlainSpec) -> Result<Plain, String> {
        let proof = SingleThreaded::prove().ok_or("the executor must have one thread")?;
        // Processes whose parents die become ours, so that none is lost.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(|e| e.to_string())?;
        Ok(Plain { proof, spec, meters: Meters::plain() })
    }
}

impl Plain {
    /// Removes the workspace and everything beside it.
    pub(crate) fn remove(&self) {
        if let Some(folder) = self.spec.workspace.parent() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl Ground for Plain {
    fn start(&self, program: &Program, streams: [OwnedFd; 3]) -> Result<Pid, JailError> {
        jail::job::start_plain(&self.proof, &self.spec.limits, program, streams)
    }

    fn park(&self, _program: Option<(&Program, bool)>, _stage: &Stage) -> Result<Pid, JailError> {
        Err(JailError::new(jail::Step::Exec, "nothing waits without isolation", Errno::OPNOTSUPP))
    }

    fn copy(&self) -> Result<Option<Pid>, Errno> {
        jail::sys::fork(&self.proof)
    }

    fn let_go_of_output(&self) {}

    fn keeper(&self) -> Option<Pid> {
        None
    }

    fn dismiss_keeper(&self) {}

    fn bury(&self, _pid: Pid) {}

    fn is_clear(&self) -> bool {
        false
    }

    fn children(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn signal_all(&self, signal: Signal) {
        for pid in descendants(std::process::id()) {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Without a pid namespace there is no atomic way: descend and kill until nobody is left to descend to.
    fn kill_all(&self) {
        for _ in 0..100 {
            let mut living = descendants(std::process::id());
            living.retain(|pid| !is_zombie(*pid));
            if living.is_empty() {
                return;
            }
            for pid in living {
                if let Some(pid) = Pid::from_raw(pid as i32) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
    }

    fn workspace(&self) -> &Path {
        &self.spec.workspace
    }

    fn build(&self) -> &Path {
        &self.spec.build
    }

    fn limits(&self) -> &BoxLimits {
        &self.spec.limits
    }

    fn meters(&self) -> &Meters {
        &self.meters
    }

    fn seccomp_sha256(&self) -> Option<String> {
        None
    }

    fn landlock_abi(&self) -> u32 {
        0
    }
}

/// Every process below `pid`.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    everybody_of(&children_of(pid))
}

/// These children, in the kernel's words, and everybody below them.
pub(crate) fn everybody_of(children: &str) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let add = |found: &mut Vec<u32>, children: &str| {
        found.extend(children.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    };
    add(&mut found, children);
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let children = children_of(*pid);
        add(&mut found, &children);
        next += 1;
    }
    found
}

/// Whom all threads of a process have started.
fn children_of(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok()).collect()
}

fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z') || rest.starts_with('X'))
}
