//! What we want to reach, and whether we do. All targets are in this table.

use super::candidate::Candidate;
use super::results::Results;
use super::server::Request;
use crate::args::BenchPart;
use Candidate::{Bare, Bubblewrap, Miss, Nothing, Rehearsed, Runc, Warm};
use serde::Serialize;

/// A figure, and how large it may or must be.
struct Target {
    what: &'static str,
    figure: Figure,
    bound: Bound,
}

enum Figure {
    /// Median of one candidate, the median of another being 1.
    Median(BenchPart, Candidate, Candidate),
    /// 99th percentile of one candidate, the median of another being 1.
    Tail(BenchPart, Candidate, Candidate),
    /// Milliseconds between the medians.
    Later(BenchPart, Candidate, Candidate),
    /// Most runs a second by a warm pool, the most of the bare command being 1.
    Throughput(BenchPart),
    /// Sandboxes that wait in a gibibyte.
    Density(BenchPart),
    /// Median of one request, the median of another being 1.
    Asked(Request, Request),
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

use BenchPart::{Bash, Node, Pandas, Python};
use Bound::{AtLeast, AtMost};
use Figure::{Asked, Density, Later, Median, Tail, Throughput};

#[rustfmt::skip]
const TARGETS: [Target; 17] = [
    Target { what: "warm Python, to bare",               figure: Median(Python, Warm, Bare),     bound: AtMost(0.02) },
    Target { what: "warm Python, p99 to bare p50",       figure: Tail(Python, Warm, Bare),       bound: AtMost(0.10) },
    Target { what: "warm pandas, to bare",               figure: Median(Pandas, Warm, Bare),     bound: AtMost(0.012) },
    Target { what: "warm pandas, rehearsed, to bare",    figure: Median(Pandas, Rehearsed, Bare), bound: AtMost(0.005) },
    Target { what: "Python by a pool miss, to bare",     figure: Median(Python, Miss, Bare),     bound: AtMost(0.15) },
    Target { what: "warm Node.js, to bare",              figure: Median(Node, Warm, Bare),       bound: AtMost(0.05) },
    Target { what: "Bash in a pooled sandbox, ms later", figure: Later(Bash, Warm, Bare),        bound: AtMost(0.3) },
    Target { what: "runs a second, Python, times bare",  figure: Throughput(Python),             bound: AtLeast(5.0) },
    Target { what: "runs a second, pandas, times bare",  figure: Throughput(Pandas),             bound: AtLeast(40.0) },
    Target { what: "Bash from nothing, to bwrap",        figure: Median(Bash, Nothing, Bubblewrap), bound: AtMost(1.0) },
    Target { what: "Bash from nothing, to runc",         figure: Median(Bash, Nothing, Runc),    bound: AtMost(0.2) },
    Target { what: "Python waiting in a GiB",            figure: Density(Python),                bound: AtLeast(1000.0) },
    Target { what: "pandas waiting in a GiB",            figure: Density(Pandas),                bound: AtLeast(500.0) },
    Target { what: "warm Python by REST, to bare",       figure: Asked(Request::Execute, Request::Bare), bound: AtMost(0.04) },
    Target { what: "the same, to an empty request",      figure: Asked(Request::Execute, Request::Empty), bound: AtMost(3.5) },
    Target { what: "with a million records, to none",    figure: Asked(Request::ExecuteAfterMany, Request::Execute), bound: AtMost(1.1) },
    Target { what: "warm Python by MCP, to bare",        figure: Asked(Request::Tool, Request::Bare), bound: AtMost(0.06) },
];

/// A target, and what was measured.
#[derive(Serialize)]
pub(crate) struct Verdict {
    pub(crate) what: &'static str,
    pub(crate) target: String,
    pub(crate) measured: Option<f64>,
    /// `None` when it was not measured.
    pub(crate) reached: Option<bool>,
}

pub(crate) fn judge(results: &Results) -> Vec<Verdict> {
    let verdict = |target: &Target| {
        let measured = target.figure.of(results).filter(|value| value.is_finite());
        Verdict {
            what: target.what,
            target: target.bound.words(),
            measured,
            reached: measured.map(|value| target.bound.holds(value)),
        }
    };
    TARGETS.iter().map(verdict).collect()
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            AtMost(most) => value <= most,
            AtLeast(least) => value >= least,
        }
    }

    fn words(self) -> String {
        match self {
            AtMost(most) => format!("≤ {most}"),
            AtLeast(least) => format!("≥ {least}"),
        }
    }
}

