//! What was used so far, as the kernel counts it.
//!
//! CPU time of ours is that of this process, of all its descendants that live and of all they have waited for. A cgroup
//! would not count it: the sandboxes have cgroups of their own, beside ours and not below. What the kernel does on
//! nobody's behalf, such as taking down namespaces, is in the machine's count only.

use anyhow::{Context, Result};
use std::collections::{BTreeSet, HashMap};
use std::ops::{Add, Sub};
use std::path::PathBuf;

/// The unit of `/proc`, the same on every machine we run on.
const TICK_MS: f64 = 10.0;

/// CPU time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cpu {
    /// Of this process and all its descendants.
    pub(crate) ours: f64,
    /// Of everything on this machine.
    pub(crate) machine: f64,
}

impl Cpu {
    pub(crate) fn now() -> Result<Cpu> {
        let machine = std::fs::read_to_string("/proc/stat")?;
        let machine = machine.lines().next().and_then(busy_ticks).context("`/proc/stat` tells nothing")?;
        let processes = processes()?;
        let ours: u64 = family(&processes, std::process::id()).map(|(_, process)| process.ticks).sum();
        Ok(Cpu { ours: ours as f64 * TICK_MS, machine: machine as f64 * TICK_MS })
    }
}

impl Add for Cpu {
    type Output = Cpu;
    fn add(self, other: Cpu) -> Cpu {
        Cpu { ours: self.ours + other.ours, machine: self.machine + other.machine }
    }
}

impl Sub for Cpu {
    type Output = Cpu;
    fn sub(self, other: Cpu) -> Cpu {
        Cpu { ours: self.ours - other.ours, machine: self.machine - other.machine }
    }
}

/// Memory programs could still have, in bytes: caches do not count as used.
pub(crate) fn memory_available() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    available_bytes(&text).context("`/proc/meminfo` does not tell what is available")
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Memory that is charged to cgroups of sandboxes among our descendants. `None` where nobody counts it.
pub(crate) fn memory_charged() -> Result<Option<u64>> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let Some(hierarchy) = Hierarchy::of_memory(&mounts) else { return Ok(None) };
    let group = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        hierarchy.group(&text).map(|group| group.trim_start_matches('/').to_owned())
    };
    let processes = processes()?;
    let groups: BTreeSet<String> =
        family(&processes, std::process::id()).filter_map(|(pid, _)| group(pid)).collect();
    let usage = |name: &String| {
        let file = hierarchy.mount.join(name).join(hierarchy.usage);
        std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
    };
    // Whoever serves sandboxes may be in another one than we, which is somebody else's.
    let of_sandbox =
        |name: &&String| name.rsplit('/').next().is_some_and(|name| name.starts_with("sandboxd-"));
    let charged: Vec<u64> = groups.iter().filter(of_sandbox).filter_map(usage).collect();
    Ok((!charged.is_empty()).then(|| charged.iter().sum()))
}

/// Where memory is counted.
struct Hierarchy {
    mount: PathBuf,
    controller: &'static str,
    usage: &'static str,
}

impl Hierarchy {
    fn of_memory(mountinfo: &str) -> Option<Hierarchy> {
        let mounted = |kind: &str, option: &str| {
            mountinfo.lines().find_map(|line| {
                let (left, right) = line.split_once(" - ")?;
                let mut right = right.split(' ');
                let fits = right.next()? == kind
                    && right.nth(1)?.split(',').any(|o| option.is_empty() || o == option);
                fits.then(|| PathBuf::from(left.split(' ').nth(4).unwrap_or_default()))
            })
        };
        let v1 = mounted("cgroup", "memory").map(|mount| Hierarchy {
            mount,
            controller: "memory",
            usage: "memory.usage_in_bytes",
        });
        v1.or_else(|| {
            Some(Hierarchy { mount: mounted("cgroup2", "")?, controller: "", usage: "memory.current" })
        })
    }

    /// The path of a process in it.
    fn group<'a>(&self, memberships: &'a str) -> Option<&'a str> {
        memberships.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let found = parts.next()?.split(',').any(|controller| controller == self.controller);
            parts.next().filter(|_| found)
        })
    }
}

fn processes() -> Result<HashMap<u32, Process>> {
    let mut processes = HashMap::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // One that has just ended was waited for by its parent, which counts it.
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        processes.extend(process(&stat).map(|process| (pid, process)));
    }
    Ok(processes)
}

