//! The one error of this crate: which step of a ladder failed, on what, and what the kernel answered.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A rung of one of the two ladders, in the order they are climbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Reserving outside ids for the box.
    Identity,
    /// Making or entering the cgroup.
    Cgroup,
    /// Making the namespaces.
    Namespaces,
    /// Writing the uid and gid maps.
    IdMaps,
    /// Building the file system.
    Mounts,
    /// Bringing up the loopback interface.
    Network,
    /// Setting resource limits.
    Rlimits,
    /// Making a session keyring.
    Keyring,
    /// Changing to the ids of the sandbox.
    Ids,
    /// Dropping capabilities.
    Capabilities,
    /// Setting `no_new_privs`.
    NoNewPrivs,
    /// Restricting file access by Landlock.
    Landlock,
    /// Closing file descriptors and wiring standard streams.
    Descriptors,
    /// Changing to the working directory.
    WorkingDirectory,
    /// Installing the system call filter.
    Seccomp,
    /// Replacing the process by the program.
    Exec,
}

impl Step {
    /// Every rung, in order.
    pub const ALL: [Step; 16] = [
        Step::Identity,
        Step::Cgroup,
        Step::Namespaces,
        Step::IdMaps,
        Step::Mounts,
        Step::Network,
        Step::Rlimits,
        Step::Keyring,
        Step::Ids,
        Step::Capabilities,
        Step::NoNewPrivs,
        Step::Landlock,
        Step::Descriptors,
        Step::WorkingDirectory,
        Step::Seccomp,
        Step::Exec,
    ];
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Identity => "reserve ids",
            Step::Cgroup => "set up the cgroup",
            Step::Namespaces => "make namespaces",
            Step::IdMaps => "write id maps",
            Step::Mounts => "build the file system",
            Step::Network => "bring up loopback",
            Step::Rlimits => "set resource limits",
            Step::Keyring => "make a session keyring",
            Step::Ids => "change ids",
            Step::Capabilities => "drop capabilities",
            Step::NoNewPrivs => "set no_new_privs",
            Step::Landlock => "restrict by Landlock",
            Step::Descriptors => "prepare descriptors",
            Step::WorkingDirectory => "enter the working directory",
            Step::Seccomp => "install the system call filter",
            Step::Exec => "start the program",
        })
    }
}

/// What went wrong while making a box or starting a program in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailError {
    /// The rung that failed.
    pub step: Step,
    /// What it was about: a path, a controller, a system call.
    pub subject: String,
    /// The kernel's error number.
    pub errno: i32,
}

impl JailError {
    /// An error of `step` about `subject`.
    pub fn new(step: Step, subject: impl Into<String>, errno: Errno) -> Self {
        JailError { step, subject: subject.into(), errno: errno.raw_os_error() }
    }

    /// The error number as a name-bearing type.
    pub fn errno(&self) -> Errno {
        Errno::from_raw_os_error(self.errno)
    }
}

impl fmt::Display for JailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = std::io::Error::from_raw_os_error(self.errno);
        write!(f, "could not {}: {}: {}", self.step, self.subject, reason)
    }
}

impl std::error::Error for JailError {}

/// Gives a kernel answer its step and subject.
pub(crate) trait At<T> {
    fn at(self, step: Step, subject: impl Into<String>) -> Result<T, JailError>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, step: Step, subject: impl Into<String>) -> Result<T, JailError> {
        self.map_err(|errno| JailError::new(step, subject, errno))
    }
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, step: Step, subject: impl Into<String>) -> Result<T, JailError> {
        self.map_err(|error| {
            let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
            JailError::new(step, subject, errno)
        })
    }
}
