//! Whether this process may make groups with kernel limits, found by making an empty one.

use super::{Hierarchy, controllers};
use crate::probe::read;
use crate::probe::trial::reason;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The controllers a sandbox is limited by.
pub const NEEDED: [&str; 3] = ["memory", "pids", "cpu"];

/// Whether this process may make groups limited in memory, processes and CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Access {
    /// It may.
    Usable {
        /// 1 or 2.
        version: u8,
        /// Directories to make groups in; several when v1 has a hierarchy per controller.
        parents: Vec<PathBuf>,
        /// v2: groups have `cgroup.kill`.
        kill: bool,
    },
    /// No hierarchy with these controllers is mounted.
    Absent {
        /// Controllers found nowhere.
        controllers: Vec<String>,
    },
    /// It may make groups, but these would lack controllers.
    Lacks {
        /// The directory tried.
        parent: PathBuf,
        /// Controllers it does not hand on.
        controllers: Vec<String>,
    },
    /// v2: it may make groups, but as long as processes sit in the directory itself they get no controller.
    Occupied {
        /// The directory tried.
        parent: PathBuf,
    },
    /// It may not make groups.
    Refused {
        /// The directory tried.
        parent: PathBuf,
        /// The error number.
        errno: i32,
        /// The same in words.
        reason: String,
    },
}

pub(super) fn judge(hierarchies: &[Hierarchy], root: bool) -> Access {
    let bearing = |name: &str| hierarchies.iter().find(|h| h.controllers.iter().any(|c| c == name));
    let absent: Vec<_> = NEEDED.iter().filter(|c| bearing(c).is_none()).map(|c| (*c).to_owned()).collect();
    if !absent.is_empty() {
        return Access::Absent { controllers: absent };
    }
    // A controller is borne by one hierarchy only, so all three are in v2 or at least one is not.
    let unified = NEEDED.iter().all(|c| bearing(c).is_some_and(|h| h.version == 2));
    match hierarchies.iter().find(|h| unified && h.version == 2) {
        Some(hierarchy) => access_v2(hierarchy, root),
        None => access_v1(NEEDED.iter().filter_map(|c| Some((*c, bearing(c)?)))),
    }
}

/// v1 groups are made at the top of each hierarchy.
fn access_v1<'a>(bearing: impl Iterator<Item = (&'a str, &'a Hierarchy)>) -> Access {
    let mut parents = Vec::new();
    for (controller, hierarchy) in bearing {
        match attempt(&hierarchy.mount, &[knob_v1(controller)]) {
            Ok(group) if group.limited => parents.push(hierarchy.mount.clone()),
            Ok(_) => {
                let (parent, controllers) = (hierarchy.mount.clone(), vec![controller.to_owned()]);
                return Access::Lacks { parent, controllers };
            }
            Err(refusal) => return refusal,
        }
    }
    parents.dedup();
    Access::Usable { version: 1, parents, kill: false }
}

/// v2 groups are made at the top by root, and otherwise as near above this process as possible: moving a
/// process needs the right to write to whatever both places are below.
fn access_v2(hierarchy: &Hierarchy, root: bool) -> Access {
    let top = root.then_some(hierarchy.mount.as_path());
    let above = hierarchy.own.ancestors().take_while(|dir| dir.starts_with(&hierarchy.mount));
    let mut first_refusal = None;
    for parent in top.into_iter().chain(above) {
        match below(parent) {
            usable @ Access::Usable { .. } => return usable,
            refusal => first_refusal = first_refusal.or(Some(refusal)),
        }
    }
    first_refusal.unwrap_or(Access::Absent { controllers: Vec::new() })
}

fn below(parent: &Path) -> Access {
    let group = match attempt(parent, &["memory.max", "pids.max", "cpu.max"]) {
        Ok(group) => group,
        Err(refusal) => return refusal,
    };
    let own = |file: &str| parent.join(file);
    if let Err(errno) = rustix::fs::access(own("cgroup.procs"), rustix::fs::Access::WRITE_OK) {
        return refused(parent, errno.into());
    }
    if !group.limited {
        let offered = controllers(parent, "cgroup.controllers");
        let lacking: Vec<_> = NEEDED.iter().filter(|c| !offered.iter().any(|o| o == *c)).collect();
        if !lacking.is_empty() {
            let controllers = lacking.into_iter().map(|c| (*c).to_owned()).collect();
            return Access::Lacks { parent: parent.to_owned(), controllers };
        }
        // Only the true root, which alone has no `cgroup.type`, may hold processes and hand on controllers.
        let occupied = read(own("cgroup.procs")).is_some_and(|procs| !procs.is_empty());
        if occupied && own("cgroup.type").exists() {
            return Access::Occupied { parent: parent.to_owned() };
        }
        if let Err(errno) = rustix::fs::access(own("cgroup.subtree_control"), rustix::fs::Access::WRITE_OK) {
            return refused(parent, errno.into());
        }
    }
    Access::Usable { version: 2, parents: vec![parent.to_owned()], kill: group.kill }
}

/// What an empty group that was made and removed looked like.
struct Group {
    limited: bool,
    kill: bool,
}

fn attempt(parent: &Path, knobs: &[&str]) -> Result<Group, Access> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let group = parent.join(format!("sandboxd-probe-{}-{count}", std::process::id()));
    match std::fs::create_dir(&group) {
        // Left by a probe that was killed between making and removing it.
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(refused(parent, error));
        }
        _ => {}
    }
    let limited = knobs.iter().all(|knob| group.join(knob).exists());
    let kill = group.join("cgroup.kill").exists();
    std::fs::remove_dir(&group).map_err(|error| refused(parent, error))?;
    Ok(Group { limited, kill })
}

fn refused(parent: &Path, error: std::io::Error) -> Access {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    Access::Refused { parent: parent.to_owned(), errno, reason: reason(errno) }
}

fn knob_v1(controller: &str) -> &'static str {
    match controller {
        "memory" => "memory.limit_in_bytes",
        "cpu" => "cpu.cfs_quota_us",
        _ => "pids.max",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_is_refused() {
        let refusal = below(Path::new("/proc/self/nowhere"));
        assert!(matches!(refusal, Access::Refused { errno: libc::ENOENT, .. }), "{refusal:?}");
    }

    #[test]
    fn a_directory_that_is_no_cgroup_limits_nothing() {
        let plain = std::env::temp_dir();
        assert!(attempt(&plain, &["memory.max"]).is_ok_and(|group| !group.limited));
    }

    #[test]
    fn agrees_with_the_jail() {
        let usable = matches!(super::super::find().access, Access::Usable { .. });
        let layout = crate::cgroup::Layout::detect(&[]);
        assert_eq!(usable, !matches!(layout.mounted, crate::cgroup::Mounted::None(_)), "{layout:?}");
    }
}
