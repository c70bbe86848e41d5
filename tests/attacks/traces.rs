//! What a run could leave on the host. Only what a run of ours can have left is looked at, so that nothing else that
//! happens on the host makes a case fail.

use crate::outer::Outer;
use crate::served::Served;
use crate::standing::Standing;
use crate::support::host;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

/// The first uid that belongs to sandboxes alone.
const FIRST_UID: u32 = 2_010_000_000;
const FILE: &str = "file";
const SEGMENT: &str = "System V object";
/// How a line about keys ends.
pub(crate) const KEYS: &str = "keys";
/// Pages may go back a moment late, and the kernel counts in batches.
const SHARED_MEMORY: u64 = 2 << 20;
/// What a place of a pool has in it before anything ran there.
const OF_A_PLACE: u64 = 1 << 20;

#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {
    /// Kind of trace, and every one of it.
    sets: BTreeMap<&'static str, BTreeSet<String>>,
    keys: u64,
    shared_memory: u64,
    /// Places of a server in which nothing has run.
    fresh: u64,
}

/// Where to look.
pub(crate) struct Scene<'a> {
    pub(crate) outer: Option<&'a Outer>,
    /// Home of the one who runs the commands.
    pub(crate) home: PathBuf,
    /// Their temporary directory.
    pub(crate) temporary: PathBuf,
    /// Their uid.
    pub(crate) uid: u32,
    /// Children that live all the while.
    pub(crate) children: Vec<u32>,
    /// Uids of sandboxes that ran.
    pub(crate) sandboxes: Vec<u32>,
    /// The server, if one runs the cases.
    pub(crate) served: Option<Rc<Served>>,
}

impl Scene<'_> {
    pub(crate) fn traces(&self) -> Traces {
        // While traces are looked at, no command is running, so that all the dead but these are orphans.
        reap(|pid| !self.children.contains(&pid));
        let mut below = host::descendants(std::process::id());
        let standing = self.served.as_ref().map(|served| Standing::of(served));
        let standing = standing.unwrap_or_default();
        below.retain(|pid| !standing.processes.contains(pid));
        let (theirs, cgroups): (BTreeSet<_>, BTreeSet<_>) =
            self.cgroups().into_iter().partition(|path| standing.made(path));
        let sets = BTreeMap::from([
            ("of the server:", standing.traces(&theirs)),
            ("process", below.iter().filter_map(|pid| shown(*pid)).collect()),
            ("thread", below.iter().flat_map(|pid| threads(*pid)).collect()),
            ("network namespace", below.iter().filter_map(|pid| network(*pid)).collect()),
            ("cgroup", cgroups),
            ("mount", self.outer.map_or_else(|| lines("/proc/self/mountinfo"), Outer::mounts)),
            (FILE, self.files()),
            (SEGMENT, self.segments()),
        ]);
        let shared_memory = self.outer.map_or_else(host_shared_memory, Outer::shared_memory);
        Traces { sets, keys: self.keys(&standing), shared_memory, fresh: standing.fresh() as u64 }
    }

    fn cgroups(&self) -> BTreeSet<String> {
        if let Some(outer) = self.outer {
            return outer.cgroups();
        }
        // Only where they were delegated to this user can there be any.
        let mut found = host::directories_named("sandboxd-", Path::new("/sys/fs/cgroup"));
        found.retain(|path| std::fs::metadata(path).is_ok_and(|meta| meta.uid() == self.uid));
        found.into_iter().collect()
    }

    /// Temporary files, files at home that are no cache, drafts of caches, and whatever belongs to a sandbox.
    fn files(&self) -> BTreeSet<String> {
        let cache = self.home.join(".cache/sandboxd");
        let mut found: BTreeSet<PathBuf> = below(&self.temporary, &|_| true).into_iter().collect();
        found.extend(below(&self.home, &|path| path != cache));
        let drafts = below(&cache, &|path| path.components().count() < cache.components().count() + 3);
        found.extend(drafts.into_iter().filter(|path| path.to_string_lossy().contains("draft")));
        found.extend(entries(Path::new("/run/sandboxd")));
        let shared = ["/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run"];
        let foreign =
            |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() >= FIRST_UID);
        found.extend(shared.iter().flat_map(|dir| entries(Path::new(dir))).filter(foreign));
        found.into_iter().map(|path| path.display().to_string()).collect()
    }

    /// Those of this user, or of the sandboxes of root: kind, key and id.
    fn segments(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (kind, maker) in [("shm", Some("cpid")), ("sem", None), ("msg", None)] {
            let text = std::fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            let mut rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let head = rows.next().unwrap_or_default();
            let number = |row: &[&str], name: Option<&str>| {
                let column = head.iter().position(|column| Some(*column) == name)?;
                row.get(column)?.parse::<u32>().ok()
            };
            for row in rows {
                let ours = number(&row, Some("uid"))
                    .is_some_and(|uid| if self.uid == 0 { uid >= FIRST_UID } else { uid == self.uid });
                // Somebody who lives and is not below us made it: another suite, at the same time.
                let strange = number(&row, maker).is_some_and(|pid| {
                    began(pid).is_some() && !host::descendants(std::process::id()).contains(&pid)
                });
                if ours && !strange {
                    found.insert(format!("{kind} {}", row[..2].join(" ")));
                }
            }
        }
        found
    }

    /// Keys of this user, or of the sandboxes of root: how many the kernel counts.
    fn keys(&self, standing: &Standing) -> u64 {
        let text = std::fs::read_to_string("/proc/key-users").unwrap_or_default();
        let count = |line: &str| {
            let (uid, rest) = line.split_once(':')?;
            let uid: u32 = uid.trim().parse().ok()?;
            let ours = (self.sandboxes.contains(&uid) && !standing.uids.contains(&uid))
                || (uid == self.uid && uid != 0);
            let keys = rest.split_whitespace().nth(1)?.split('/').next()?.parse::<u64>().ok()?;
            ours.then_some(keys)
        };
        text.lines().filter_map(count).sum()
    }
}