impl Figure {
    fn of(&self, results: &Results) -> Option<f64> {
        let times = |program, candidate| results.latency_of(program, candidate).map(|row| row.times);
        match *self {
            Median(program, of, to) => Some(times(program, of)?.p50_ms / times(program, to)?.p50_ms),
            Tail(program, of, to) => Some(times(program, of)?.p99_ms / times(program, to)?.p50_ms),
            Later(program, of, than) => Some(times(program, of)?.p50_ms - times(program, than)?.p50_ms),
            Throughput(program) => {
                let most = |candidate: Candidate| {
                    let rows = results.load.iter();
                    let rows = rows.filter(|row| row.program == program && row.candidate == candidate);
                    rows.map(|row| row.runs_per_second).max_by(f64::total_cmp)
                };
                Some(most(Warm)? / most(Bare)?)
            }
            Asked(of, to) => {
                let median = |wanted: Request| {
                    let row = results.server.iter().find(|row| row.request == wanted);
                    row.map(|row| row.times.p50_ms)
                };
                Some(median(of)? / median(to)?)
            }
            Density(program) => {
                results.memory.iter().find(|row| row.program == program).and_then(|row| row.per_gib)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::{LatencyRow, LoadRow, MemoryRow};
    use super::super::statistics::Summary;
    use super::*;

    fn row(program: BenchPart, candidate: Candidate, p50_ms: f64, p99_ms: f64) -> LatencyRow {
        let times = Summary { samples: 9, p50_ms, p99_ms };
        LatencyRow { program, title: "", candidate, by: "", ratio_to_bare: 0.0, times }
    }

    #[test]
    fn what_was_not_measured_is_neither_reached_nor_missed() {
        let verdicts = judge(&Results::new(1).unwrap());
        assert_eq!(verdicts.len(), TARGETS.len());
        assert!(verdicts.iter().all(|verdict| verdict.measured.is_none() && verdict.reached.is_none()));
    }

    #[test]
    fn figures_are_taken_from_the_right_rows() {
        let mut results = Results::new(1).unwrap();
        results.latency = vec![
            row(Python, Bare, 10.0, 40.0),
            row(Python, Warm, 0.2, 1.1),
            row(Bash, Bare, 2.0, 3.0),
            row(Bash, Bubblewrap, 4.0, 5.0),
            row(Bash, Runc, 40.0, 50.0),
            row(Bash, Nothing, 5.0, 6.0),
        ];
        let load = |candidate, in_flight, runs_per_second| LoadRow {
            program: Python,
            title: "",
            candidate,
            by: "",
            in_flight,
            runs_per_second,
            times_bare: 0.0,
            cpu_ms_per_run: 0.0,
            machine_cpu_ms_per_run: 0.0,
            hit_share: None,
            times: Summary { samples: 1, p50_ms: 0.0, p99_ms: 0.0 },
        };
        results.load =
            vec![load(Bare, 1, 80.0), load(Bare, 2, 100.0), load(Warm, 1, 600.0), load(Warm, 8, 500.0)];
        results.memory = vec![MemoryRow {
            program: Python,
            title: "",
            waiting: 20,
            bytes_each: 1.0,
            lowest: 1.0,
            highest: 1.0,
            charged_each: None,
            per_gib: Some(900.0),
        }];
        let verdicts = judge(&results);
        let said = |what: &str| {
            let verdict = verdicts.iter().find(|verdict| verdict.what == what).unwrap();
            (verdict.measured, verdict.reached)
        };
        assert_eq!(said("warm Python, to bare"), (Some(0.02), Some(true)));
        assert_eq!(said("warm Python, p99 to bare p50"), (Some(0.11000000000000001), Some(false)));
        assert_eq!(said("runs a second, Python, times bare"), (Some(6.0), Some(true)));
        assert_eq!(said("Bash from nothing, to bwrap"), (Some(1.25), Some(false)));
        assert_eq!(said("Bash from nothing, to runc"), (Some(0.125), Some(true)));
        assert_eq!(said("Python waiting in a GiB"), (Some(900.0), Some(false)));
        assert_eq!(said("Bash in a pooled sandbox, ms later"), (None, None));
    }
}
