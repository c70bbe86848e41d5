//! What a server has standing all the while: processes of its own, and places of its pool, which come and go.
//!
//! A place is known by its PID 1. Those that wait are subtracted by the server's own count, so that what is left is
//! places that ran something and are still there. Of what spawners begin ahead nothing has run yet: its PID 1 is still
//! called like the spawner, and alone.

use crate::served::Served;
use crate::support::host;
use crate::traces::began;
use std::collections::{BTreeMap, BTreeSet};

/// What PID 1 is called once a place is made.
const INIT: &str = "sandbox-init";

#[derive(Default)]
pub(crate) struct Standing {
    /// The server, and all below it.
    pub(crate) processes: BTreeSet<u32>,
    /// Places that wait for a program, as the server counts them.
    pub(crate) waiting: usize,
    /// Uids of all these.
    pub(crate) uids: BTreeSet<u32>,
    /// Places that are begun ahead.
    ahead: usize,
    /// All others.
    places: usize,
    /// Names of processes outside of any place that the server has not started itself.
    outside: Vec<String>,
    /// How cgroups begin that its spawners made.
    tags: Vec<String>,
}

impl Standing {
    pub(crate) fn of(served: &Served) -> Standing {
        let mut standing = Standing { waiting: served.waiting(), ..Standing::default() };
        let spawners = spawners(served.pid());
        for pid in [served.pid()].into_iter().chain(host::descendants(served.pid())) {
            let name = name(pid);
            match (numbers(pid), host::inner_pid(pid)) {
                (0, _) => continue,
                (1, _) if pid == served.pid() => {}
                (1, _) if spawners.contains(&pid) => {
                    standing.tags.extend(began(pid).map(|start| format!("sandboxd-{pid}-{start}-")));
                }
                (1, _) => standing.outside.push(name),
                (_, Some(1)) if name != INIT && host::children(pid).is_empty() => standing.ahead += 1,
                (_, Some(1)) => standing.places += 1,
                _ => {}
            }
            standing.uids.extend(host::uids(pid));
            standing.processes.insert(pid);
        }
        standing
    }

    /// Places in which nothing has run: those that wait, and those that are begun ahead.
    pub(crate) fn fresh(&self) -> usize {
        self.waiting + self.ahead
    }

    /// Whether a cgroup is one of its places'.
    pub(crate) fn made(&self, cgroup: &str) -> bool {
        let name = cgroup.rsplit('/').next().unwrap_or_default();
        self.tags.iter().any(|tag| name.starts_with(tag.as_str()))
    }

    /// What must not become more, in a line each: places and cgroups in which something ran, and processes.
    pub(crate) fn traces(&self, cgroups: &BTreeSet<String>) -> BTreeSet<String> {
        let mut hierarchies: BTreeMap<&str, usize> = BTreeMap::new();
        for path in cgroups {
            *hierarchies.entry(path.rsplit_once('/').map_or("", |(dir, _)| dir)).or_default() += 1;
        }
        let used = |what: &str, count: usize, fresh: usize| -> Vec<String> {
            let used = count.saturating_sub(fresh);
            (1..=used).map(|number| format!("{what} number {number} in which something ran")).collect()
        };
        let mut found: BTreeSet<String> = used("place", self.places, self.waiting).into_iter().collect();
        for (dir, count) in hierarchies {
            found.extend(used(&format!("cgroup in {dir}"), count, self.fresh()));
        }
        found.extend(self.outside.iter().map(|name| format!("process `{name}`")));
        found
    }
}

/// In a namespace of its own a process has a number there, too.
fn numbers(pid: u32) -> usize {
    host::status(pid, "NSpid").unwrap_or_default().split_whitespace().count()
}

fn name(pid: u32) -> String {
    host::status(pid, "Name").unwrap_or_default()
}

/// Who makes places: whom the server has started, and loaded interpreters that are copies of those.
fn spawners(server: u32) -> Vec<u32> {
    let mut all = host::children(server);
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        let copy = |pid: &u32| numbers(*pid) == 1 && name(*pid) == name(parent);
        all.extend(host::children(parent).into_iter().filter(copy));
        at += 1;
    }
    all
}
