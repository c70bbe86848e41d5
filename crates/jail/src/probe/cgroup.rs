//! Which cgroup hierarchies there are, and whether this process may make groups with kernel limits there.
//!
//! Finding out makes an empty group, looks which knobs it has and removes it. It moves no process and turns
//! on no controller; that is for the jail's own `cgroup`.

mod access;

pub use access::{Access, NEEDED};

use super::read;
use super::text::{self, Membership, Mount, list};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Kernel-enforced limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    /// Which kinds of hierarchy are mounted.
    pub layout: Layout,
    /// All that can bear controllers.
    pub hierarchies: Vec<Hierarchy>,
    /// Whether this process may limit others.
    pub access: Access,
}

/// Which kinds of hierarchy are mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// None.
    None,
    /// One per controller.
    V1,
    /// The unified one.
    V2,
    /// Both, each controller in one of them.
    Hybrid,
}

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// 1 or 2.
    pub version: u8,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// The directory of this process's own group.
    pub own: PathBuf,
    /// Its controllers.
    pub controllers: Vec<String>,
}

pub(super) fn find() -> Cgroup {
    let mounts = text::mounts(&read("/proc/self/mountinfo").unwrap_or_default());
    let memberships = text::memberships(&read("/proc/self/cgroup").unwrap_or_default());
    let mut hierarchies = hierarchies(&mounts, &memberships);
    for unified in hierarchies.iter_mut().filter(|h| h.version == 2) {
        unified.controllers = controllers(&unified.mount, "cgroup.controllers");
    }
    let access = access::judge(&hierarchies, rustix::process::geteuid().is_root());
    Cgroup { layout: layout(&hierarchies), hierarchies, access }
}

/// Pairs each membership with the mount that shows it. The unified one still lacks its controllers.
fn hierarchies(mounts: &[Mount], memberships: &[Membership]) -> Vec<Hierarchy> {
    let pair = |membership: &Membership| {
        let unified = membership.controllers.is_empty();
        let named = membership.controllers.iter().any(|c| c.starts_with("name="));
        let shows = |mount: &&Mount| match mount.kind.as_str() {
            "cgroup2" => unified,
            "cgroup" => !unified && membership.controllers.iter().all(|c| mount.options.contains(c)),
            _ => false,
        };
        let mount = mounts.iter().find(shows).filter(|_| !named)?;
        Some(Hierarchy {
            version: if unified { 2 } else { 1 },
            mount: mount.point.clone(),
            read_only: mount.read_only,
            own: text::directory(mount, &membership.path),
            controllers: membership.controllers.clone(),
        })
    };
    memberships.iter().filter_map(pair).collect()
}

fn layout(hierarchies: &[Hierarchy]) -> Layout {
    let has = |version| hierarchies.iter().any(|h| h.version == version);
    match (has(1), has(2)) {
        (false, false) => Layout::None,
        (true, false) => Layout::V1,
        (false, true) => Layout::V2,
        (true, true) => Layout::Hybrid,
    }
}

fn controllers(directory: &Path, file: &str) -> Vec<String> {
    read(directory.join(file)).map(|text| list(&text, ' ')).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_in(mountinfo: &str, cgroup: &str) -> Vec<Hierarchy> {
        hierarchies(&text::mounts(mountinfo), &text::memberships(cgroup))
    }

    const V2: &str = "24 30 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn v2_of_a_systemd_session() {
        let found = find_in(V2, "0::/user.slice/user-1000.slice/session-3.scope\n");
        assert_eq!(layout(&found), Layout::V2);
        assert_eq!(found[0].own, Path::new("/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope"));
    }

    #[test]
    fn v1_with_shared_mounts_and_a_named_one() {
        let found = find_in(
            "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n\
             32 31 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
             33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            "5:cpu,cpuacct:/a\n4:memory:/b\n1:name=systemd:/user.slice\n",
        );
        assert_eq!(layout(&found), Layout::V1);
        assert_eq!(found.len(), 2, "a named hierarchy bears no controller");
        assert_eq!(found[0].own, Path::new("/sys/fs/cgroup/cpu,cpuacct/a"));
        assert_eq!(found[1].controllers, ["memory"]);
        assert_eq!(access::judge(&found, true), Access::Absent { controllers: vec!["pids".into()] });
    }

    #[test]
    fn hybrid() {
        let found = find_in(
            "34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            "4:memory:/\n0::/\n",
        );
        assert_eq!(layout(&found), Layout::Hybrid);
    }

    #[test]
    fn v1_seen_from_inside_a_container() {
        let found = find_in(
            "34 31 0:31 /docker/ab /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n",
            "4:memory:/docker/ab\n0::/docker/ab\n",
        );
        assert_eq!(layout(&found), Layout::V1);
        assert!(found[0].read_only);
        assert_eq!(found[0].own, Path::new("/sys/fs/cgroup/memory"));
    }

    #[test]
    fn nothing_mounted() {
        let found = find_in("", "0::/\n");
        assert_eq!(layout(&found), Layout::None);
        assert_eq!(
            access::judge(&found, false),
            Access::Absent { controllers: NEEDED.map(Into::into).to_vec() }
        );
    }
}