impl Traces {
    /// What is there now and was not before, in a line each.
    pub(crate) fn since(&self, before: &Traces) -> Vec<String> {
        let mut left = Vec::new();
        for (kind, now) in &self.sets {
            let then = before.sets.get(kind).cloned().unwrap_or_default();
            left.extend(now.difference(&then).map(|trace| format!("{kind} {trace}")));
            // What has vanished is as bad as what was left, where nobody else could have removed it.
            let then = if *kind == SEGMENT { BTreeSet::new() } else { then };
            left.extend(then.difference(now).map(|trace| format!("{kind} {trace}, which is gone")));
        }
        // Each place has a keyring.
        if self.keys.saturating_sub(self.fresh) > before.keys.saturating_sub(before.fresh) {
            left.push(format!("{} instead of {} {KEYS}", self.keys, before.keys));
        }
        let fresh = self.fresh.abs_diff(before.fresh) * OF_A_PLACE;
        if self.shared_memory.abs_diff(before.shared_memory) > SHARED_MEMORY + fresh {
            left.push(format!(
                "{} bytes of shared memory instead of {}",
                self.shared_memory, before.shared_memory
            ));
        }
        left
    }

    /// Processes that are there now and were not before.
    fn processes_since(&self, before: &Traces) -> Vec<Pid> {
        let of = |traces: &Traces| traces.sets.get("process").cloned().unwrap_or_default();
        let pid = |shown: &String| Pid::from_raw(shown.split(' ').next()?.parse().ok()?);
        of(self).difference(&of(before)).filter_map(pid).collect()
    }

    pub(crate) fn has_processes_since(&self, before: &Traces) -> bool {
        !self.processes_since(before).is_empty()
    }

    pub(crate) fn end_processes_since(&self, before: &Traces, signal: Signal) {
        for pid in self.processes_since(before) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Removes what was left where nobody else would: System V objects, and what sandboxes own in shared directories.
    pub(crate) fn remove_since(&self, before: &Traces) {
        let new = |kind: &str| {
            let of = |traces: &Traces| traces.sets.get(kind).cloned().unwrap_or_default();
            of(self).difference(&of(before)).cloned().collect::<Vec<_>>()
        };
        for segment in new(SEGMENT) {
            let words: Vec<&str> = segment.split(' ').collect();
            let flag = match words[0] {
                "shm" => "-m",
                "sem" => "-s",
                _ => "-q",
            };
            let _ = Command::new("ipcrm").args([flag, words[2]]).output();
        }
        let sandbox =
            |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() >= FIRST_UID);
        for path in new(FILE).into_iter().map(PathBuf::from).filter(sandbox) {
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
    }

    /// The same without one kind.
    pub(crate) fn without(mut self, kind: &str) -> Traces {
        self.sets.retain(|name, _| *name != kind);
        self
    }
}

/// Waits, all the while, for the dead that come to us as orphans; until then each of them counts as a process of the
/// outer cgroup. Those we started ourselves are of our session, and have somebody who waits for them.
pub(crate) fn reap_orphans() {
    let ours = session(std::process::id());
    std::thread::spawn(move || {
        loop {
            reap(|pid| session(pid) != ours);
            std::thread::sleep(Duration::from_millis(200));
        }
    });
}

/// Waits for those of our children that are dead and that nobody else waits for.
fn reap(orphan: impl Fn(u32) -> bool) {
    for pid in host::children(std::process::id()) {
        let dead = host::status(pid, "State").is_some_and(|state| state.starts_with('Z'));
        if dead && orphan(pid) {
            let _ = waitpid(Pid::from_raw(pid as i32), WaitOptions::NOHANG);
        }
    }
}

fn session(pid: u32) -> Option<u64> {
    stat(pid, 3)
}

/// When a process began, in clock ticks since the host did.
pub(crate) fn began(pid: u32) -> Option<u64> {
    stat(pid, 19)
}

/// A number of a process's line, counted from the one behind its name.
fn stat(pid: u32, field: usize) -> Option<u64> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    line.rsplit_once(") ")?.1.split(' ').nth(field)?.parse().ok()
}

fn shown(pid: u32) -> Option<String> {
    Some(format!("{pid} began at {} `{}`", began(pid)?, host::status(pid, "Name").unwrap_or_default()))
}

fn threads(pid: u32) -> Vec<String> {
    let tasks = entries(Path::new(&format!("/proc/{pid}/task")));
    tasks.into_iter().map(|task| task.display().to_string()).collect()
}

fn network(pid: u32) -> Option<String> {
    Some(std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()?.display().to_string())
}

fn lines(path: &str) -> BTreeSet<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn host_shared_memory() -> u64 {
    let lines = lines("/proc/meminfo");
    let line = lines.iter().find_map(|line| line.strip_prefix("Shmem:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Every file and directory below, without those that are not wanted and what they contain.
pub(crate) fn below(dir: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = vec![dir.to_owned()];
    while let Some(dir) = next.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if wanted(&path) {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    next.push(path.clone());
                }
                found.push(path);
            }
        }
    }
    found
}
