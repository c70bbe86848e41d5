//! The place in which every command of the suite runs when the suite is run by root: an outer cgroup that bounds
//! whatever goes wrong, mounts and a network of its own.
//!
//! `sandboxd` makes its cgroups at the top of each hierarchy, wherever it runs itself. So that they lie in the outer
//! one nevertheless, the commands see the outer one mounted in place of the top. The network stands for the one a
//! host would have: every address in it is local, so that a packet that leaves a sandbox for anywhere arrives at our
//! listeners, is counted, and goes no further.

use crate::traces::began;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const MEMORY: &str = "2147483648";
const PIDS: &str = "1000";
/// Limits of the outer cgroup, for people.
pub(crate) const BOUNDS: &str = "2 GiB of memory, 1000 processes";
/// An address as a host would have in its LAN; from the range kept for documentation.
pub(crate) const LAN: &str = "192.0.2.1";

/// On v2, the cgroup of the commands themselves, beside those that they make.
const LEAF: &str = "command";

pub(crate) struct Outer {
    holder: Child,
    version: &'static str,
    /// The outer cgroup in each hierarchy.
    groups: Vec<PathBuf>,
    memory: PathBuf,
    enter: Vec<String>,
}

impl Outer {
    pub(crate) fn make() -> Result<Outer, String> {
        let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").map_err(|e| e.to_string())?;
        let tops = v1(&mountinfo).or_else(|| v2(&mountinfo)).ok_or("no cgroup hierarchy is mounted")?;
        let me = std::process::id();
        let name = format!("attacks-{me}-{}", began(me).unwrap_or(0));
        sweep(&tops.all);
        let mut groups = Vec::new();
        let made = tops.all.iter().try_for_each(|top| {
            let group = top.join(&name);
            std::fs::create_dir(&group).map_err(|e| format!("{}: {e}", group.display()))?;
            groups.push(group);
            Ok(())
        });
        let memory = tops.memory.join(&name);
        let bounded =
            made.and_then(|()| bound(&tops, &name)).and_then(|doors| hold(&tops.all, &name, &doors));
        match bounded {
            Ok((holder, enter)) => Ok(Outer { holder, version: tops.version, groups, memory, enter }),
            Err(why) => {
                groups.iter().for_each(|group| remove(group));
                Err(why)
            }
        }
    }

    /// Words that join the outer cgroup, enter the mounts and the network, and execute what follows.
    pub(crate) fn enter(&self) -> &[String] {
        &self.enter
    }

    /// The process that keeps mounts and network alive.
    pub(crate) fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// Cgroups that commands have made and not removed.
    pub(crate) fn cgroups(&self) -> BTreeSet<String> {
        let made = self.groups.iter().flat_map(|group| children(group));
        made.filter(|path| !path.ends_with(LEAF)).map(|path| path.display().to_string()).collect()
    }

    /// Mounts that commands see, and would leave behind.
    pub(crate) fn mounts(&self) -> BTreeSet<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/mountinfo", self.holder())).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Bytes of shared memory and tmpfs files that commands have made and not freed.
    pub(crate) fn shared_memory(&self) -> u64 {
        let text = std::fs::read_to_string(self.memory.join("memory.stat")).unwrap_or_default();
        let key = if self.version == "v1" { "total_shmem " } else { "shmem " };
        text.lines().find_map(|line| line.strip_prefix(key)?.parse().ok()).unwrap_or(0)
    }

    /// Packets that any command has sent into the network.
    pub(crate) fn packets(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/net/dev", self.holder())).unwrap_or_default();
        let counts = text.lines().filter_map(|line| line.split_once(':')).map(|(_, counts)| counts);
        counts.filter_map(|counts| counts.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        self.groups.iter().for_each(|group| remove(group));
    }
}

struct Tops {
    version: &'static str,
    all: Vec<PathBuf>,
    memory: PathBuf,
    pids: PathBuf,
}

fn v1(mountinfo: &str) -> Option<Tops> {
    let find = |controller: &str| {
        mounts(mountinfo).find_map(|(path, kind, options)| {
            (kind == "cgroup" && options.split(',').any(|o| o == controller)).then_some(path)
        })
    };
    let (memory, pids) = (find("memory")?, find("pids")?);
    let mut all = vec![memory.clone(), pids.clone(), find("cpu")?, find("cpuacct")?];
    all.sort();
    all.dedup();
    Some(Tops { version: "v1", all, memory, pids })
}

fn v2(mountinfo: &str) -> Option<Tops> {
    let top = mounts(mountinfo).find_map(|(path, kind, _)| (kind == "cgroup2").then_some(path))?;
    Some(Tops { version: "v2", all: vec![top.clone()], memory: top.clone(), pids: top })
}

/// Mount point, file system and options of the file system.
fn mounts(mountinfo: &str) -> impl Iterator<Item = (PathBuf, &str, &str)> {
    mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        Some((left.split(' ').nth(4)?.into(), right.next()?, right.nth(1)?))
    })
}

