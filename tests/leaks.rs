//! Whatever happens to a run, nothing of it is left: no process, cgroup, mount, key, segment or temporary file.
#![cfg(test)]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{Running, Sandboxd, alone, host, in_parallel};

const RUNS: usize = 200;

/// What the host shows that a run could leave behind, beside processes and cgroups.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    mounts: BTreeSet<String>,
    segments: BTreeSet<String>,
    temporary: BTreeSet<String>,
    slots: BTreeSet<String>,
}

impl Traces {
    fn now(temporary: &Path) -> Traces {
        let lines = |path: &str| {
            std::fs::read_to_string(path)
                .unwrap_or_default()
                .lines()
                .map(str::to_owned)
                .collect::<BTreeSet<_>>()
        };
        // The identity of a segment, not the times and counters behind it.
        let ids = |path: &str| {
            lines(path)
                .iter()
                .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        };
        let names = |path: &Path| {
            std::fs::read_dir(path)
                .into_iter()
                .flatten()
                .flatten()
                .map(|e| e.path().display().to_string())
                .collect()
        };
        Traces {
            mounts: lines("/proc/self/mountinfo"),
            segments: ["shm", "sem", "msg"]
                .iter()
                .flat_map(|kind| ids(&format!("/proc/sysvipc/{kind}")))
                .collect(),
            temporary: names(temporary),
            slots: names(Path::new("/run/sandboxd")),
        }
    }
}

fn keys() -> usize {
    std::fs::read_to_string("/proc/keys").unwrap_or_default().lines().count()
}

/// When a process began, in clock ticks since the host did.
fn began(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

fn now_in_ticks() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    (uptime.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 100.0) as u64
}

/// Processes of sandboxes and of our binaries that began in this time and still live.
fn left_over(from: u64, to: u64) -> Vec<String> {
    let ours = Sandboxd::plain().binary("");
    let network = std::fs::read_link("/proc/self/ns/net").unwrap();
    let strange = |pid: &u32| {
        let in_time = began(*pid).is_some_and(|at| (from..=to).contains(&at));
        let sandboxed = host::uids(*pid).iter().any(|uid| *uid >= 2_010_000_000);
        let own = std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| path.starts_with(&ours));
        let elsewhere = std::fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|net| net != network);
        in_time && (sandboxed || own || elsewhere)
    };
    let shown = |pid: u32| format!("{pid} {:?} {:?}", host::status(pid, "Name"), host::uids(pid));
    host::processes().into_iter().filter(strange).map(shown).collect()
}

/// Cgroups of ours whose maker is dead.
fn orphaned_cgroups() -> Vec<String> {
    let mut found = host::directories_named("sandboxd-", Path::new("/sys/fs/cgroup"));
    found.retain(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let maker = name.split('-').nth(1).and_then(|pid| pid.parse::<u32>().ok());
        maker.is_none_or(|pid| began(pid).is_none())
    });
    found
}

/// Asks until the answer is empty, for two seconds.
fn soon_empty<T: std::fmt::Debug>(what: &str, ask: impl Fn() -> Vec<T>) {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let left = ask();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{what} left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A moment that differs from run to run, and is the same each time the tests are run.
fn moment(n: usize) -> Duration {
    Duration::from_millis((n as u64).wrapping_mul(2_654_435_761) % 97)
}

fn one_of_many(n: usize, who: &Sandboxd) {
    let python = |code: &str, options: &str| who.run("python", code).options(options).json();
    let interrupted = |options: &str, signal| {
        let code =
            "import os, time\nfor _ in range(3): os.fork()\nopen(f'{os.getpid()}', 'w')\ntime.sleep(60)";
        let running = who.run("python", code).options(options).start();
        std::thread::sleep(moment(n));
        running.signal(signal);
        let out = running.out(Duration::from_secs(30));
        out.never_panics().ends_within(10);
    };
    match n % 14 {
        0 => {
            python("print(1)", "").is("success").exits(0);
        }
        1 => {
            python("raise SystemExit(3)", "").is("failed").exits(3);
        }
        2 => {
            python("import os, time\nos.fork()\ntime.sleep(60)", "--timeout 200ms")
                .is("timed_out")
                .exits(124);
        }
        3 => {
            let record = python("x = b'x' * (100 << 20)", "--memory 64M");
            record.must(record.out.code != 0, "a failure");
        }
        4 => {
            python("import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(60)", "--pids 9")
                .exits(1);
        }
        5 => {
            python("open('x', 'wb').write(b'x' * (3 << 20))", "--disk 2M").is("disk_limit").exits(1);
        }
        6 => interrupted("", Signal::TERM),
        7 => interrupted("", Signal::KILL),
        8 => interrupted("--json", Signal::INT),
        9 => {
            python("import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)", "")
                .is("success")
                .exits(0);
        }
        10 => {
            python("import ctypes\nc = ctypes.CDLL(None)\nprint(c.shmget(1, 4096, 0o1600) >= 0, c.semget(1, 1, 0o1600) >= 0)", "").is("success").exits(0);
        }
        11 => {
            who.run("c", "int main(void) { return 0; }").json().is("success").exits(0);
        }
        12 => {
            python("print(1)", "--unsafe-no-isolation").is("success").exits(0);
        }
        _ => interrupted("--unsafe-no-isolation -q", Signal::TERM),
    }
}

#[test]
fn two_hundred_mixed_runs_leave_nothing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let everybody: Vec<Sandboxd> =
        Sandboxd::everybody().into_iter().map(|who| who.with("TMPDIR", folder.path().display())).collect();
    for who in &everybody {
        who.run("python", "print(1)").json().is("success");
    }
    let (before, keys_before, from) = (Traces::now(folder.path()), keys(), now_in_ticks());
    let numbers: Vec<usize> = (0..RUNS).collect();
    // Everybody meets every kind: the kinds repeat by 14, the people by 14 runs.
    let failures = in_parallel(&numbers, |n| {
        one_of_many(*n, &everybody[n / 14 % everybody.len()]);
        Ok(())
    });
    let to = now_in_ticks();
    assert!(failures.is_empty(), "{} of {RUNS}\n{}", failures.len(), failures.join("\n\n"));
    soon_empty("processes", || left_over(from, to));
    // What a spawner that was killed could not remove, the next one does.
    for who in &everybody {
        who.run("python", "print(1)").json().is("success");
    }
    soon_empty("cgroups", orphaned_cgroups);
    assert_eq!(Traces::now(folder.path()), before);
    assert!(keys() <= keys_before, "keys were left: {} instead of {keys_before}", keys());
}

