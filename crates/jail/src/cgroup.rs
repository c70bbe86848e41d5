//! The cgroup of a box: memory, CPU rate and number of processes, bounded and counted by the kernel.
//!
//! Three kinds of host: one hierarchy per controller ([`v1`]), the unified hierarchy ([`v2`]), or none that
//! we may write to. Names carry the spawner's pid and start time, so that what a spawner left behind when it
//! was killed is recognised and removed by the next one.

mod counts;
mod layout;
mod v1;
mod v2;

pub use counts::{COUNTS, Counts, contents, traffic};
pub use layout::{Layout, Mounted};

use crate::error::{At, JailError, Step};
use crate::mutant::{Mutant, lacks};
use crate::spec::{BoxLimits, BoxUsage, CgroupKind};
use crate::sys;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::process::Pid;
use std::path::Path;
use std::time::{Duration, Instant};

/// Prefix of every cgroup we make.
const PREFIX: &str = "sandboxd-";

/// A cgroup that exists until [`Cgroup::remove`].
#[derive(Debug)]
pub enum Cgroup {
    /// A directory in each of several hierarchies.
    V1(v1::Group),
    /// A directory in the unified hierarchy.
    V2(v2::Group),
    /// Nothing: this host gives us none.
    None,
}

/// Descriptors PID 1 uses to follow its own box. They are read-only and never reach user code.
#[derive(Debug, Default)]
pub struct MeterFds {
    /// v1: an eventfd that fires on out of memory; v2: `memory.events`.
    pub oom: Option<OwnedFd>,
    /// v1: `cpuacct.usage`; v2: `cpu.stat`.
    pub cpu: Option<OwnedFd>,
    /// v1: `memory.oom_control`; v2: `memory.events`.
    pub oom_kills: Option<OwnedFd>,
    /// Highest memory use.
    pub memory_peak: Option<OwnedFd>,
    /// Highest number of processes; kernels before 6.1 do not count it.
    pub pids_peak: Option<OwnedFd>,
    /// How often a process was refused.
    pub pids_events: Option<OwnedFd>,
    /// Its own `/proc/self/io`, in which the kernel adds up all it has waited for.
    pub io: Option<OwnedFd>,
    /// Its weight beside others who want the processor, to be written. v1: `cpu.shares`; v2: `cpu.weight`.
    pub weight: Option<OwnedFd>,
    /// Whether it only has what nobody else wants, to be written: `cpu.idle`. Kernels before 5.15 have none.
    pub idle: Option<OwnedFd>,
}

/// How many there are.
pub(crate) const METERS: usize = 9;

impl MeterFds {
    /// All of them, each at its place.
    pub(crate) fn into_list(self) -> [Option<OwnedFd>; METERS] {
        [
            self.oom,
            self.cpu,
            self.oom_kills,
            self.memory_peak,
            self.pids_peak,
            self.pids_events,
            self.io,
            self.weight,
            self.idle,
        ]
    }

    /// Takes what [`MeterFds::into_list`] gave.
    pub(crate) fn from_list(list: [Option<OwnedFd>; METERS]) -> MeterFds {
        let [oom, cpu, oom_kills, memory_peak, pids_peak, pids_events, io, weight, idle] = list;
        MeterFds { oom, cpu, oom_kills, memory_peak, pids_peak, pids_events, io, weight, idle }
    }
}

impl Cgroup {
    /// A cgroup for box number `serial` of this spawner. In the unified hierarchy it exists from now on, because
    /// a process is born into it; elsewhere [`Cgroup::make`] makes it, which can be done while PID 1 starts.
    pub fn plan(layout: &Layout, serial: u64) -> Result<Cgroup, JailError> {
        let name = format!("{PREFIX}{}-{serial}", owner_tag());
        match &layout.mounted {
            Mounted::V1(mounts) => Ok(Cgroup::V1(v1::Group::plan(mounts, &name))),
            Mounted::V2(parent) => v2::Group::create(parent, &name).map(Cgroup::V2),
            Mounted::None(_) => Ok(Cgroup::None),
        }
    }

    /// Makes what was planned and does not exist yet.
    pub fn make(&self) -> Result<(), JailError> {
        match self {
            Cgroup::V1(group) => group.make(),
            Cgroup::V2(_) | Cgroup::None => Ok(()),
        }
    }

    /// Sets its bounds.
    pub fn limit(&self, limits: &BoxLimits) -> Result<(), JailError> {
        let limits = left_out(limits);
        match self {
            Cgroup::V1(group) => group.limit(&limits),
            Cgroup::V2(group) => group.limit(&limits),
            Cgroup::None => Ok(()),
        }
    }

    /// Lifts the bound on CPU rate where PID 1, which ends what is over its time, is bounded by it too.
    pub fn relieve(&self) {
        if let Cgroup::V2(group) = self {
            // One that is gone needs no relief.
            let _ = group.relieve();
        }
    }

    /// Which kind it is.
    pub fn kind(&self) -> CgroupKind {
        match self {
            Cgroup::V1(_) => CgroupKind::V1,
            Cgroup::V2(_) => CgroupKind::V2,
            Cgroup::None => CgroupKind::None,
        }
    }

