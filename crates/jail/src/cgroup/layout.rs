//! Where this host's cgroups are, and whether we may make some.

use crate::sys;
use rustix::process::Pid;
use std::path::{Path, PathBuf};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The hierarchies we use.
    pub mounted: Mounted,
}

/// The hierarchies we use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mounted {
    /// Writable directories, one per controller.
    V1(V1Mounts),
    /// The directory of the unified hierarchy in which ours are made.
    V2(PathBuf),
    /// None we may use, and why.
    None(String),
}

/// Directories in which ours are made, one per controller; co-mounted controllers share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct V1Mounts {
    /// Memory.
    pub memory: PathBuf,
    /// CPU rate.
    pub cpu: PathBuf,
    /// CPU time.
    pub cpuacct: PathBuf,
    /// Number of processes.
    pub pids: PathBuf,
}

impl V1Mounts {
    /// Each directory once.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        let mut all = vec![self.memory.as_path(), &self.cpu, &self.cpuacct, &self.pids];
        all.sort();
        all.dedup();
        all.into_iter()
    }
}

const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

impl Layout {
    /// Whether there seems to be one hierarchy per controller, at a glance.
    pub fn looks_divided() -> bool {
        CONTROLLERS.iter().all(|name| Path::new("/sys/fs/cgroup").join(name).join("tasks").exists())
    }

    /// Looks at this host, for somebody who may move these processes, himself among them, out of the way.
    pub fn detect(movable: &[Pid]) -> Layout {
        // Whoever reads the list of mounts keeps everybody waiting who makes some, such as a box that has been begun.
        if let Some(v1) = usual_v1() {
            return Layout { mounted: Mounted::V1(v1) };
        }
        let mountinfo = sys::read_kernel_file("/proc/self/mountinfo").unwrap_or_default();
        let mounted = match v1_mounts(&mountinfo) {
            Some(v1) if v1.directories().all(writable) => Mounted::V1(v1),
            Some(_) => Mounted::None("the cgroup hierarchies are not writable for this user".into()),
            None => match v2_mount(&mountinfo) {
                Some(root) => match usable_v2(&root, movable) {
                    Some(parent) => Mounted::V2(parent),
                    None => {
                        Mounted::None("no cgroup with memory, pids and cpu is delegated to this user".into())
                    }
                },
                None => Mounted::None("no cgroup hierarchy is mounted".into()),
            },
        };
        Layout { mounted }
    }

    /// Why there are none we may use, where that is so.
    pub fn trouble(&self) -> Option<String> {
        match &self.mounted {
            Mounted::None(why) => Some(why.clone()),
            Mounted::V1(_) | Mounted::V2(_) => None,
        }
    }
}

/// The hierarchies where they usually are, one directory each, if we may use them.
fn usual_v1() -> Option<V1Mounts> {
    let at = |controller: &str, sign: &str| {
        let directory = Path::new("/sys/fs/cgroup").join(controller);
        // A link leads to several controllers in one.
        let own = std::fs::symlink_metadata(&directory).is_ok_and(|about| about.is_dir());
        (own && directory.join(sign).exists() && writable(&directory)).then_some(directory)
    };
    Some(V1Mounts {
        memory: at("memory", "memory.limit_in_bytes")?,
        cpu: at("cpu", "cpu.shares")?,
        cpuacct: at("cpuacct", "cpuacct.usage")?,
        pids: at("pids", "tasks")?,
    })
}

/// (mount point, file system, options of the file system) of a mountinfo line.
fn parse_mount(line: &str) -> Option<(PathBuf, &str, &str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    let kind = right.next()?;
    Some((PathBuf::from(left.split(' ').nth(4)?), kind, right.nth(1)?))
}

fn v1_mounts(mountinfo: &str) -> Option<V1Mounts> {
    let find = |controller: &str| {
        mountinfo.lines().filter_map(parse_mount).find_map(|(path, kind, options)| {
            (kind == "cgroup" && options.split(',').any(|o| o == controller)).then_some(path)
        })
    };
    Some(V1Mounts {
        memory: find("memory")?,
        cpu: find("cpu")?,
        cpuacct: find("cpuacct")?,
        pids: find("pids")?,
    })
}

fn v2_mount(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().filter_map(parse_mount).find_map(|(path, kind, _)| (kind == "cgroup2").then_some(path))
}

/// The nearest directory in which we may make a bounded cgroup and move processes into it: walking up from
/// our own cgroup, the first that is ours to write, holds no process itself (or is the root, which may), and
/// can give its children all three controllers. Root looks at the top first.
fn usable_v2(root: &Path, movable: &[Pid]) -> Option<PathBuf> {
    if writable(root) && grant_controllers(root, movable) {
        return Some(root.to_owned());
    }
    let own = sys::read_kernel_file("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = root.join(own.trim_start_matches('/'));
    own.ancestors()
        .take_while(|directory| directory.starts_with(root))
        .filter(|directory| writable(directory) && writable(&directory.join("cgroup.procs")))
        .find(|directory| grant_controllers(directory, movable))
        .map(Path::to_owned)
}

fn grant_controllers(directory: &Path, movable: &[Pid]) -> bool {
    let listed = |file: &str| {
        let text = sys::read_kernel_file(directory.join(file)).unwrap_or_default();
        CONTROLLERS.iter().all(|c| text.split_whitespace().any(|word| word == *c))
    };
    let grant = || std::fs::write(directory.join("cgroup.subtree_control"), "+memory +pids +cpu").is_ok();
    listed("cgroup.subtree_control")
        || (listed("cgroup.controllers") && (grant() || (step_aside(directory, movable) && grant())))
}

/// A service with a cgroup of its own sits in it, and the kernel lets no cgroup both hold processes and bound
/// children. If nobody but those who may be moved is there, they move into a leaf.
fn step_aside(directory: &Path, movable: &[Pid]) -> bool {
    let inside = sys::read_kernel_file(directory.join("cgroup.procs")).unwrap_or_default();
    let inside: Vec<&str> = inside.lines().collect();
    let may_move = |pid: &str| movable.iter().any(|own| own.as_raw_nonzero().to_string() == pid);
    if inside.is_empty() || !inside.iter().all(|pid| may_move(pid)) {
        return false;
    }
    let leaf = directory.join("supervisor");
    let _ = std::fs::create_dir(&leaf);
    inside.iter().all(|pid| std::fs::write(leaf.join("cgroup.procs"), pid).is_ok())
}

fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
        && rustix::fs::statvfs(path)
            .is_ok_and(|fs| !fs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn hybrid_hosts_use_v1_and_share_co_mounted_controllers() {
        let mounts = v1_mounts(HYBRID).unwrap();
        assert_eq!(mounts.cpu, mounts.cpuacct);
        assert_eq!(mounts.directories().count(), 3);
    }

    #[test]
    fn unified_hosts_have_no_v1() {
        let text = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(v1_mounts(text), None);
        assert_eq!(v2_mount(text), Some("/sys/fs/cgroup".into()));
    }
}