/// A program of several processes, in the middle of its work.
fn busy(who: &Sandboxd, options: &str) -> (Running, Vec<u32>) {
    let code = "import os, time\nfor _ in range(2): os.fork()\nprint('ready', flush=True)\ntime.sleep(600)";
    let running = who.run("python", code).options("--timeout 10m").options(options).start();
    running.until_it_says("ready\nready\nready\nready\n");
    let below = host::descendants(running.pid());
    assert!(below.len() >= 5, "four processes and their executor, not {below:?}");
    (running, below)
}

/// Those that live; the dead that nobody has waited for yet do not count.
fn living(pids: &[u32]) -> Vec<u32> {
    pids.iter()
        .copied()
        .filter(|pid| host::status(*pid, "State").is_some_and(|state| !state.starts_with(['Z', 'X'])))
        .collect()
}

#[test]
fn killing_sandboxd_kills_every_process_of_its_sandboxes() {
    let _alone = alone();
    for who in Sandboxd::everybody() {
        // Nobody is left to remove what a run without isolation had there.
        let folder = who.folder();
        let who = who.with("TMPDIR", folder.path().display());
        for options in ["", "--unsafe-no-isolation -q"] {
            let (running, below) = busy(&who, options);
            running.signal(Signal::KILL);
            soon_empty(&format!("processes of {} {options}", who.name()), || living(&below));
            running.out(Duration::from_secs(10)).exits(-9);
        }
        who.run("python", "print(1)").json().is("success");
        soon_empty("cgroups", orphaned_cgroups);
    }
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn killing_the_spawner_or_pid_1_is_our_failure_and_ends_everything() {
    let _alone = alone();
    for who in Sandboxd::everybody() {
        let with_spawner = who.clone().with("SANDBOXD_EXECUTOR", who.binary("sandbox-executor").display());
        // Below the command are the spawner and then PID 1, or PID 1 at once.
        for (who, victim) in [(&with_spawner, 0), (&with_spawner, 1), (&who, 0)] {
            let (running, below) = busy(who, "--quiet");
            kill(below[victim]);
            running.out(Duration::from_secs(30)).exits(125).ends_within(20).never_panics();
            soon_empty("processes", || living(&below));
        }
        who.run("python", "print(1)").json().is("success");
        soon_empty("cgroups", orphaned_cgroups);
    }
}

#[test]
fn killing_the_janitor_harms_nobody_and_the_next_one_cleans_up() {
    let _alone = alone();
    for who in Sandboxd::everybody() {
        let (running, below) = busy(&who, "--quiet");
        let is_janitor = |pid: &&u32| host::status(**pid, "Name").as_deref() == Some("sandbox-janitor");
        kill(*below.iter().find(is_janitor).expect("a janitor"));
        std::thread::sleep(Duration::from_millis(200));
        let inside: Vec<u32> = below.iter().copied().filter(|pid| !living(&[*pid]).is_empty()).collect();
        assert!(inside.len() >= 5, "the program runs on: {inside:?}");
        running.signal(Signal::TERM);
        running.out(Duration::from_secs(30)).exits(130).never_panics();
        soon_empty("processes", || living(&below));
        who.run("python", "print(1)").json().is("success");
        soon_empty("cgroups", orphaned_cgroups);
    }
}

#[test]
fn stopping_sandboxd_does_not_stop_the_clock_inside() {
    let _alone = alone();
    for who in Sandboxd::everybody() {
        let code =
            "import os, time\nfor _ in range(2): os.fork()\nprint('ready', flush=True)\ntime.sleep(600)";
        let running = who.run("python", code).options("--timeout 2s").start();
        running.until_it_says("ready\nready\nready\nready\n");
        let inside: Vec<u32> = host::descendants(running.pid()).split_off(2);
        running.signal(Signal::STOP);
        let deadline = Instant::now() + Duration::from_secs(10);
        while !living(&inside).is_empty() {
            assert!(Instant::now() < deadline, "its time was up, but it runs on: {inside:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        running.signal(Signal::CONT);
        running.out(Duration::from_secs(30)).exits(124);
    }
}
