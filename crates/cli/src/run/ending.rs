//! How a run ended, for shells and for people: the same here and on a server.

use engine::Status;

/// The program's own code, or the one people know for what ended it.
pub(crate) fn exit_code(status: Status, exit_code: Option<i32>, signal: Option<i32>) -> u8 {
    let of_signal = |signal: i32| 128u8.saturating_add(signal as u8);
    match status {
        Status::TimedOut | Status::CpuLimit => 124,
        Status::OutOfMemory => 137,
        Status::Cancelled => crate::INTERRUPTED,
        Status::StartFailed | Status::InfraError => crate::OURS,
        Status::OutputLimit => 153,
        _ => match (exit_code, signal) {
            (Some(code), _) => code as u8,
            (None, Some(signal)) => of_signal(signal),
            (None, None) => crate::OURS,
        },
    }
}

/// What would let the program go on.
pub(crate) fn hint(status: Status) -> Option<&'static str> {
    Some(match status {
        Status::TimedOut => "`--timeout` allows more time",
        Status::CpuLimit => "`--cpu-time` allows more CPU time",
        Status::OutOfMemory => "`--memory` allows more memory",
        Status::ProcessLimit => "`--pids` allows more processes",
        Status::DiskLimit => "`--disk` allows more storage, `--inodes` more files",
        Status::InfraError => "`sandboxd doctor` says what this host offers",
        _ => return None,
    })
}
