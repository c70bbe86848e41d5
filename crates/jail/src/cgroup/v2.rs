//! One directory in the unified hierarchy.

use super::{MeterFds, open_to_write, read_keyed, read_number, write};
use crate::error::{At, JailError, Step};
use crate::spec::{BoxLimits, BoxUsage};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A cgroup of a box.
#[derive(Debug)]
pub struct Group {
    at: PathBuf,
    fd: OwnedFd,
}

impl Group {
    pub(super) fn create(parent: &Path, name: &str) -> Result<Group, JailError> {
        let at = parent.join(name);
        std::fs::create_dir(&at).at(Step::Cgroup, at.display().to_string())?;
        match File::open(&at) {
            Ok(fd) => Ok(Group { at, fd: fd.into() }),
            Err(error) => {
                let _ = std::fs::remove_dir(&at);
                Err(error).at(Step::Cgroup, at.display().to_string())
            }
        }
    }

    pub(super) fn limit(&self, limits: &BoxLimits) -> Result<(), JailError> {
        let at = &self.at;
        write(at, "memory.max", &limits.memory_bytes.to_string())?;
        // Absent where swap is not accounted; then there is none to bound.
        for file in ["memory.swap.max", "memory.zswap.max"] {
            if at.join(file).exists() {
                write(at, file, "0")?;
            }
        }
        // One more than user code may have: PID 1.
        write(at, "pids.max", &(limits.pids + 1).to_string())?;
        write(at, "cpu.max", &format!("{} 100000", u64::from(limits.cpu_millis) * 100))
    }

    pub(super) fn relieve(&self) -> Result<(), JailError> {
        write(&self.at, "cpu.max", "max 100000")
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn directory(&self) -> &Path {
        &self.at
    }

    pub(super) fn meters(&self) -> Result<MeterFds, JailError> {
        let open = |file: &str| File::open(self.at.join(file)).map(OwnedFd::from).at(Step::Cgroup, file);
        let optional = |file: &str| File::open(self.at.join(file)).ok().map(OwnedFd::from);
        Ok(MeterFds {
            oom: Some(open("memory.events")?),
            cpu: Some(open("cpu.stat")?),
            oom_kills: Some(open("memory.events")?),
            memory_peak: optional("memory.peak"),
            pids_peak: optional("pids.peak"),
            pids_events: optional("pids.events"),
            io: None,
            weight: Some(open_to_write(&self.at.join("cpu.weight"))?),
            idle: open_to_write(&self.at.join("cpu.idle")).ok(),
        })
    }

    pub(super) fn usage(&self) -> BoxUsage {
        BoxUsage {
            cpu_micros: read_keyed(&self.at, "cpu.stat", "usage_usec "),
            memory_peak_bytes: read_number(&self.at, "memory.peak"),
            pids_peak: read_number(&self.at, "pids.peak"),
            oom_kills: read_keyed(&self.at, "memory.events", "oom_kill ").unwrap_or(0),
            pids_refused: read_keyed(&self.at, "pids.events", "max ").unwrap_or(0),
        }
    }
}
