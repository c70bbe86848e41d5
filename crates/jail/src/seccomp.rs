//! The system call filter of user code, in three profiles.
//!
//! The policy is data, `policies/seccomp.policy`, compiled into tables at build time; here it becomes a BPF
//! program and goes to the kernel. It is an allow-list: a number nobody decided about answers ENOSYS, a
//! known and refused one EPERM, and only a call of another architecture ends the process, because a filter
//! that kills on an incomplete list breaks ordinary programs at random.
//!
//! It does not set `no_new_privs` and does not choose the profile, both are the caller's.

mod bpf;
mod rules;
mod table;
#[cfg(test)]
mod tests;

use crate::mutant::{Mutant, lacks};
use serde::{Deserialize, Serialize};
use std::{fmt, io};

/// How much of the kernel user code may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// What interpreters, compilers and build tools need.
    #[default]
    Default,
    /// The default, and debuggers may attach to processes of the sandbox.
    Debug,
    /// Compute only: the default without sockets, inotify, message queues and SysV IPC.
    Strict,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 3] = [Profile::Default, Profile::Debug, Profile::Strict];

    /// The name in settings, on the wire and of the golden file.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Default => "default",
            Profile::Debug => "debug",
            Profile::Strict => "strict",
        }
    }

    /// SHA-256 of its filter on this architecture, as a receipt quotes it. Committed, because hashing in every
    /// sandbox would cost more than the filter itself; a test proves that it is the filter's.
    pub fn sha256(self) -> &'static str {
        let mine = (std::env::consts::ARCH, self.name());
        let lines = FINGERPRINTS.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            Some(((words.next()?, words.next()?), words.next()?))
        });
        lines.into_iter().find_map(|(whose, hash)| (whose == mine).then_some(hash)).unwrap_or("unknown")
    }
}

/// Lines of `architecture profile hash`.
const FINGERPRINTS: &str = include_str!("../../../policies/golden/fingerprints.txt");

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A filter ready to be installed. Build it before the fork: installing does not allocate.
#[derive(Clone, Debug)]
pub struct Filter {
    program: Vec<libc::sock_filter>,
}

impl Filter {
    /// The filter of a profile, for the architecture this was compiled for.
    pub fn new(profile: Profile) -> Filter {
        Filter { program: bpf::program(&table::HERE, profile) }
    }

    /// Lets everything pass but files without a name, which answers as if the kernel had none: for a box that no
    /// cgroup counts. Such a file, sent to oneself and not received, is memory that belongs to no process, so whoever
    /// adds up processes does not find it.
    pub fn no_nameless_files() -> Filter {
        Filter { program: bpf::without(libc::SYS_memfd_create as u32) }
    }

    /// Lets everything pass but making oneself unreadable: for a copy of an interpreter in a box that no cgroup counts.
    /// The kernel takes its memory for the host's, so that not even PID 1 could look at it then.
    pub fn stays_readable() -> Filter {
        Filter { program: bpf::readable() }
    }

    /// The program as bytes, the same on every run of the same build: for a fingerprint.
    pub fn as_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.program.len() * 8);
        for instruction in &self.program {
            bytes.extend_from_slice(&instruction.code.to_le_bytes());
            bytes.extend_from_slice(&[instruction.jt, instruction.jf]);
            bytes.extend_from_slice(&instruction.k.to_le_bytes());
        }
        bytes
    }

    /// The program itself, for a test to interpret.
    #[cfg(test)]
    pub(crate) fn instructions(&self) -> &[libc::sock_filter] {
        &self.program
    }

    /// Puts every thread of this process, and all it will ever start, behind the filter for good.
    ///
    /// `no_new_privs` must be set. Fails with ESRCH when a thread is behind another filter already.
    pub fn install(&self) -> io::Result<()> {
        if lacks(Mutant::Seccomp) {
            return Ok(());
        }
        let len = u16::try_from(self.program.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
        let program = libc::sock_fprog { len, filter: self.program.as_ptr().cast_mut() };
        // SAFETY: `program` describes exactly `self.program`, which outlives the call. The kernel copies it,
        // checks it and writes nothing back.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                // Nothing else: without SPEC_ALLOW the speculation mitigations of filtered tasks stay on.
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const program,
            )
        };
        match result {
            0 => Ok(()),
            // The id of a thread that could not follow. Nothing was installed.
            1.. => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
