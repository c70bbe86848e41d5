//! What came of it, as people read it.

use super::deadline::TIMEOUT_MS;
use super::results::Results;
use super::targets::Verdict;
use crate::args::BenchPart;
use crate::show;
use clap::ValueEnum;

pub(crate) fn page(results: &Results) -> String {
    let mut parts = Vec::new();
    let mut add = |title: &str, table: Option<comfy_table::Table>| {
        parts.extend(table.map(|table| format!("{title}\n{table}")));
    };
    add("ONE RUN", latency(results));
    add("SEVERAL IN FLIGHT", load(results));
    add("WAITING", memory(results));
    add(&format!("BEYOND A TIME-OUT OF {TIMEOUT_MS} ms"), deadline(results));
    add("THROUGH THE SERVER", server(results));
    add("TARGETS", targets(&results.targets));
    let mut last = absent(results);
    let machine = &results.machine;
    last += &format!(
        "{} rounds, candidates taking turns, {}; {} processors, kernel {}, {}, load {} before",
        results.rounds,
        machine.date,
        machine.processors,
        machine.kernel,
        if machine.root { "as root" } else { "as a plain user" },
        machine.load
    );
    parts.push(last);
    parts.join("\n\n")
}

/// A line for each reason, with everybody it kept away.
fn absent(results: &Results) -> String {
    let mut reasons: Vec<(&str, Vec<String>, Vec<String>)> = Vec::new();
    for absent in &results.absent {
        let index = reasons.iter().position(|(why, ..)| *why == absent.why).unwrap_or_else(|| {
            reasons.push((&absent.why, Vec::new(), Vec::new()));
            reasons.len() - 1
        });
        let (_, by, programs) = &mut reasons[index];
        for (list, name) in [(by, format!("`{}`", absent.by)), (programs, name(absent.program))] {
            if !list.contains(&name) {
                list.push(name);
            }
        }
    }
    let line = |(why, by, programs): &(&str, Vec<String>, Vec<String>)| {
        format!("no {} for {}: {why}\n", by.join(" and "), programs.join(", "))
    };
    reasons.iter().map(line).collect()
}

