//! Per-process limits. Where a cgroup bounds the box they are the second wall, else the first.

use crate::error::{At, JailError, Step};
use crate::mutant::{Mutant, lacks};
use crate::spec::{BoxLimits, CgroupKind};
use crate::sys;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Applies the limits of user code to this process and all it will start.
pub fn of_user_code(limits: &BoxLimits, cgroup: CgroupKind, two_ids: bool) -> Result<(), JailError> {
    if lacks(Mutant::Rlimits) {
        return Ok(());
    }
    set(Resource::Nofile, limits.open_files, "open files")?;
    set(Resource::Fsize, limits.disk_bytes, "file size")?;
    // Not 0: with a pipe in core_pattern the kernel starts the host's handler for a limit of 0, but aborts
    // the dump for a limit of 1.
    set(Resource::Core, 1, "core size")?;
    set(Resource::Memlock, 64 << 10, "locked memory")?;
    set(Resource::Stack, 8 << 20, "stack")?;
    set(Resource::Sigpending, 1024, "pending signals")?;
    set(Resource::Msgqueue, 0, "message queues")?;
    set(Resource::Nice, 0, "nice")?;
    set(Resource::Rtprio, 0, "real-time priority")?;
    // Counted per uid in the user namespace of the box, so it bounds this box and nobody else. PID 1 counts
    // where it shares the uid. Where a cgroup bounds and counts as well, it comes first.
    let behind = if cgroup == CgroupKind::None { 0 } else { 64 };
    if !lacks(Mutant::Pids) {
        set(Resource::Nproc, u64::from(limits.pids) + u64::from(!two_ids) + behind, "processes")?;
    }
    if cgroup == CgroupKind::None && !lacks(Mutant::Memory) {
        // Private writable memory. Not the address space: runtimes reserve far more than they use.
        set(Resource::Data, limits.memory_bytes, "data")?;
    }
    Ok(())
}

/// What can be bounded where there is no isolation: one process at a time.
pub fn without_isolation(limits: &BoxLimits) -> Result<(), JailError> {
    set(Resource::Nofile, limits.open_files, "open files")?;
    set(Resource::Fsize, limits.disk_bytes, "file size")?;
    set(Resource::Core, 1, "core size")?;
    set(Resource::Data, limits.memory_bytes, "data")
}

/// Bounds the CPU time of this process; the kernel ends it a second after the warning.
pub fn cpu_time(seconds: u64) -> Result<(), JailError> {
    if lacks(Mutant::CpuTime) {
        return Ok(());
    }
    let limit = Rlimit { current: Some(seconds), maximum: Some(seconds + 1) };
    setrlimit(Resource::Cpu, limit).at(Step::Rlimits, "cpu time")
}

/// Lowers a limit to `value`, or to what this process may have at most.
fn set(resource: Resource, value: u64, subject: &str) -> Result<(), JailError> {
    let most = sys::most_of(resource).at(Step::Rlimits, subject)?;
    let value = Some(value.min(most));
    setrlimit(resource, Rlimit { current: value, maximum: value }).at(Step::Rlimits, subject)
}
