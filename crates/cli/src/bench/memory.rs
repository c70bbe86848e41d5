//! What a sandbox takes that waits: memory the machine has less when so many of them do.
//!
//! The whole machine is looked at, because that is who pays. So this wants a machine that does nothing else, and says how
//! far its readings lie apart. What the sandboxes' memory cgroups are charged is told too, because nobody else disturbs
//! it; but it is another figure. Page tables of a copied interpreter are charged to the original, namespaces partly to
//! nobody, and pages of files to whoever came first.

use super::Bench;
use super::candidate::Candidate;
use super::program::Ready;
use super::results::{Absent, MemoryRow, Results};
use super::statistics::percentile;
use super::usage::{memory_available, memory_charged};
use anyhow::{Context, Result};
use engine::{Engine, PoolSettings, Start};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many wait.
const KEPT: usize = 20;
/// How long nobody asks until none does.
const IDLE: Duration = Duration::from_secs(2);
/// The kernel gives back what it kept for sandboxes that are gone for seconds: it is done when this long not so much came.
const QUIET: Duration = Duration::from_secs(2);
const NOTHING: f64 = 1_048_576.0;

pub(super) fn steps(bench: &Bench, programs: &[Arc<Ready>]) -> u64 {
    (programs.iter().filter(|ready| ready.program.under_load).count() * bench.effort.fillings) as u64
}

pub(super) fn measure(bench: &Bench, programs: &[Arc<Ready>], results: &mut Results) -> Result<()> {
    for ready in programs.iter().filter(|ready| ready.program.under_load) {
        let program = ready.program;
        bench.bar.set_message(format!("{} waiting", program.title));
        let engine = bench.ours.engine(Some(PoolSettings {
            min: KEPT,
            max: KEPT,
            idle_timeout: IDLE,
            ..PoolSettings::default()
        }))?;
        if bench.ours.learn(&engine, || ready.task(&bench.fresh))?.start == Start::Cold {
            let why = format!("{} is not kept warm", program.language);
            let by = Candidate::Warm.title();
            results.absent.push(Absent { part: "memory", program: program.part, by, why });
            continue;
        }
        // What is made only once, such as the interpreter that is copied, is there from now on.
        fill(bench, ready, &engine)?;
        let (mut each, mut charged) = (Vec::new(), None);
        for _ in 0..bench.effort.fillings {
            bench.ours.until(|| depth(&engine) == 0, "an empty pool")?;
            settle(bench)?;
            let empty = available(bench)?;
            fill(bench, ready, &engine)?;
            each.push((empty - available(bench)?) / KEPT as f64);
            charged = memory_charged()?;
            bench.bar.inc(1);
        }
        let middle = percentile(&each, 0.5).context("nothing was measured")?;
        let at = |share| percentile(&each, share).unwrap_or(middle);
        let charged = charged.map(|bytes| bytes as f64 / KEPT as f64);
        // Neither counts everything, and noise can be larger than what is measured: so by whichever says more.
        let most = middle.max(charged.unwrap_or(0.0));
        results.memory.push(MemoryRow {
            program: program.part,
            title: program.title,
            waiting: KEPT,
            bytes_each: middle,
            lowest: at(0.0),
            highest: at(1.0),
            charged_each: charged,
            per_gib: (most > 0.0).then(|| f64::from(1 << 30) / most),
        });
    }
    Ok(())
}

fn depth(engine: &Engine) -> usize {
    engine.pool().iter().map(|shelf| shelf.depth).sum()
}

/// Asks again and again, so that nobody thinks they are not wanted while they are made.
fn fill(bench: &Bench, ready: &Ready, engine: &Engine) -> Result<()> {
    loop {
        bench.ours.run(engine, &ready.task(&bench.fresh))?;
        let asked = Instant::now();
        let is_full = || depth(engine) >= KEPT;
        bench.ours.until(|| is_full() || asked.elapsed() > IDLE / 2, "a full pool")?;
        if is_full() {
            return Ok(());
        }
    }
}

/// Waits until the last of what is gone is given back.
fn settle(bench: &Bench) -> Result<()> {
    let began = Instant::now();
    let (mut most, mut since) = (memory_available()? as f64, began);
    while since.elapsed() < QUIET && began.elapsed() < bench.effort.settling {
        bench.ours.wait(Duration::from_millis(50));
        let now = memory_available()? as f64;
        if now > most + NOTHING {
            (most, since) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Memory that is available, without what comes and goes at once.
fn available(bench: &Bench) -> Result<f64> {
    bench.ours.wait(Duration::from_millis(300));
    let mut readings = Vec::new();
    for _ in 0..9 {
        readings.push(memory_available()? as f64);
        bench.ours.wait(Duration::from_millis(20));
    }
    percentile(&readings, 0.5).context("nothing was read")
}
