//! Several runs in flight: how long each takes, how many a second there are, and what one costs.
//!
//! A stretch of load begins with a full pool and ends when it is full again, so nothing is borrowed: time and CPU of
//! what replaces the sandboxes that were used are part of it.

use super::Bench;
use super::candidate::Candidate;
use super::ours::{Ran, Shared, succeed};
use super::program::Ready;
use super::results::{Absent, LoadRow, Results};
use super::statistics::Summary;
use super::usage::Cpu;
use anyhow::{Result, anyhow};
use engine::{PoolSettings, Start};
use std::sync::Arc;
use std::time::{Duration, Instant};

const IN_FLIGHT: [usize; 3] = [1, 2, 8];
/// As many as a pool holds at most by default, at all times: what is full must not depend on what happened before.
const KEPT: usize = 16;

pub(super) fn steps(bench: &Bench, programs: &[Arc<Ready>]) -> u64 {
    let loaded = programs.iter().filter(|ready| ready.program.under_load).count();
    (loaded * IN_FLIGHT.len() * bench.effort.stretches) as u64
}

pub(super) fn measure(bench: &Bench, programs: &[Arc<Ready>], results: &mut Results) -> Result<()> {
    for ready in programs.iter().filter(|ready| ready.program.under_load) {
        bench.bar.set_message(format!("{} under load", ready.program.title));
        let engine =
            bench.ours.engine(Some(PoolSettings { min: KEPT, max: KEPT, ..PoolSettings::default() }))?;
        let kept = bench.ours.learn(&engine, || ready.task(&bench.fresh))?.start != Start::Cold;
        if !kept {
            results.absent.push(Absent {
                part: "load",
                program: ready.program.part,
                by: Candidate::Warm.title(),
                why: format!("{} is not kept warm", ready.program.language),
            });
        }
        for in_flight in IN_FLIGHT {
            let (mut bare, mut warm) = (Load::default(), Load::default());
            for stretch in 0..bench.effort.stretches {
                // Nobody is always first.
                for turn in 0..2 {
                    match (stretch + turn) % 2 {
                        0 => bare.add(bare_stretch(bench, ready, in_flight)?),
                        _ if kept => warm.add(warm_stretch(bench, ready, &engine, in_flight)?),
                        _ => {}
                    }
                }
                bench.bar.inc(1);
            }
            let base = bare.runs_per_second();
            for (candidate, load) in [(Candidate::Bare, bare), (Candidate::Warm, warm)] {
                results.load.extend(load.row(ready, candidate, in_flight, base));
            }
        }
    }
    Ok(())
}

/// What came of one stretch or several.
#[derive(Default)]
struct Load {
    runs: Vec<Ran>,
    lasted: Duration,
    cpu: Cpu,
}

impl Load {
    fn add(&mut self, other: Load) {
        self.runs.extend(other.runs);
        self.lasted += other.lasted;
        self.cpu = self.cpu + other.cpu;
    }

    fn runs_per_second(&self) -> f64 {
        self.runs.len() as f64 / self.lasted.as_secs_f64()
    }

    fn row(&self, ready: &Ready, candidate: Candidate, in_flight: usize, base: f64) -> Option<LoadRow> {
        let times = Summary::of(&self.runs.iter().map(|ran| ran.took).collect::<Vec<_>>())?;
        let hits = self.runs.iter().filter(|ran| ran.start == Start::Hit).count();
        Some(LoadRow {
            program: ready.program.part,
            title: ready.program.title,
            candidate,
            by: candidate.title(),
            in_flight,
            runs_per_second: self.runs_per_second(),
            times_bare: self.runs_per_second() / base,
            cpu_ms_per_run: self.cpu.ours / times.samples as f64,
            machine_cpu_ms_per_run: self.cpu.machine / times.samples as f64,
            hit_share: (candidate == Candidate::Warm).then(|| hits as f64 / times.samples as f64),
            times,
        })
    }
}

/// So many threads, each starting one command after the other.
fn bare_stretch(bench: &Bench, ready: &Ready, in_flight: usize) -> Result<Load> {
    let (fresh, peers) = (&bench.fresh, &bench.peers);
    bench.ours.pause();
    let (began, cpu) = (Instant::now(), Cpu::now()?);
    let until = began + bench.effort.stretch;
    let worker = || -> Result<Vec<Ran>> {
        let mut runs = Vec::new();
        while runs.is_empty() || Instant::now() < until {
            let task = ready.task(fresh);
            runs.push(Ran { took: peers.spawn(&task.words, &task.says)?, start: Start::Cold });
        }
        Ok(runs)
    };
    let runs = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..in_flight).map(|_| scope.spawn(worker)).collect();
        let done = workers.into_iter().map(|worker| worker.join().map_err(|_| anyhow!("a thread broke"))?);
        done.collect::<Result<Vec<_>>>()
    })?;
    let lasted = began.elapsed();
    Ok(Load { runs: runs.concat(), lasted, cpu: Cpu::now()? - cpu })
}

/// So many tasks, each making one call after the other.
fn warm_stretch(bench: &Bench, ready: &Arc<Ready>, engine: &Shared, in_flight: usize) -> Result<Load> {
    let full = || bench.ours.until(|| engine.is_warm(), "a full pool");
    full()?;
    bench.ours.pause();
    let (began, cpu) = (Instant::now(), Cpu::now()?);
    let until = began + bench.effort.stretch;
    let runs = bench.ours.drive(async {
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let (engine, ready, fresh) = (engine.clone(), ready.clone(), bench.fresh.clone());
            workers.spawn(async move {
                let mut runs = Vec::new();
                while runs.is_empty() || Instant::now() < until {
                    runs.push(succeed(&engine, &ready.task(&fresh)).await?);
                }
                Ok::<_, anyhow::Error>(runs)
            });
        }
        let mut runs = Vec::new();
        while let Some(done) = workers.join_next().await {
            runs.extend(done??);
        }
        Ok::<_, anyhow::Error>(runs)
    })?;
    full()?;
    let lasted = began.elapsed();
    Ok(Load { runs, lasted, cpu: Cpu::now()? - cpu })
}
