//! How much longer than its time-out a program that never ends takes, from the call until it is dead and its record here.
//! Where no sandbox waited for it, making one is part of that.

use super::Bench;
use super::candidate::Candidate;
use super::ours::call;
use super::program::Ready;
use super::results::{DeadlineRow, Results};
use super::statistics::Summary;
use anyhow::{Result, bail};
use engine::{Engine, PoolSettings, Request, Start, Status};
use std::sync::Arc;

pub(super) const TIMEOUT_MS: u64 = 100;

/// Killing takes as long as the time-out, so a fifth of the rounds has to do, but not fewer than there are to a median.
fn rounds(bench: &Bench) -> usize {
    bench.effort.rounds.div_ceil(5).max(3)
}

pub(super) fn steps(bench: &Bench, programs: &[Arc<Ready>]) -> u64 {
    (programs.iter().filter(|ready| ready.program.endless.is_some()).count() * rounds(bench)) as u64
}

pub(super) fn measure(bench: &Bench, programs: &[Arc<Ready>], results: &mut Results) -> Result<()> {
    let cold = bench.ours.engine(None)?;
    let warm = bench.ours.engine(Some(PoolSettings::default()))?;
    for ready in programs {
        let Some(endless) = ready.program.endless else { continue };
        bench.bar.set_message(format!("{} killed", ready.program.language));
        let mut request = Request::new(ready.program.language, endless);
        request.limits.timeout_ms = Some(TIMEOUT_MS);
        let mut engines = vec![(Candidate::Cold, &cold, Vec::new())];
        if bench.ours.learn(&warm, || ready.task(&bench.fresh))?.start != Start::Cold {
            engines.push((Candidate::Warm, &warm, Vec::new()));
        }
        for _ in 0..rounds(bench) {
            for (_, engine, times) in &mut engines {
                bench.ours.until(|| engine.is_warm(), "a full pool")?;
                bench.ours.pause();
                times.push(overtime(bench, engine, &request)?);
            }
            bench.bar.inc(1);
        }
        results.deadline.extend(engines.into_iter().filter_map(|(candidate, _, times)| {
            Some(DeadlineRow {
                program: ready.program.part,
                language: ready.program.language,
                candidate,
                by: candidate.title(),
                times: Summary::of(&times)?,
            })
        }));
    }
    Ok(())
}

fn overtime(bench: &Bench, engine: &Engine, request: &Request) -> Result<f64> {
    let (took, execution) = bench.ours.drive(call(engine, request))?;
    match execution.status {
        Status::TimedOut => Ok(took - TIMEOUT_MS as f64),
        other => bail!("a program that never ends ended as {other:?}"),
    }
}
