//! One directory per controller hierarchy.

use super::layout::V1Mounts;
use super::{MeterFds, open_to_write, read_keyed, read_number, write};
use crate::error::{At, JailError, Step};
use crate::spec::{BoxLimits, BoxUsage};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, OwnedFd};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A cgroup of a box.
#[derive(Debug)]
pub struct Group {
    at: V1Mounts,
}

impl Group {
    pub(super) fn plan(mounts: &V1Mounts, name: &str) -> Group {
        let below = |path: &PathBuf| path.join(name);
        let at = V1Mounts {
            memory: below(&mounts.memory),
            cpu: below(&mounts.cpu),
            cpuacct: below(&mounts.cpuacct),
            pids: below(&mounts.pids),
        };
        Group { at }
    }

    pub(super) fn make(&self) -> Result<(), JailError> {
        for directory in self.directories() {
            if let Err(error) = std::fs::create_dir(directory) {
                for made in self.directories().take_while(|made| *made != directory) {
                    let _ = std::fs::remove_dir(made);
                }
                return Err(error).at(Step::Cgroup, directory.display().to_string());
            }
        }
        Ok(())
    }

    pub(super) fn limit(&self, limits: &BoxLimits) -> Result<(), JailError> {
        let memory = limits.memory_bytes.to_string();
        write(&self.at.memory, "memory.limit_in_bytes", &memory)?;
        // Absent when the kernel does not account swap; then there is none to bound.
        if self.at.memory.join("memory.memsw.limit_in_bytes").exists() {
            write(&self.at.memory, "memory.memsw.limit_in_bytes", &memory)?;
        }
        // What waits in sockets is counted apart; a part of the memory is a generous bound for it.
        if self.at.memory.join("memory.kmem.tcp.limit_in_bytes").exists() {
            let queued = (limits.memory_bytes / 4).to_string();
            write(&self.at.memory, "memory.kmem.tcp.limit_in_bytes", &queued)?;
        }
        // One more than user code may have: PID 1.
        write(&self.at.pids, "pids.max", &(limits.pids + 1).to_string())?;
        write(&self.at.cpu, "cpu.cfs_period_us", "100000")?;
        write(&self.at.cpu, "cpu.cfs_quota_us", &(u64::from(limits.cpu_millis) * 100).to_string())
    }

    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.at.directories()
    }

    pub(super) fn doors(&self) -> Result<Vec<OwnedFd>, JailError> {
        self.directories().map(door).collect()
    }

    /// Into the CPU rate, and out of it to where everybody is.
    pub(super) fn rate_doors(&self) -> Result<(OwnedFd, OwnedFd), JailError> {
        let outside = self.at.cpu.parent().unwrap_or(&self.at.cpu);
        Ok((door(&self.at.cpu)?, door(outside)?))
    }

    pub(super) fn meters(&self) -> Result<MeterFds, JailError> {
        let open = |path: PathBuf| File::open(&path).at(Step::Cgroup, path.display().to_string());
        let control = open(self.at.memory.join("memory.oom_control"))?;
        let oom: OwnedFd =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).at(Step::Cgroup, "eventfd")?;
        let registration = format!("{} {}", oom.as_raw_fd(), control.as_raw_fd());
        write(&self.at.memory, "cgroup.event_control", &registration)?;
        let cpu = open(self.at.cpuacct.join("cpuacct.usage"))?;
        let optional = |path: PathBuf| File::open(path).ok().map(OwnedFd::from);
        Ok(MeterFds {
            oom: Some(oom),
            cpu: Some(cpu.into()),
            oom_kills: Some(control.into()),
            memory_peak: optional(self.at.memory.join("memory.max_usage_in_bytes")),
            pids_peak: optional(self.at.pids.join("pids.peak")),
            pids_events: optional(self.at.pids.join("pids.events")),
            io: None,
            weight: Some(open_to_write(&self.at.cpu.join("cpu.shares"))?),
            idle: open_to_write(&self.at.cpu.join("cpu.idle")).ok(),
        })
    }

    pub(super) fn usage(&self) -> BoxUsage {
        BoxUsage {
            cpu_micros: read_number(&self.at.cpuacct, "cpuacct.usage").map(|nanos| nanos / 1000),
            memory_peak_bytes: read_number(&self.at.memory, "memory.max_usage_in_bytes"),
            pids_peak: read_number(&self.at.pids, "pids.peak"),
            oom_kills: read_keyed(&self.at.memory, "memory.oom_control", "oom_kill ").unwrap_or(0),
            pids_refused: read_keyed(&self.at.pids, "pids.events", "max ").unwrap_or(0),
        }
    }
}

/// What a process writes `0` to in order to enter.
fn door(directory: &Path) -> Result<OwnedFd, JailError> {
    File::options().write(true).open(directory.join("tasks")).map(OwnedFd::from).at(Step::Cgroup, "tasks")
}