    /// The descriptor to clone into, where the kernel can.
    pub fn clone_target(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Cgroup::V2(group) => Some(group.fd()),
            _ => None,
        }
    }

    /// What a process writes `0` to in order to enter, where it cannot be cloned into it.
    ///
    /// Entering by itself, as a single thread, is the one way that does not stop every fork of the machine
    /// for milliseconds.
    pub fn doors(&self) -> Result<Vec<OwnedFd>, JailError> {
        match self {
            Cgroup::V1(group) => group.doors(),
            _ => Ok(Vec::new()),
        }
    }

    /// Moves a process into it that should have been cloned there.
    pub fn admit(&self, pid: Pid) -> Result<(), JailError> {
        match self {
            Cgroup::V2(group) => write(group.directory(), "cgroup.procs", &pid.as_raw_nonzero().to_string()),
            _ => Ok(()),
        }
    }

    /// What a program writes `0` to in order to be bound by the CPU rate, and what PID 1, which is not, writes to in
    /// order to leave it, where that is possible.
    pub fn rate_doors(&self) -> Result<Option<(OwnedFd, OwnedFd)>, JailError> {
        match self {
            Cgroup::V1(group) => group.rate_doors().map(Some),
            _ => Ok(None),
        }
    }

    /// What PID 1 needs to follow it.
    pub fn meters(&self) -> Result<MeterFds, JailError> {
        match self {
            Cgroup::V1(group) => group.meters(),
            Cgroup::V2(group) => group.meters(),
            Cgroup::None => Ok(MeterFds::default()),
        }
    }

    /// What the box has used so far.
    pub fn usage(&self) -> BoxUsage {
        match self {
            Cgroup::V1(group) => group.usage(),
            Cgroup::V2(group) => group.usage(),
            Cgroup::None => BoxUsage::default(),
        }
    }

    /// Removes it. All its processes must be dead or dying.
    pub fn remove(&self) -> Result<(), JailError> {
        match self {
            Cgroup::V1(group) => group.directories().try_for_each(remove_directory),
            Cgroup::V2(group) => remove_directory(group.directory()),
            Cgroup::None => Ok(()),
        }
    }
}

/// The same bounds, but for one that a test build leaves out.
fn left_out(limits: &BoxLimits) -> BoxLimits {
    let mut limits = *limits;
    if lacks(Mutant::Memory) {
        limits.memory_bytes = 1 << 40;
    }
    if lacks(Mutant::Pids) {
        limits.pids = 4000;
    }
    if lacks(Mutant::CpuRate) {
        limits.cpu_millis = 64_000;
    }
    limits
}

/// Removes cgroups left by spawners that no longer live. Returns how many.
pub fn sweep(layout: &Layout) -> usize {
    let parents: Vec<&Path> = match &layout.mounted {
        Mounted::V1(mounts) => mounts.directories().collect(),
        Mounted::V2(parent) => vec![parent],
        Mounted::None(_) => Vec::new(),
    };
    let mut removed = 0;
    for parent in parents {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(is_orphan) && std::fs::remove_dir(entry.path()).is_ok() {
                removed += 1;
            }
        }
    }
    removed
}

/// A cgroup directory cannot be removed before the last of its processes is gone, which is moments after
/// the last of them was told to die.
fn remove_directory(path: &Path) -> Result<(), JailError> {
    let deadline = Instant::now() + Duration::from_secs(2);
    let mut pause = Duration::from_micros(50);
    loop {
        match std::fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) if Instant::now() >= deadline => return Err(e).at(Step::Cgroup, "remove"),
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// `pid-starttime` of this process.
fn owner_tag() -> String {
    let pid = std::process::id();
    format!("{pid}-{}", start_time(pid).unwrap_or(0))
}

/// Whether `name` is ours and its spawner is dead.
fn is_orphan(name: &str) -> bool {
    let mut parts = name.strip_prefix(PREFIX).unwrap_or_default().split('-');
    let (Some(pid), Some(start)) = (parts.next(), parts.next()) else { return false };
    let (Ok(pid), Ok(start)) = (pid.parse::<u32>(), start.parse::<u64>()) else { return false };
    start_time(pid) != Some(start)
}

/// When a process started, in clock ticks since boot: field 22 of its stat line.
fn start_time(pid: u32) -> Option<u64> {
    let stat = sys::read_kernel_file(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

fn write(directory: &Path, file: &str, value: &str) -> Result<(), JailError> {
    std::fs::write(directory.join(file), value).at(Step::Cgroup, file)
}

fn open_to_write(file: &Path) -> Result<OwnedFd, JailError> {
    let opened = std::fs::OpenOptions::new().write(true).open(file);
    opened.map(OwnedFd::from).at(Step::Cgroup, file.display().to_string())
}

fn read_number(directory: &Path, file: &str) -> Option<u64> {
    sys::read_kernel_file(directory.join(file)).ok()?.trim().parse().ok()
}

/// The number behind `key` in a file of `key number` lines.
fn read_keyed(directory: &Path, file: &str, key: &str) -> Option<u64> {
    keyed(&sys::read_kernel_file(directory.join(file)).ok()?, key)
}

/// The number behind `key` in text of `key number` lines.
pub fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_whole() {
        let text = "low 0\noom 3\noom_kill 2\n";
        assert_eq!(keyed(text, "oom "), Some(3));
        assert_eq!(keyed(text, "oom_kill "), Some(2));
        assert_eq!(keyed(text, "max "), None);
    }

    #[test]
    fn a_living_owner_is_no_orphan() {
        assert!(!is_orphan(&format!("{PREFIX}{}-7", owner_tag())));
        assert!(is_orphan(&format!("{PREFIX}{}-1-7", std::process::id())));
        assert!(!is_orphan("somebody-else-1-1"));
        assert!(!is_orphan("sandboxd-"));
    }
}