fn name(part: BenchPart) -> String {
    part.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn latency(results: &Results) -> Option<comfy_table::Table> {
    let mut table = show::table(&["PROGRAM", "BY", "TO BARE", "P50", "P99"]);
    let mut groups = Groups::default();
    for row in &results.latency {
        table.add_row([
            groups.name(row.title),
            row.by.to_owned(),
            ratio(row.ratio_to_bare),
            millis(row.times.p50_ms),
            millis(row.times.p99_ms),
        ]);
    }
    (!results.latency.is_empty()).then_some(table)
}

fn server(results: &Results) -> Option<comfy_table::Table> {
    let mut table = show::table(&["REQUEST", "RECORDS BEFORE", "TO BARE", "TO EMPTY", "P50", "P99"]);
    for row in &results.server {
        table.add_row([
            row.title.to_owned(),
            row.records.to_string(),
            ratio(row.ratio_to_bare),
            ratio(row.ratio_to_empty),
            millis(row.times.p50_ms),
            millis(row.times.p99_ms),
        ]);
    }
    (!results.server.is_empty()).then_some(table)
}

fn load(results: &Results) -> Option<comfy_table::Table> {
    let header =
        ["PROGRAM", "BY", "IN FLIGHT", "TIMES BARE", "RUNS/S", "P50", "CPU EACH", "WHOLE MACHINE", "HITS"];
    let mut table = show::table(&header);
    let mut groups = Groups::default();
    for row in &results.load {
        table.add_row([
            groups.name(row.title),
            row.by.to_owned(),
            row.in_flight.to_string(),
            ratio(row.times_bare),
            format!("{:.1}", row.runs_per_second),
            millis(row.times.p50_ms),
            millis(row.cpu_ms_per_run),
            millis(row.machine_cpu_ms_per_run),
            row.hit_share.map_or("-".into(), |share| format!("{:.0}%", share * 100.0)),
        ]);
    }
    (!results.load.is_empty()).then_some(table)
}

fn memory(results: &Results) -> Option<comfy_table::Table> {
    let mut table = show::table(&["PROGRAM", "EACH", "LOWEST", "HIGHEST", "IN A GIB", "CHARGED"]);
    for row in &results.memory {
        let size = |bytes: f64| format!("{:.0} kB", bytes / 1024.0);
        table.add_row([
            row.title.to_owned(),
            size(row.bytes_each),
            size(row.lowest),
            size(row.highest),
            row.per_gib.map_or("-".into(), |count| format!("{count:.0}")),
            row.charged_each.map_or("-".into(), size),
        ]);
    }
    (!results.memory.is_empty()).then_some(table)
}

fn deadline(results: &Results) -> Option<comfy_table::Table> {
    let mut table = show::table(&["LANGUAGE", "BY", "P50", "P99"]);
    let mut groups = Groups::default();
    for row in &results.deadline {
        table.add_row([
            groups.name(row.language),
            row.by.to_owned(),
            millis(row.times.p50_ms),
            millis(row.times.p99_ms),
        ]);
    }
    (!results.deadline.is_empty()).then_some(table)
}

fn targets(verdicts: &[Verdict]) -> Option<comfy_table::Table> {
    let mut table = show::table(&["WHAT", "TARGET", "MEASURED", ""]);
    for verdict in verdicts {
        let said = match verdict.reached {
            Some(true) => "reached",
            Some(false) => "not reached",
            None => "not measured",
        };
        let measured = verdict.measured.map_or("-".into(), ratio);
        table.add_row([verdict.what.to_owned(), verdict.target.clone(), measured, said.to_owned()]);
    }
    (!verdicts.is_empty()).then_some(table)
}

/// Names a group in its first row only.
#[derive(Default)]
struct Groups(String);

impl Groups {
    fn name(&mut self, name: &str) -> String {
        if self.0 == name {
            return String::new();
        }
        self.0 = name.to_owned();
        self.0.clone()
    }
}

/// A ratio with as many digits as matter.
pub(crate) fn ratio(value: f64) -> String {
    match value.abs() {
        v if v < 0.1 => format!("{value:.4}"),
        v if v < 1.0 => format!("{value:.3}"),
        v if v < 10.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

/// Milliseconds, down to microseconds.
pub(crate) fn millis(value: f64) -> String {
    match value.abs() {
        v if v < 10.0 => format!("{value:.3} ms"),
        v if v < 100.0 => format!("{value:.1} ms"),
        _ => format!("{value:.0} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::Absent;
    use super::*;

    #[test]
    fn figures_have_the_digits_that_matter() {
        assert_eq!(
            [0.0123, 0.2034, 1.0, 3.37, 41.7, 1161.2, -0.5].map(ratio),
            ["0.0123", "0.203", "1.00", "3.37", "42", "1161", "-0.500"]
        );
        assert_eq!([0.15, 13.37, 470.2].map(millis), ["0.150 ms", "13.4 ms", "470 ms"]);
    }

    #[test]
    fn a_reason_is_told_once() {
        let mut results = Results::new(1).unwrap();
        for (part, program, by, why) in [
            ("latency", BenchPart::Python, "a", "why"),
            ("latency", BenchPart::Numpy, "b", "why"),
            ("load", BenchPart::Python, "a", "why"),
            ("latency", BenchPart::Python, "c", "other"),
        ] {
            results.absent.push(Absent { part, program, by, why: why.into() });
        }
        assert_eq!(absent(&results), "no `a` and `b` for python, numpy: why\nno `c` for python: other\n");
    }

    #[test]
    fn a_group_is_named_once() {
        let mut groups = Groups::default();
        assert_eq!(["a", "a", "b", "a"].map(|name| groups.name(name)), ["a", "", "b", "a"]);
    }
}
