//! RL-01 and RL-02: kill -9 of the command, of PID 1, of the janitor, of a spawner.

use super::{living, moment, soon_dead};
use crate::stage::Stage;
use crate::support::{Running, Sandboxd, host, in_parallel};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const IN_FLIGHT: usize = 50;
const ROUNDS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(10);

/// Several processes that hold on to life as well as they can.
const DEAF: &str = "import os, signal, time\n\
    for n in signal.valid_signals() - {9, 19}: signal.signal(n, signal.SIG_IGN)\n\
    if os.fork() == 0: os.setsid()\n\
    print('ready', flush=True)\ntime.sleep(600)";

pub(super) fn commands(stage: &Stage) -> Result<(), String> {
    many_are_killed(stage, |running, _| kill(running.pid()))
}

/// Nobody is left to clean up.
pub(super) fn commands_and_janitors(stage: &Stage) -> Result<(), String> {
    many_are_killed(stage, |running, below| {
        let janitor = below.iter().find(|pid| is(**pid, "sandbox-janitor"));
        kill(*janitor.expect("a janitor"));
        kill(running.pid());
    })
}

/// Starts many, kills them, and waits until nothing of them lives. Then all of that can be had again.
fn many_are_killed(stage: &Stage, kill: impl Fn(&Running, &[u32])) -> Result<(), String> {
    let started = start_many(&stage.person);
    let below: Vec<Vec<u32>> = started.iter().map(|running| host::descendants(running.pid())).collect();
    if let Some(few) = below.iter().find(|pids| pids.len() < 4) {
        return Err(format!("PID 1, a janitor and two processes, not {few:?}"));
    }
    started.iter().zip(&below).for_each(|(running, pids)| kill(running, pids));
    soon_dead(&below.concat())?;
    for running in started {
        let out = running.out(PATIENCE);
        if out.code != -9 {
            return Err(format!("a command that was killed ended with {}", out.code));
        }
    }
    let record = stage.person.run("python", "print(1)").json();
    record.is("success");
    Ok(())
}

/// Starts them on a few threads, as nobody would wait for each.
fn start_many(person: &Sandboxd) -> Vec<Running> {
    let started = Mutex::new(Vec::new());
    let numbers: Vec<usize> = (0..IN_FLIGHT).collect();
    let failures = in_parallel(&numbers, |_| {
        let running = person.run("python", DEAF).options("--timeout 10m --quiet").start();
        running.until_it_says("ready\nready\n");
        started.lock().unwrap().push(running);
        Ok(())
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    started.into_inner().unwrap()
}

/// Who is killed, and by whom the sandbox was made.
#[derive(Clone, Copy, PartialEq)]
enum Victim {
    Init,
    Janitor,
    Spawner,
    InitOfSpawner,
}

const VICTIMS: [Victim; 4] = [Victim::Init, Victim::Janitor, Victim::Spawner, Victim::InitOfSpawner];

impl Victim {
    /// Finds it below a command.
    fn find(self, below: &[u32]) -> Option<u32> {
        let sought = |pid: &&u32| match self {
            Victim::Init | Victim::InitOfSpawner => host::inner_pid(**pid) == Some(1),
            Victim::Janitor => is(**pid, "sandbox-janitor"),
            Victim::Spawner => is(**pid, "sandbox-executo") && host::inner_pid(**pid) != Some(1),
        };
        below.iter().find(sought).copied()
    }
}

/// What became of one round.
struct Round {
    code: i32,
    text: String,
    took: Duration,
    below: Vec<u32>,
    victim: Victim,
    /// Whether the victim was still there.
    hit: bool,
}

/// Runs that need a moment, one of whose helpers is killed in that moment.
pub(super) fn helpers_at_random(stage: &Stage) -> Result<(), String> {
    let rounds = Mutex::new(Vec::new());
    let numbers: Vec<usize> = (0..ROUNDS).collect();
    let direct = stage.person.clone();
    let by_spawner = direct.clone().with("SANDBOXD_EXECUTOR", direct.binary("sandbox-executor").display());
    let mut wrong = in_parallel(&numbers, |number| {
        let victim = VICTIMS[number % VICTIMS.len()];
        let spawner = matches!(victim, Victim::Spawner | Victim::InitOfSpawner);
        let round = one_round(if spawner { &by_spawner } else { &direct }, *number, victim);
        rounds.lock().unwrap().push(round);
        Ok(())
    });
    let rounds = rounds.into_inner().unwrap();
    for round in &rounds {
        wrong.extend(judge(round).err());
        wrong.extend(soon_dead(&round.below).err());
        stage.show(round.text.as_bytes());
    }
    // A round in which nobody was hit shows nothing, so there must be enough of the others.
    for (name, victim) in ["PID 1", "the janitor", "the spawner", "its PID 1"].into_iter().zip(VICTIMS) {
        let hits = rounds.iter().filter(|round| round.victim == victim && round.hit).count();
        if hits < ROUNDS / VICTIMS.len() / 2 {
            wrong.push(format!("{name} was killed in time only {hits} times"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn one_round(person: &Sandboxd, number: usize, victim: Victim) -> Round {
    let code =
        "import os, time\nfor _ in range(3): os.fork() or time.sleep(60)\ntime.sleep(0.15)\nprint('done')";
    let running = person.run("python", code).options("--json --timeout 5s").start();
    let deadline = Instant::now() + Duration::from_secs(2);
    let mut below = host::descendants(running.pid());
    while victim.find(&below).is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
        below = host::descendants(running.pid());
    }
    std::thread::sleep(moment(number, 100));
    below.extend(host::descendants(running.pid()));
    let found = victim.find(&below).filter(|pid| !living(&[*pid]).is_empty());
    found.into_iter().for_each(kill);
    let out = running.out(PATIENCE);
    let text = out.text() + &out.complaint();
    Round { code: out.code, text, took: out.took, below, victim, hit: found.is_some() }
}

/// Either the whole result of the program, or our failure: an exit code that is not the program's, and words. Nobody
/// misses a janitor before it has work.
fn judge(round: &Round) -> Result<(), String> {
    let said = |status: &str| round.text.contains(&format!("\"status\":\"{status}\""));
    let whole = round.text.contains("\"stdout\":\"done\\n\"");
    let right = match round.code {
        0 => said("success") && whole,
        125 => round.victim != Victim::Janitor && (said("infra_error") || round.text.starts_with("error: ")),
        _ => false,
    };
    if right && !round.text.contains("panicked") && round.took < PATIENCE {
        return Ok(());
    }
    Err(format!("exit code {} after {:?}: {}", round.code, round.took, round.text))
}

fn is(pid: u32, name: &str) -> bool {
    host::status(pid, "Name").as_deref() == Some(name)
}

fn kill(pid: u32) {
    let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, Signal::KILL));
}
