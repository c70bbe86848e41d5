//! What goes in and out of a program: what it costs us, and whether every byte arrives.

use super::Drive;
use crate::stage::Stage;
use crate::support::{Running, host};
use std::time::{Duration, Instant};

pub(super) const DRIVES: &[(&str, Drive)] = &[
    ("100_mb_of_input", much_input),
    ("bytes_arrive_exactly", bytes_arrive_exactly),
    ("drops_arrive_live", drops_arrive_live),
    ("nobody_is_busy_meanwhile", nobody_is_busy_meanwhile),
    ("the_command_stays_small", the_command_stays_small),
];

const PATIENCE: Duration = Duration::from_secs(30);
/// What is kept of a stream unless something else is asked for.
const KEPT: u64 = 8 << 20;
/// Buffers and the like.
const SLACK: u64 = 4 << 20;

/// The highest memory of the command exceeds that of an ordinary one by twice what is kept at most.
fn the_command_stays_small(stage: &Stage) -> Result<(), String> {
    let peak = |running: &mut Running| {
        let mut most = 0;
        while running.is_running() {
            let now = host::status(running.pid(), "VmHWM");
            let kilobytes = now.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
            most = most.max(kilobytes.unwrap_or(0) << 10);
            std::thread::sleep(Duration::from_micros(500));
        }
        most
    };
    let mut ordinary = stage.person.run("python", "print(1)").flag("--json").start();
    let usual = peak(&mut ordinary);
    stage.notice(&ordinary.out(PATIENCE));
    let mut running = stage.command().start();
    let most = peak(&mut running);
    let seen = stage.notice(&running.out(PATIENCE));
    stage.judge(&seen)?;
    if seen.stdout.len() as u64 != KEPT {
        return Err(format!("{} bytes were kept, not {KEPT}", seen.stdout.len()));
    }
    let bound = usual + 2 * KEPT + SLACK;
    if usual == 0 || most > bound {
        return Err(format!("the command grew to {} kB, not {} kB at most", most >> 10, bound >> 10));
    }
    Ok(())
}

/// A byte every millisecond, passed on as it comes.
fn drops_arrive_live(stage: &Stage) -> Result<(), String> {
    let code = include_str!("../programs/ou_03_drops.py");
    let running = stage.person.run("python", code).flag("--quiet").start();
    running.until_it_says("0123456789");
    let ours = ours(&running)?;
    let (began, before) = (Instant::now(), worked(&ours));
    std::thread::sleep(Duration::from_secs(1));
    let share = (worked(&ours) - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let out = running.out(PATIENCE);
    let wanted: String = (0..out.stdout.len()).map(|n| char::from(b'0' + (n % 10) as u8)).collect();
    if out.code != 0 || out.text() != wanted || out.complaint() != wanted.len().to_string() {
        return Err(format!("exit code {}, {} of {} bytes", out.code, wanted.len(), out.complaint()));
    }
    if share > 0.2 {
        return Err(format!("passing drops on took {:.0} % of a core", share * 100.0));
    }
    Ok(())
}

/// What was kept is exactly what the program wrote, which it saved in a file too.
fn bytes_arrive_exactly(stage: &Stage) -> Result<(), String> {
    const LIMIT: usize = 1024;
    let seen = stage.execute();
    stage.judge(&seen)?;
    let wanted = std::fs::read(stage.folder().join("data")).map_err(|e| format!("data: {e}"))?;
    for (name, got) in [("stdout", &seen.stdout), ("stderr", &seen.stderr)] {
        // A character that the limit cuts may be left out whole.
        let least = if wanted.len() > LIMIT { LIMIT - 3 } else { wanted.len() };
        if !wanted.starts_with(got) || got.len() < least {
            return Err(format!("{name}: {} bytes are not the first of {}", got.len(), wanted.len()));
        }
        let text = seen.record.as_ref().and_then(|record| record[name].as_str()).unwrap_or_default();
        if text.ends_with('\u{fffd}') && std::str::from_utf8(&wanted).is_ok() {
            return Err(format!("{name}: half a character at the end"));
        }
    }
    Ok(())
}

/// While the program sleeps, so does everybody else.
fn nobody_is_busy_meanwhile(stage: &Stage) -> Result<(), String> {
    let running = stage.command().start();
    running.until_it_runs("python3");
    // That may be an interpreter whose copies run programs, so there need not be a sandbox yet.
    let patience = Instant::now() + PATIENCE;
    while ours(&running).is_err() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The program needs a moment to get to its trick.
    std::thread::sleep(Duration::from_millis(150));
    let ours = ours(&running)?;
    let (began, before) = (Instant::now(), worked(&ours));
    std::thread::sleep(Duration::from_millis(250));
    let share = (worked(&ours) - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let seen = stage.notice(&running.out(PATIENCE));
    stage.judge(&seen)?;
    if share > 0.05 {
        return Err(format!("waiting took {:.0} % of a core", share * 100.0));
    }
    Ok(())
}

/// The command, and all of ours below it: PID 1, the janitor, a spawner.
fn ours(running: &Running) -> Result<Vec<u32>, String> {
    let below = host::descendants(running.pid());
    let named = |pid: &u32| host::status(*pid, "Name").is_some_and(|name| name.starts_with("sandbox"));
    let mut ours: Vec<u32> = below.into_iter().filter(named).collect();
    if !ours.iter().any(|pid| host::inner_pid(*pid) == Some(1)) {
        return Err(format!("no PID 1 among {ours:?}"));
    }
    ours.push(running.pid());
    Ok(ours)
}

/// CPU time of processes. The kernel counts it in nanoseconds.
fn worked(pids: &[u32]) -> Duration {
    let of = |pid: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("schedstat");
        text.split(' ').next().and_then(|word| word.parse::<u64>().ok()).expect("nanoseconds")
    };
    Duration::from_nanos(pids.iter().map(of).sum())
}

/// As the data says, with a hundred megabytes of input. They take no room on the disk.
fn much_input(stage: &Stage) -> Result<(), String> {
    // One file for all: what the kernel does to read it from storage the first time is no deed of the sandbox.
    let path = stage.place.world.path("programs").join("100 MB");
    if !path.exists() {
        std::fs::write(&path, vec![0; 100_000_000]).map_err(|e| e.to_string())?;
    }
    let out = stage.command().arg("--stdin", format!("@{}", path.display())).out();
    stage.judge(&stage.notice(&out))
}
