//! Processes: daemons as the host sees them, and what a run is said to have ended by.

use super::Drive;
use crate::stage::Stage;
use crate::support::{Record, host, in_parallel};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

pub(super) const DRIVES: &[(&str, Drive)] = &[
    ("daemons_end", daemons_end),
    ("ended_from_outside", ended_from_outside),
    ("exit_codes", exit_codes),
    ("fatal_signals", fatal_signals),
];

/// Processes of the host that go by this name.
fn called(name: &str) -> Vec<u32> {
    let of_that_name = |pid: &u32| host::status(*pid, "Name").as_deref() == Some(name);
    host::processes().into_iter().filter(of_that_name).collect()
}

/// The daemons give themselves a name that nobody else has: they are seen while the program runs, and a
/// second after its end they are not.
fn daemons_end(stage: &Stage) -> Result<(), String> {
    let name = format!("d{}-{}", std::process::id(), u8::from(stage.person.is_root()));
    let running = stage.command().words([name.as_str(), "300"]).start();
    let deadline = Instant::now() + Duration::from_secs(10);
    while called(&name).len() < 3 {
        if Instant::now() > deadline {
            return Err(format!("the daemons were never seen, only {:?}", called(&name)));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let out = running.out(Duration::from_secs(20));
    let ended = Instant::now();
    let seen = stage.notice(&out);
    while !called(&name).is_empty() {
        if ended.elapsed() > Duration::from_secs(1) {
            return Err(format!("a second after the end {:?} live", called(&name)));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    stage.judge(&seen)
}

fn all_or_nothing(failures: Vec<String>) -> Result<(), String> {
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// What a record says about the end, next to what it should say: status, exit code of the command, and of
/// the program the exit code and the signal.
fn compare(what: &str, record: &Record, wanted: (&str, i32, Option<i32>, Option<i32>)) -> Result<(), String> {
    let number = |name: &str| record[name].as_i64().and_then(|number| i32::try_from(number).ok());
    let status = record["status"].as_str().unwrap_or_default();
    let told = (status, record.out.code, number("exit_code"), number("signal"));
    if told != wanted {
        return Err(format!("{what}: told {told:?}, not {wanted:?}"));
    }
    if (status == "success") == record["error"].is_null() {
        return Ok(());
    }
    Err(format!("{what}: `{status}` with the error {}", record["error"]))
}

/// Every exit code is reported as it is, and only 0 is success.
fn exit_codes(stage: &Stage) -> Result<(), String> {
    let person = stage.person.clone();
    let codes: Vec<i32> = (0..=255).collect();
    all_or_nothing(in_parallel(&codes, |&code| {
        let record = person.run("sh", &format!("exit {code}")).json();
        let status = if code == 0 { "success" } else { "failed" };
        compare(&format!("exit {code}"), &record, (status, code, Some(code), None))
    }))
}

/// Every signal a program can die of, sent by itself.
fn fatal_signals(stage: &Stage) -> Result<(), String> {
    let person = stage.person.clone();
    let signals: Vec<i32> = (1..=64).collect();
    all_or_nothing(in_parallel(&signals, |&number| {
        let code = format!(
            "import os, signal\ntry: signal.signal({number}, signal.SIG_DFL)\n\
             except (OSError, ValueError): pass\nos.kill(os.getpid(), {number})"
        );
        let record = person.run("python", &code).options("--timeout 1s").json();
        let wanted = match number {
            // Ignored unless somebody asks for them; those that stop the jobs of a terminal stop no orphans.
            17 | 18 | 20..=23 | 28 => ("success", 0, Some(0), None),
            // It stops, and nobody wakes it.
            19 => ("timed_out", 124, None, None),
            // A file that becomes larger than the storage ends its writer so. The kernel does not say who
            // sent it.
            25 => ("disk_limit", 153, None, Some(25)),
            // A call of another architecture ends its caller so. The kernel does not say that either.
            31 => ("bad_arch", 159, None, Some(31)),
            // SIGXCPU among them: a program that has used no CPU time has not used it up.
            _ => ("signalled", 128 + number, None, Some(number)),
        };
        compare(&format!("signal {number}"), &record, wanted)
    }))
}

/// Who ends it from outside is told apart: the caller, by either signal, or somebody who kills PID 1 of the
/// sandbox.
fn ended_from_outside(stage: &Stage) -> Result<(), String> {
    const WAIT: &str = "import time\nprint('begin', flush=True)\ntime.sleep(60)";
    let begun = || {
        let running = stage.person.run("python", WAIT).flag("--json").start();
        running.until_it_runs("python3");
        running
    };
    for (signal, words) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM")] {
        let running = begun();
        running.signal(signal);
        let seen = stage.notice(&running.out(Duration::from_secs(10)));
        if seen.status != "cancelled" {
            return Err(format!("{words}: status {}", seen.status));
        }
    }
    let running = begun();
    let inside = host::descendants(running.pid());
    let first = inside.into_iter().find(|pid| host::inner_pid(*pid) == Some(1)).ok_or("no PID 1 was seen")?;
    let first = i32::try_from(first).ok().and_then(Pid::from_raw).ok_or("no pid")?;
    kill_process(first, Signal::KILL).map_err(|e| format!("kill PID 1: {e}"))?;
    let seen = stage.notice(&running.out(Duration::from_secs(10)));
    if seen.status != "infra_error" {
        return Err(format!("PID 1 killed: status {}", seen.status));
    }
    Ok(())
}
