//! System calls the jail is built on, each asked for by a call that changes nothing.
//!
//! A call that is present but was given nonsense answers `EINVAL`; one that is absent, or filtered by a
//! container, answers `ENOSYS` or `EPERM`.

use super::ladder::Confinement;
use super::trial::Trial;
use super::{read, text};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::OpenTreeFlags;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use serde::{Deserialize, Serialize};

/// System calls that the jail is built on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Making a process in new namespaces and inside its cgroup from the first instruction.
    pub clone3: Trial,
    /// A handle on a process that cannot come to mean another one.
    pub pidfd_open: Trial,
    /// Opening files beneath a directory.
    pub openat2: Trial,
    /// Closing every inherited descriptor.
    pub close_range: Trial,
    /// Naming a mount by descriptor.
    pub open_tree: Trial,
    /// Changing a mount by descriptor.
    pub mount_setattr: Trial,
}

impl Calls {
    /// All of them, by name.
    pub fn all(&self) -> [(&'static str, &Trial); 6] {
        [
            ("clone3", &self.clone3),
            ("pidfd_open", &self.pidfd_open),
            ("openat2", &self.openat2),
            ("close_range", &self.close_range),
            ("open_tree", &self.open_tree),
            ("mount_setattr", &self.mount_setattr),
        ]
    }
}

/// System call filters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seccomp {
    /// Installing a filter, really done in a child.
    pub filter: Trial,
    /// Setting `no_new_privs`, really done in a child.
    pub no_new_privs: Trial,
    /// What a filter can answer on this kernel.
    pub actions: Vec<String>,
    /// How many filters already lie over this process, by its container for example.
    pub inherited_filters: u32,
    /// Whether this process already runs with `no_new_privs`.
    pub inherited_no_new_privs: bool,
}

/// The second wall around files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landlock {
    /// Version of its interface; 0 when there is none.
    pub abi: u32,
    /// Why, when there is none.
    pub trial: Trial,
}

pub(super) fn find() -> Calls {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Calls {
        // SAFETY: no argument block is passed, so no process is made: the kernel answers EINVAL.
        clone3: present(unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<u8>(), 0_usize) }),
        pidfd_open: Trial::of(pidfd_open(getpid(), PidfdFlags::empty())),
        openat2: Trial::of(rustix::fs::openat2(
            CWD,
            c".",
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            beneath,
        )),
        // SAFETY: no descriptor can have the highest number, so nothing is closed.
        close_range: Trial::of(checked(unsafe {
            libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, 0)
        })),
        open_tree: Trial::of(rustix::mount::open_tree(CWD, c"/", OpenTreeFlags::OPEN_TREE_CLOEXEC)),
        // SAFETY: no attributes are passed, so no mount is changed: the kernel answers EINVAL.
        mount_setattr: present(unsafe {
            libc::syscall(libc::SYS_mount_setattr, -1, c"".as_ptr(), 0, std::ptr::null::<u8>(), 0_usize)
        }),
    }
}

pub(super) fn seccomp(tried: Confinement) -> Seccomp {
    let status = read("/proc/self/status").unwrap_or_default();
    let number = |name| text::status_field(&status, name).and_then(|n| n.parse().ok());
    let actions = read("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    Seccomp {
        filter: tried.filter,
        no_new_privs: tried.no_new_privs,
        actions: actions.split_whitespace().map(str::to_owned).collect(),
        inherited_filters: number("Seccomp_filters").unwrap_or(0),
        inherited_no_new_privs: number("NoNewPrivs") == Some(1),
    }
}

pub(super) fn landlock() -> Landlock {
    const ASK_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag and no attributes the kernel only answers its version.
    let abi = checked(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, ASK_VERSION)
    });
    Landlock { abi: abi.map_or(0, |n| n as u32), trial: Trial::of(abi) }
}

pub(super) fn checked(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result >= 0 {
        return Ok(result);
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Whether a call that was given nonsense is there to say so.
fn present(result: libc::c_long) -> Trial {
    match checked(result) {
        Err(Errno::INVAL) => Trial::Works,
        other => Trial::of(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_closes_no_descriptor() {
        let file = std::fs::File::open("/").unwrap();
        find();
        assert!(file.metadata().is_ok());
    }
}
