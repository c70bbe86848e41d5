//! How long one run takes, by each candidate in turn.

use super::Bench;
use super::candidate::Candidate;
use super::ours::{Ours, Shared};
use super::program::Ready;
use super::results::{Absent, LatencyRow, Results};
use super::statistics::Summary;
use anyhow::Result;
use engine::{PoolSettings, Start};
use std::sync::Arc;

pub(super) fn steps(bench: &Bench, programs: &[Arc<Ready>]) -> u64 {
    programs.iter().map(|ready| rounds(bench, ready) as u64 + 1).sum()
}

pub(super) fn measure(bench: &Bench, programs: &[Arc<Ready>], results: &mut Results) -> Result<()> {
    let mut engines = Engines::new(&bench.ours)?;
    for ready in programs {
        engines.rehearsed = ready
            .program
            .rehearsal
            .map(|program| engines.that_rehearse(bench, ready, program))
            .transpose()?;
        bench.bar.set_message(ready.program.title);
        let mut contest = Contest::new(bench, &engines, ready);
        // The first round fills caches, starts interpreters that are copied later, and is not counted.
        contest.round(0)?;
        contest.forget();
        for round in 1..=rounds(bench, ready) {
            contest.round(round)?;
        }
        contest.finish(results);
    }
    Ok(())
}

fn rounds(bench: &Bench, ready: &Ready) -> usize {
    bench.effort.rounds.div_ceil(ready.program.every)
}

struct Engines {
    nothing: Shared,
    cold: Shared,
    miss: Shared,
    warm: Shared,
    /// For the program that is measured now.
    rehearsed: Option<Shared>,
}

impl Engines {
    fn new(ours: &Ours) -> Result<Engines> {
        let none = PoolSettings { min: 0, max: 0, ..PoolSettings::default() };
        Ok(Engines {
            nothing: ours.engine_from_nothing()?,
            cold: ours.engine(None)?,
            miss: ours.engine(Some(none))?,
            warm: ours.engine(Some(PoolSettings::default()))?,
            rehearsed: None,
        })
    }

    fn that_rehearse(&self, bench: &Bench, ready: &Ready, program: &str) -> Result<Shared> {
        let rehearsal = [(ready.program.language.to_owned(), program.to_owned())].into();
        bench.ours.engine(Some(PoolSettings { rehearsal, ..PoolSettings::default() }))
    }

    fn are_warm(&self) -> bool {
        self.warm.is_warm() && self.rehearsed.as_ref().is_none_or(|engine| engine.is_warm())
    }
}

/// Candidates running one program in turn.
struct Contest<'a> {
    bench: &'a Bench,
    engines: &'a Engines,
    ready: &'a Ready,
    times: Vec<(Candidate, Vec<f64>)>,
    absent: Vec<(Candidate, String)>,
}

impl<'a> Contest<'a> {
    fn new(bench: &'a Bench, engines: &'a Engines, ready: &'a Ready) -> Contest<'a> {
        let why_not =
            |candidate: Candidate| bench.peers.cannot(candidate).map(|why| (candidate, why.to_owned()));
        let absent: Vec<_> = Candidate::ALL.into_iter().filter_map(why_not).collect();
        let present = |candidate: &Candidate| {
            let wanted = *candidate != Candidate::Rehearsed || engines.rehearsed.is_some();
            wanted && absent.iter().all(|(who, _)| who != candidate)
        };
        let times = Candidate::ALL.into_iter().filter(present).map(|candidate| (candidate, Vec::new()));
        Contest { bench, engines, ready, times: times.collect(), absent }
    }

    /// Everybody once. Nobody is always first, and nobody always follows the same one.
    fn round(&mut self, round: usize) -> Result<()> {
        let count = self.times.len();
        let mut gone = Vec::new();
        for turn in 0..count {
            let turn = if round.is_multiple_of(2) { turn } else { count - turn };
            let index = (round + turn) % count;
            let candidate = self.times[index].0;
            // What the turn before left to do is done by then.
            self.bench.ours.until(|| self.engines.are_warm(), "a full pool")?;
            self.bench.ours.pause();
            match self.time(candidate, round == 0)? {
                Some(took) => self.times[index].1.push(took),
                None => gone.push(candidate),
            }
        }
        self.times.retain(|(candidate, _)| !gone.contains(candidate));
        let language = self.ready.program.language;
        let why = format!("{language} is not kept warm");
        self.absent.extend(gone.into_iter().map(|candidate| (candidate, why.clone())));
        self.bench.bar.inc(1);
        Ok(())
    }

    fn time(&self, candidate: Candidate, first: bool) -> Result<Option<f64>> {
        let task = || self.ready.task(&self.bench.fresh);
        let (ours, engines) = (&self.bench.ours, self.engines);
        let (engine, start) = match (candidate, &engines.rehearsed) {
            (Candidate::Nothing, _) => (&engines.nothing, Start::Cold),
            (Candidate::Cold, _) => (&engines.cold, Start::Cold),
            (Candidate::Miss, _) => (&engines.miss, Start::Miss),
            (Candidate::Warm, _) => (&engines.warm, Start::Hit),
            (Candidate::Rehearsed, Some(engine)) => (engine, Start::Hit),
            _ => return self.bench.peers.time(candidate, &task()).map(Some),
        };
        if first {
            let ran = ours.learn(engine, task)?;
            return Ok((start == Start::Cold || ran.start != Start::Cold).then_some(ran.took));
        }
        ours.time(engine, start, task).map(Some)
    }

    fn forget(&mut self) {
        self.times.iter_mut().for_each(|(_, times)| times.clear());
    }

    fn finish(self, results: &mut Results) {
        let summed = |(candidate, times): &(Candidate, Vec<f64>)| Some((*candidate, Summary::of(times)?));
        let rows: Vec<(Candidate, Summary)> = self.times.iter().filter_map(summed).collect();
        let bare =
            rows.iter().find(|(candidate, _)| *candidate == Candidate::Bare).map(|(_, times)| times.p50_ms);
        results.latency.extend(rows.into_iter().map(|(candidate, times)| LatencyRow {
            program: self.ready.program.part,
            title: self.ready.program.title,
            candidate,
            by: self.bench.peers.title(candidate),
            ratio_to_bare: times.p50_ms / bare.unwrap_or(f64::NAN),
            times,
        }));
        let (part, program) = ("latency", self.ready.program.part);
        results.absent.extend(self.absent.into_iter().map(|(candidate, why)| Absent {
            part,
            program,
            by: candidate.title(),
            why,
        }));
    }
}
