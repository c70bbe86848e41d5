//! What a server has standing all the while: processes of its own, and places of its pool, which come and go.
//!
//! A place is known by its PID 1. Those that wait are subtracted by the server's own count, so that what is left is
//! places that ran something and are still there. Nothing else of the server is allowed to become more.

use crate::served::Served;
use crate::support::host;
use crate::traces::began;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct Standing {
    /// The server, and all below it.
    pub(crate) processes: BTreeSet<u32>,
    /// Places that wait for a program.
    pub(crate) waiting: usize,
    /// Uids of all these.
    pub(crate) uids: BTreeSet<u32>,
    /// Names of processes outside of any place.
    outside: Vec<String>,
    places: usize,
    /// How cgroups begin that its spawners made.
    tags: Vec<String>,
}

impl Standing {
    pub(crate) fn of(served: &Served) -> Standing {
        let waiting = served.waiting();
        let all: Vec<u32> = [served.pid()].into_iter().chain(host::descendants(served.pid())).collect();
        let mut standing = Standing { waiting, ..Standing::default() };
        for pid in all {
            // In a namespace of its own a process has a number there, too.
            let numbers = host::status(pid, "NSpid").unwrap_or_default().split_whitespace().count();
            match (numbers, host::inner_pid(pid)) {
                (0, _) => continue,
                (1, _) => {
                    standing.outside.extend(host::status(pid, "Name"));
                    standing.tags.extend(began(pid).map(|start| format!("sandboxd-{pid}-{start}-")));
                }
                (_, Some(1)) => standing.places += 1,
                _ => {}
            }
            standing.uids.extend(host::uids(pid));
            standing.processes.insert(pid);
        }
        standing
    }

    /// Whether a cgroup is one of its places'.
    pub(crate) fn made(&self, cgroup: &str) -> bool {
        let name = cgroup.rsplit('/').next().unwrap_or_default();
        self.tags.iter().any(|tag| name.starts_with(tag.as_str()))
    }

    /// What must not become more, in a line each: places and cgroups beyond those that wait, and its own processes.
    pub(crate) fn traces(&self, cgroups: BTreeSet<String>) -> BTreeSet<String> {
        let mut hierarchies: BTreeMap<&str, usize> = BTreeMap::new();
        for path in &cgroups {
            *hierarchies.entry(path.rsplit_once('/').map_or("", |(dir, _)| dir)).or_default() += 1;
        }
        let beyond = |what: &str, count: usize| -> Vec<String> {
            let extra = count.saturating_sub(self.waiting);
            (1..=extra).map(|number| format!("{what} number {number} beyond those that wait")).collect()
        };
        let mut found: BTreeSet<String> = beyond("place", self.places).into_iter().collect();
        for (dir, count) in hierarchies {
            found.extend(beyond(&format!("cgroup in {dir}"), count));
        }
        let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
        for name in &self.outside {
            let number = counts.entry(name).or_default();
            *number += 1;
            found.insert(format!("process `{name}` number {number}"));
        }
        found
    }
}
