//! `sandboxd bench`: our sandboxes beside the bare command and its peers, in one run.
//!
//! Candidates take turns, so that whatever else the machine does hits all of them alike. Ratios to the bare command
//! of the same run are the result; absolute times are context. `bench/README.md` says what each figure means.

mod agent;
mod candidate;
mod chart;
mod deadline;
mod latency;
mod load;
mod memory;
mod ours;
mod page;
mod peers;
mod program;
mod results;
mod server;
mod statistics;
mod targets;
mod usage;

use crate::args::{BenchArgs, BenchPart};
use crate::show;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use ours::Ours;
use peers::Peers;
use program::{Fresh, PROGRAMS, Ready};
use results::Results;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How much is measured.
struct Effort {
    /// Turns of each candidate.
    rounds: usize,
    /// How long one stretch of load lasts.
    stretch: Duration,
    /// Stretches of each candidate at each number in flight.
    stretches: usize,
    /// How often the pool is filled to see what its sandboxes take.
    fillings: usize,
    /// How long memory may take to be given back between them.
    settling: Duration,
    /// Records of earlier runs that a server has.
    records: usize,
}

impl Effort {
    fn of(rounds: usize) -> Effort {
        Effort {
            rounds,
            stretch: Duration::from_secs(2),
            stretches: 3,
            fillings: 3,
            settling: Duration::from_secs(20),
            records: 1_000_000,
        }
    }

    /// Everything, with figures that mean little.
    fn quick() -> Effort {
        Effort {
            rounds: 4,
            stretch: Duration::from_millis(200),
            stretches: 1,
            fillings: 1,
            settling: Duration::from_secs(1),
            records: 2_000,
        }
    }
}

/// What all parts measure with.
struct Bench {
    effort: Effort,
    ours: Ours,
    peers: Peers,
    fresh: Arc<Fresh>,
    bar: ProgressBar,
}

pub(crate) fn run(args: BenchArgs) -> Result<ExitCode> {
    // An interpreter may outlive the one it is a copy of, and what it uses is still ours.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let effort = if args.quick { Effort::quick() } else { Effort::of(args.rounds) };
    let wanted = Wanted(&args.only);
    let ours = Ours::new()?;
    let peers = Peers::new()?;
    let fresh = Arc::new(Fresh::default());
    let programs = PROGRAMS
        .iter()
        .filter(|program| wanted.has(program.part))
        .map(|program| Ready::new(program, &ours, &peers, &fresh).map(Arc::new))
        .collect::<Result<Vec<_>>>()?;
    let bar = progress();
    let bench = Bench { effort, ours, peers, fresh, bar };

    let mut results = Results::new(bench.effort.rounds)?;
    let parts = [
        (BenchPart::Latency, latency::steps as fn(&Bench, &[Arc<Ready>]) -> u64, latency::measure as Measure),
        (BenchPart::Load, load::steps, load::measure),
        (BenchPart::Memory, memory::steps, memory::measure),
        (BenchPart::Deadline, deadline::steps, deadline::measure),
        (BenchPart::Server, server::steps, server::measure),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|(part, ..)| wanted.has(*part)).collect();
    bench.bar.set_length(parts.iter().map(|(_, steps, _)| steps(&bench, &programs)).sum());
    for (_, _, measure) in parts {
        measure(&bench, &programs, &mut results)?;
    }
    bench.bar.finish_and_clear();
    results.targets = targets::judge(&results);

    for (path, content) in
        [(&args.save, serde_json::to_string_pretty(&results)? + "\n"), (&args.svg, chart::draw(&results))]
    {
        if let Some(path) = path {
            std::fs::write(path, content).with_context(|| format!("`{}`", path.display()))?;
        }
    }
    if args.json {
        show::print_json(&results)?;
    } else {
        show::print(&page::page(&results))?;
    }
    Ok(ExitCode::SUCCESS)
}

type Measure = fn(&Bench, &[Arc<Ready>], &mut Results) -> Result<()>;

/// What was asked for: of programs and of parts those that are named, or all when none is.
struct Wanted<'a>(&'a [BenchPart]);

impl Wanted<'_> {
    fn has(&self, part: BenchPart) -> bool {
        let mut alike = self.0.iter().filter(|named| named.is_program() == part.is_program()).peekable();
        alike.peek().is_none() || alike.any(|named| *named == part)
    }
}

fn progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    match ProgressStyle::with_template("{bar:32} {percent}% {msg}, {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_leaves_out_the_rest_of_its_kind_only() {
        let has = |named: &[BenchPart], part| Wanted(named).has(part);
        assert!(has(&[], BenchPart::Bash) && has(&[], BenchPart::Load));
        let one = [BenchPart::Bash];
        assert!(has(&one, BenchPart::Bash) && !has(&one, BenchPart::Python) && has(&one, BenchPart::Load));
        let both = [BenchPart::Bash, BenchPart::Load];
        assert!(has(&both, BenchPart::Load) && !has(&both, BenchPart::Memory) && has(&both, BenchPart::Bash));
    }
}
