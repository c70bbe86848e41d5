//! What the kernel counts of a box, in files that were opened ahead: whoever has them can read them at any time, and
//! without knowing where they lie.

use super::{MeterFds, keyed};
use crate::spec::{BoxUsage, CgroupKind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// How many files they are.
pub const COUNTS: usize = 5;

/// Files in which the kernel counts.
#[derive(Debug)]
pub struct Counts {
    kind: CgroupKind,
    cpu: Option<File>,
    oom_kills: Option<File>,
    memory_peak: Option<File>,
    pids_peak: Option<File>,
    pids_events: Option<File>,
}

impl Counts {
    /// Takes them from among the descriptors of PID 1.
    pub fn take(kind: CgroupKind, fds: &mut MeterFds) -> Counts {
        Counts {
            kind,
            cpu: fds.cpu.take().map(File::from),
            oom_kills: fds.oom_kills.take().map(File::from),
            memory_peak: fds.memory_peak.take().map(File::from),
            pids_peak: fds.pids_peak.take().map(File::from),
            pids_events: fds.pids_events.take().map(File::from),
        }
    }

    /// All of them, for somebody else; nothing where one is missing.
    pub fn share(&self) -> Option<[BorrowedFd<'_>; COUNTS]> {
        let files = [&self.cpu, &self.oom_kills, &self.memory_peak, &self.pids_peak, &self.pids_events];
        let [Some(cpu), Some(oom_kills), Some(memory_peak), Some(pids_peak), Some(pids_events)] = files
        else {
            return None;
        };
        Some([cpu, oom_kills, memory_peak, pids_peak, pids_events].map(AsFd::as_fd))
    }

    /// What somebody else got from [`Counts::share`].
    pub fn shared(kind: CgroupKind, files: [OwnedFd; COUNTS]) -> Counts {
        let [cpu, oom_kills, memory_peak, pids_peak, pids_events] = files.map(|fd| Some(File::from(fd)));
        Counts { kind, cpu, oom_kills, memory_peak, pids_peak, pids_events }
    }

    /// CPU time of the whole box so far.
    pub fn cpu_micros(&self) -> Option<u64> {
        let text = contents(self.cpu.as_ref()?);
        match self.kind {
            CgroupKind::V1 => text.trim().parse::<u64>().ok().map(|nanos| nanos / 1000),
            CgroupKind::V2 => keyed(&text, "usage_usec "),
            CgroupKind::None => None,
        }
    }

    /// How often a process was killed for lack of memory.
    pub fn oom_kills(&self) -> u64 {
        behind(self.oom_kills.as_ref(), "oom_kill ")
    }

    /// How often making a process or thread was refused.
    pub fn pids_refused(&self) -> u64 {
        behind(self.pids_events.as_ref(), "max ")
    }

    /// What has news (`POLLPRI`) when that happens again after it was last asked for.
    pub fn refusals(&self) -> Option<BorrowedFd<'_>> {
        self.pids_events.as_ref().map(AsFd::as_fd)
    }

    /// Everything, from the beginning of the box until now.
    pub fn usage(&self) -> BoxUsage {
        let number = |file: &Option<File>| contents(file.as_ref()?).trim().parse().ok();
        BoxUsage {
            cpu_micros: self.cpu_micros(),
            memory_peak_bytes: number(&self.memory_peak),
            pids_peak: number(&self.pids_peak),
            oom_kills: self.oom_kills(),
            pids_refused: self.pids_refused(),
        }
    }
}

/// The number behind a key, in a file of such lines.
fn behind(file: Option<&File>, key: &str) -> u64 {
    file.and_then(|file| keyed(&contents(file), key)).unwrap_or(0)
}

/// What such a file, which is short, says now.
pub fn contents(file: &File) -> String {
    let mut buffer = [0; 4096];
    let length = file.read_at(&mut buffer, 0).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// Bytes that were read from storage and written to it, as an `io` file of a process says to whoever may read it.
pub fn traffic(io: &File) -> Option<(u64, u64)> {
    let text = contents(io);
    Some((keyed(&text, "read_bytes:")?, keyed(&text, "write_bytes:")?))
}
