//! KS-17: processes of a sandbox as the host sees them.

use crate::stage::Stage;
use crate::support::{Running, host};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
/// Of the ids that sandboxes of root get.
const FIRST_RESERVED: u32 = 2_010_000_000;

/// Threads, a child, a daemon and another program, all waiting to be looked at.
const CROWD: &str = "\
import os, signal, subprocess, threading
subprocess.Popen(['sleep', '60'])
subprocess.Popen(['sh', '-c', 'tail -f /dev/null; :'])
for _ in range(2): threading.Thread(target=signal.pause, daemon=True).start()
hears, says = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    os.write(says, b'!')
    signal.pause()
os.read(hears, 1)
print('ready', flush=True)
signal.pause()
";

/// Takes long enough to compile that its compiler can be looked at.
const HEAVY: &str = "\
#include <iostream>
#include <map>
#include <string>
int main() {
    std::map<std::string, int> seen;
    seen[\"two\"]++;
    for (const auto &one : seen) std::cout << one.first << ' ' << one.second << std::endl;
}
";

pub(super) fn outside(stage: &Stage) -> Result<(), String> {
    let running = crowd(stage);
    let (first, others) = inhabitants(&running);
    let looked: BTreeSet<String> = others.iter().filter_map(|pid| host::program(*pid)).collect();
    let mut wrong: Vec<String> =
        others.iter().flat_map(|pid| stripped(*pid, stage.person.is_root())).collect();
    // PID 1 has no filter: it makes no call that a program chooses. But it is nobody outside, and stays so.
    wrong.extend(is(first, "NoNewPrivs", "1").into_iter().chain(nobody(first, stage.person.is_root())));
    if others.len() < 5 || !looked.contains("sleep") || threads(others[0]).len() < 3 {
        wrong.push(format!("only {} processes ({looked:?}) were there to look at", others.len()));
    }
    verdict(wrong)
}

/// Every process there is while a compiler runs, looked at again and again.
pub(super) fn while_compiling(stage: &Stage) -> Result<(), String> {
    let folder = stage.person.folder();
    // In a home of its own nothing is compiled yet.
    let person = stage.person.clone().living_in(folder.path());
    let mut running = person.run("cpp", HEAVY).options("--quiet --timeout 60s").start();
    let (mut wrong, mut looked) = (BTreeSet::new(), BTreeSet::new());
    let deadline = Instant::now() + Duration::from_secs(60);
    while running.is_running() && Instant::now() < deadline {
        for pid in host::descendants(running.pid()) {
            // Who has become another program has climbed the whole ladder; a fork of PID 1 may still be on it.
            let Some(program) = host::program(pid).filter(|name| inside(pid) && name != "sandboxd") else {
                continue;
            };
            wrong.extend(stripped(pid, person.is_root()));
            looked.insert(program);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let out = running.out(Duration::from_secs(60));
    stage.show(&out.stdout);
    out.exits(0).says("two 1\n");
    if !looked.iter().any(|name| name.contains("cc1plus")) {
        wrong.insert(format!("the compiler was never seen, only {looked:?}"));
    }
    verdict(wrong.into_iter().collect())
}

/// Sandboxes of root share no uid; those of a plain user all have the user's own, and say so.
pub(super) fn of_several(stage: &Stage) -> Result<(), String> {
    let several: Vec<Running> = (0..5).map(|_| crowd(stage)).collect();
    let uids: Vec<BTreeSet<u32>> = several.iter().map(uids).collect();
    let together: BTreeSet<u32> = uids.iter().flatten().copied().collect();
    let record = stage.person.run("python", "print(1)").json();
    record.is("success");
    let unique = record["isolation"]["host_uid_unique"] == true;
    let told = record["isolation"]["degraded"].to_string();
    match stage.person.is_root() {
        true if together.len() != uids.iter().map(BTreeSet::len).sum::<usize>() => {
            Err(format!("sandboxes share uids: {uids:?}"))
        }
        true if !unique => Err("the record does not say that the uid is unique".into()),
        false if together.len() != 1 => Err(format!("uids {uids:?}, not the user's own")),
        false if unique || !told.contains("shared-uid") => {
            Err(format!("a shared uid, of which the record says {told}"))
        }
        _ => Ok(()),
    }
}

fn crowd(stage: &Stage) -> Running {
    let running = stage.person.run("python", CROWD).options("--timeout 60s").start();
    running.until_it_says("ready");
    // The daemon is there; the child, and the shell's, may still be on their way.
    running.until_it_runs("sleep");
    running.until_it_runs("tail");
    running
}

/// PID 1 and all others.
fn inhabitants(running: &Running) -> (u32, Vec<u32>) {
    let all: Vec<u32> = host::descendants(running.pid()).into_iter().filter(|pid| inside(*pid)).collect();
    let (first, others) = all.into_iter().partition::<Vec<u32>, _>(|pid| host::inner_pid(*pid) == Some(1));
    assert_eq!(first.len(), 1, "one PID 1");
    (first[0], others)
}

fn inside(pid: u32) -> bool {
    let own = std::fs::read_link("/proc/self/ns/pid").ok();
    std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok().is_some_and(|namespace| Some(namespace) != own)
}

fn uids(running: &Running) -> BTreeSet<u32> {
    let (first, others) = inhabitants(running);
    others.into_iter().chain([first]).flat_map(host::uids).collect()
}

fn threads(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// What is wrong with user code. Somebody who has ended is right.
fn stripped(pid: u32, root: bool) -> Vec<String> {
    let mut wrong = nobody(pid, root);
    for thread in threads(pid) {
        wrong.extend(is(thread, "Seccomp", "2"));
        wrong.extend(is(thread, "NoNewPrivs", "1"));
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            wrong.extend(is(thread, set, "0000000000000000"));
        }
    }
    wrong
}

/// What is wrong with ids and namespaces.
fn nobody(pid: u32, root: bool) -> Vec<String> {
    let who = host::program(pid).unwrap_or_default();
    let mut wrong = Vec::new();
    for uid in host::uids(pid) {
        if uid == 0 || (root && uid < FIRST_RESERVED) {
            wrong.push(format!("{who} has uid {uid} outside"));
        }
    }
    for map in ["uid_map", "gid_map"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/{map}")).unwrap_or_default();
        if text.lines().any(|line| line.split_whitespace().nth(1) == Some("0")) {
            wrong.push(format!("{who} has 0 in its {map}: {text}"));
        }
    }
    for kind in NAMESPACES {
        let of = |pid: &str| std::fs::read_link(Path::new("/proc").join(pid).join("ns").join(kind)).ok();
        let theirs = of(&pid.to_string());
        if theirs.is_some() && theirs == of("self") {
            wrong.push(format!("{who} shares the {kind} namespace of the host"));
        }
    }
    wrong
}

fn is(pid: u32, field: &str, wanted: &str) -> Option<String> {
    let value = host::status(pid, field).filter(|value| value != wanted)?;
    let who = host::program(pid).unwrap_or_default();
    Some(format!("{field} of {who} is {value}, not {wanted}"))
}

fn verdict(wrong: Vec<String>) -> Result<(), String> {
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
