//! What this kernel and this user can do, as plain data.
//!
//! Each fact is found by really trying it where that is cheap and harmless, because settings lie: a kernel
//! may have user namespaces and an LSM, a container or a quota may still refuse them. [`host`] changes
//! nothing that outlasts it. What the facts mean for a sandbox is said in one place, [`Host::verdict`].
//!
//! It knows no words for people and no remedies; those are in the `doctor` command.

mod calls;
mod cgroup;
mod identity;
mod ladder;
mod surroundings;
pub mod text;
mod trial;
mod verdict;

pub use calls::{Calls, Landlock, Seccomp};
pub use cgroup::{Access, Cgroup, Hierarchy, Layout, NEEDED};
pub use identity::Identity;
pub use ladder::Namespaces;
pub use surroundings::{AppArmor, Surroundings, Sysctls};
pub use trial::Trial;
pub use verdict::Verdict;

use serde::{Deserialize, Serialize};

/// Everything found out about this host, seen from this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The running kernel.
    pub kernel: Kernel,
    /// Who this process is and what that permits.
    pub identity: Identity,
    /// Namespaces and what can be mounted inside them.
    pub namespaces: Namespaces,
    /// System call filters.
    pub seccomp: Seccomp,
    /// The second wall around files.
    pub landlock: Landlock,
    /// System calls that the jail is built on.
    pub calls: Calls,
    /// Kernel-enforced limits.
    pub cgroup: Cgroup,
    /// Settings of the kernel that bear on sandboxes.
    pub sysctls: Sysctls,
    /// What this process runs in and beside.
    pub surroundings: Surroundings,
}

/// The running kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// As `uname -r` says.
    pub release: String,
    /// As `uname -m` says.
    pub arch: String,
}

/// Finds out what this host can do. Takes some milliseconds.
///
/// It forks once, and needs no proof of being single-threaded for that: the child makes system calls only,
/// allocates nothing and ends by `_exit`.
pub fn host() -> Host {
    let uname = rustix::system::uname();
    let (namespaces, confinement) = ladder::climb();
    Host {
        kernel: Kernel {
            release: uname.release().to_string_lossy().into_owned(),
            arch: uname.machine().to_string_lossy().into_owned(),
        },
        identity: identity::find(),
        namespaces,
        seccomp: calls::seccomp(confinement),
        landlock: calls::landlock(),
        calls: calls::find(),
        cgroup: cgroup::find(),
        sysctls: surroundings::sysctls(),
        surroundings: surroundings::find(),
    }
}

/// The content of a small file, trimmed; `None` when it cannot be read.
fn read(path: impl AsRef<std::path::Path>) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_hold_on_any_linux() {
        let host = host();
        assert!(!host.kernel.release.is_empty());
        assert!(!host.kernel.arch.is_empty());
        assert_eq!(host.identity.uid, rustix::process::geteuid().as_raw());
        assert_eq!(host.identity.root, host.identity.uid == 0);
        assert_ne!(host.namespaces.user, Trial::NotTried, "the first rung is always tried");
        assert_ne!(host.seccomp.filter, Trial::NotTried, "does not depend on namespaces");
        assert_eq!(host.landlock.abi > 0, host.landlock.trial.works());
        assert_eq!(host.cgroup.layout == Layout::None, host.cgroup.hierarchies.is_empty());
    }

    #[test]
    fn a_probe_leaves_no_cgroup_behind() {
        let host = host();
        let name = format!("sandboxd-probe-{}-", std::process::id());
        let left = |dir: &std::path::Path| {
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)).count()
        };
        // Other tests probe at the same time, so one look may catch a group that is about to go.
        let gone = |dir: &std::path::Path| {
            (0..100).any(|_| {
                left(dir) == 0 || {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    false
                }
            })
        };
        for hierarchy in host.cgroup.hierarchies {
            assert!(gone(&hierarchy.mount) && gone(&hierarchy.own));
        }
    }
}