struct Process {
    parent: u32,
    /// Its own, and of those it has waited for.
    ticks: u64,
}

/// Reads `/proc/PID/stat`. The name, in brackets, may hold anything.
fn process(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let ticks = number(11)? + number(12)? + number(13)? + number(14)?;
    Some(Process { parent: number(1)? as u32, ticks })
}

/// A process and all its descendants.
fn family(processes: &HashMap<u32, Process>, eldest: u32) -> impl Iterator<Item = (u32, &Process)> {
    let is_family = move |mut pid: u32| loop {
        match processes.get(&pid) {
            _ if pid == eldest => return true,
            Some(process) => pid = process.parent,
            None => return false,
        }
    };
    processes.iter().map(|(pid, process)| (*pid, process)).filter(move |(pid, _)| is_family(*pid))
}

/// Everything but idling, and waiting for storage, of the line of all processors. Time of guests is part of the first two.
fn busy_ticks(line: &str) -> Option<u64> {
    let mut fields = line.strip_prefix("cpu ")?.split_whitespace().map(|word| word.parse::<u64>().ok());
    let mut next = || fields.next().flatten();
    let (user, nice, system, _idle, _waiting) = (next()?, next()?, next()?, next()?, next()?);
    let (interrupts, soft) = (next()?, next()?);
    Some(user + nice + system + interrupts + soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_everybody_below_and_nobody_else() {
        let stat = |parent: u32, ticks: [u64; 4]| {
            let [user, system, of_children, of_children_in_kernel] = ticks;
            process(&format!(
                "7 (a) b) S {parent} 1 1 0 -1 4194560 9 9 0 0 {user} {system} {of_children} {of_children_in_kernel} 20 0"
            ))
            .unwrap()
        };
        let processes = HashMap::from([
            (1, stat(0, [5000, 0, 0, 0])),
            (10, stat(1, [1, 2, 3, 4])),
            (11, stat(10, [10, 0, 0, 0])),
            (12, stat(11, [100, 0, 0, 1000])),
            (13, stat(1, [7000, 0, 0, 0])),
        ]);
        let ticks: u64 = family(&processes, 10).map(|(_, process)| process.ticks).sum();
        assert_eq!(ticks, 1120);
    }

    #[test]
    fn idling_is_not_work() {
        assert_eq!(busy_ticks("cpu  1 20 300 4000 50000 600000 7000000 0 0 0"), Some(7_600_321));
        assert_eq!(busy_ticks("cpu0 1 2 3 4 5 6 7"), None);
    }

    #[test]
    fn work_of_ours_and_of_a_child_shows_in_both_counts() {
        let before = Cpu::now().unwrap();
        let code = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh").args(["-c", code]).status().unwrap();
        assert!(status.success());
        let used = Cpu::now().unwrap() - before;
        assert!(used.ours >= TICK_MS && used.machine >= TICK_MS, "{used:?}");
    }

    #[test]
    fn what_is_available_is_neither_free_nor_all() {
        let meminfo = "MemTotal:       24 kB\nMemFree:         3 kB\nMemAvailable:    7 kB\nBuffers:  1 kB\n";
        assert_eq!(available_bytes(meminfo), Some(7 * 1024));
        assert_eq!(available_bytes("MemFree: 3 kB\n"), None);
        assert!(memory_available().is_ok());
    }

    #[test]
    fn memory_is_counted_in_its_own_hierarchy_or_in_the_one_of_all() {
        let hybrid = "34 31 0:31 / /sys/fs/cgroup/memory rw shared:4 - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = Hierarchy::of_memory(hybrid).unwrap();
        assert_eq!(found.mount, PathBuf::from("/sys/fs/cgroup/memory"));
        assert_eq!(found.group("8:pids:/p\n4:cpu,memory:/a:b\n0::/u\n"), Some("/a:b"));
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Hierarchy::of_memory(unified).unwrap();
        assert_eq!((found.mount, found.usage), (PathBuf::from("/sys/fs/cgroup"), "memory.current"));
        let found = Hierarchy::of_memory(unified).unwrap();
        assert_eq!(found.group("0::/user.slice\n"), Some("/user.slice"));
        assert!(Hierarchy::of_memory("20 1 8:1 / / rw - ext4 /dev/vda rw\n").is_none());
    }
}