/// Sets the limits. Returns the files a process writes itself into.
fn bound(tops: &Tops, name: &str) -> Result<Vec<PathBuf>, String> {
    let write = |path: PathBuf, text: &str| {
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    let (memory, pids) = (tops.memory.join(name), tops.pids.join(name));
    const CONTROLLERS: &str = "+memory +pids +cpu";
    if tops.version == "v2" {
        write(tops.memory.join("cgroup.subtree_control"), CONTROLLERS)?;
    }
    write(pids.join("pids.max"), PIDS)?;
    if tops.version == "v1" {
        write(memory.join("memory.limit_in_bytes"), MEMORY)?;
        let swap = memory.join("memory.memsw.limit_in_bytes");
        if swap.exists() {
            write(swap, MEMORY)?;
        }
        // A process that writes to `tasks` moves itself alone, which stops nobody else's forks.
        return Ok(tops.all.iter().map(|top| top.join(name).join("tasks")).collect());
    }
    write(memory.join("memory.max"), MEMORY)?;
    let swap = memory.join("memory.swap.max");
    if swap.exists() {
        write(swap, "0")?;
    }
    write(memory.join("cgroup.subtree_control"), CONTROLLERS)?;
    // A cgroup whose children are bounded may hold no process itself.
    let leaf = memory.join(LEAF);
    std::fs::create_dir(&leaf).map_err(|e| format!("{}: {e}", leaf.display()))?;
    Ok(vec![leaf.join("cgroup.procs")])
}

/// Makes mounts and network, and a process that holds them as long as we live.
fn hold(tops: &[PathBuf], name: &str, doors: &[PathBuf]) -> Result<(Child, Vec<String>), String> {
    let mut script = String::from("set -e\nip link set lo up\n");
    script += &format!("ip address add {LAN}/24 dev lo\nip route add local default dev lo\n");
    // A host may have no IPv6, or have it switched off.
    if std::fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6").is_ok_and(|off| off.trim() == "0") {
        script += "ip -6 route add local default dev lo\n";
    }
    for top in tops {
        let top = top.display();
        script += &format!("mount --bind '{top}/{name}' '{top}'\n");
    }
    // It ends when we do, because then nobody holds the other end of its input.
    script += "echo ready\nexec cat > /dev/null\n";
    let words = ["--mount", "--net", "--propagation", "private", "--", "sh", "-c", &script];
    let mut command = Command::new("unshare");
    command.args(words).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut holder = command.spawn().map_err(|e| format!("unshare: {e}"))?;
    let mut line = String::new();
    if let Some(stdout) = holder.stdout.take() {
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    if line != "ready\n" {
        let _ = holder.kill();
        let out = holder.wait_with_output().map_err(|e| e.to_string())?;
        return Err(String::from_utf8_lossy(&out.stderr).trim().replace('\n', "; "));
    }
    let pid = holder.id();
    let join: String = doors.iter().map(|door| format!("echo 0 > '{}' && ", door.display())).collect();
    let enter = format!("{join}exec nsenter --mount=/proc/{pid}/ns/mnt --net=/proc/{pid}/ns/net -- \"$@\"");
    Ok((holder, ["sh", "-c", &enter, "sh"].map(str::to_owned).to_vec()))
}

/// Kills what is left in a cgroup of ours and removes it.
fn remove(group: &Path) {
    let mut all = vec![group.to_owned()];
    all.extend(children(group));
    for dir in all.iter().rev() {
        for _ in 0..100 {
            let text = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            for pid in text.lines().filter_map(|line| rustix::process::Pid::from_raw(line.parse().ok()?)) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            if std::fs::remove_dir(dir).is_ok() || !dir.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Removes what a suite that was killed has left.
fn sweep(tops: &[PathBuf]) {
    for group in tops.iter().flat_map(|top| children(top)) {
        let name = group.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let maker = name.strip_prefix("attacks-").and_then(|rest| rest.split_once('-'));
        let numbers =
            maker.and_then(|(pid, start)| Some((pid.parse::<u32>().ok()?, start.parse::<u64>().ok()?)));
        if numbers.is_some_and(|(pid, start)| began(pid) != Some(start)) {
            remove(&group);
        }
    }
}

/// Directories in a cgroup.
fn children(group: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(group).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| entry.path()).collect()
}
