//! RL-03: SIGTERM and SIGINT with work in flight.

use super::{by_script, moment, soon_dead};
use crate::stage::Stage;
use crate::support::{Out, Running, Sandboxd, host, in_parallel};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use std::fs::File;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const ROUNDS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an end may take that was asked for.
const SOON: Duration = Duration::from_secs(1);

const DEAF: &str = "import os, signal, time\n\
    for n in signal.valid_signals() - {9, 19}: signal.signal(n, signal.SIG_IGN)\n\
    if os.fork() == 0: os.setsid()\n\
    print('ready', flush=True)\ntime.sleep(600)";

/// What became of a command that was told to end.
struct Told {
    out: Out,
    below: Vec<u32>,
    after: Duration,
}

/// Tells it once, or again and again.
fn tell(running: Running, signals: &[Signal]) -> Told {
    let below = host::descendants(running.pid());
    let began = Instant::now();
    for signal in signals {
        running.signal(*signal);
        std::thread::sleep(Duration::from_millis(2));
    }
    let out = running.out(PATIENCE);
    Told { out, below, after: began.elapsed() }
}

/// At every stage of a run, from before it has a sandbox to its middle.
pub(super) fn at_random(stage: &Stage) -> Result<(), String> {
    let all = Mutex::new(Vec::new());
    let numbers: Vec<usize> = (0..ROUNDS).collect();
    let person: Sandboxd = stage.person.clone();
    let mut wrong = in_parallel(&numbers, |number| {
        let signals: &[Signal] = match number % 3 {
            0 => &[Signal::TERM],
            1 => &[Signal::INT],
            _ => &[Signal::TERM, Signal::INT, Signal::TERM, Signal::TERM],
        };
        let running = person.run("python", DEAF).options("--json --timeout 30s").start();
        std::thread::sleep(moment(*number, 120));
        let told = tell(running, signals);
        all.lock().unwrap().push(told);
        Ok(())
    });
    for told in all.into_inner().unwrap() {
        wrong.extend(soon_dead(&told.below).err());
        stage.show(&told.out.stdout);
        // A signal that comes before anything is begun ends the command as it ends any other.
        let early = [-15, -2].contains(&told.out.code) && told.out.stdout.is_empty();
        let right = told.out.code == 130 && told.out.text().contains("\"status\":\"cancelled\"");
        if !(early || right) || told.after > SOON * 2 {
            let said = told.out.text() + &told.out.complaint();
            wrong.push(format!("exit code {} after {:?}: {said}", told.out.code, told.after));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// What a program wrote before is in the record.
pub(super) fn the_output_is_kept(stage: &Stage) -> Result<(), String> {
    for signal in [Signal::TERM, Signal::INT] {
        let running = stage.person.run("python", DEAF).options("--json --timeout 30s").start();
        running.until_it_runs("python3");
        std::thread::sleep(Duration::from_millis(300));
        let told = tell(running, &[signal]);
        let seen = stage.notice(&told.out);
        soon_dead(&told.below)?;
        if seen.status != "cancelled" || seen.stdout != b"ready\nready\n" || told.after > SOON {
            let said = String::from_utf8_lossy(&seen.stdout).into_owned();
            return Err(format!("{signal:?}: `{}` after {:?} with {said:?}", seen.status, told.after));
        }
    }
    Ok(())
}

/// A pipe that is full and that nobody reads does not keep the command from ending.
pub(super) fn while_nobody_reads(stage: &Stage) -> Result<(), String> {
    let code = "import os\nwhile True: os.write(1, b'x' * 65536)";
    let pipe = stage.folder().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).map_err(|e| format!("pipe: {e}"))?;
    stage.person.give(&pipe);
    // Somebody has it open, for else the command could not open it, and never reads.
    let unread = File::options().read(true).write(true).open(&pipe).map_err(|e| format!("pipe: {e}"))?;
    let person = by_script(stage, &format!("exec SANDBOXD \"$@\" > '{}'", pipe.display()));
    let mut wrong = Vec::new();
    for signal in [Signal::TERM, Signal::INT] {
        let running = person.run("python", code).options("--timeout 30s --quiet").start();
        running.until_it_runs("python3");
        std::thread::sleep(Duration::from_millis(300));
        let told = tell(running, &[signal]);
        soon_dead(&told.below)?;
        if told.after > SOON {
            wrong.push(format!("{signal:?}: it went on for {:?}", told.after));
        }
    }
    drop(unread);
    std::fs::remove_file(pipe).map_err(|e| format!("pipe: {e}"))?;
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
