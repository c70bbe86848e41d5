//! The scoreboard as a page.

use crate::case::Case;
use crate::cell::{Cell, Verdict};
use crate::scoreboard::{Column, Scoreboard};
use std::fmt::Write;

const HEAD: &str = "\
# Attacks

<!-- Written by `make attacks`; changes made by hand are lost. -->

What hostile programs tried on sandboxes, and what came of it. Every case is run as root and as a plain user. How the
suite works, and how to add a case, is in [tests/attacks](../../tests/attacks/README.md); what the layers are is in
[SECURITY.md](../../SECURITY.md).
";

const CONDITIONS: &str = "\
A case passes only if what its line says was observed and all of this held, too:

- no canary appeared in any output, record, saved file, cache or temporary file: they lie in a file of the host, in the
  environment of the command, in a private file of its user, in another sandbox of that user and in a neighbour's
- nobody reached a listener of the host, and no packet reached its network
- our programs, files of the host and 20 kernel settings are byte for byte what they were
- within 2 s nothing was left: process, thread, network namespace, cgroup, mount, file, System V object, key, shared
  memory
- a neighbour who runs a small program every 100 ms never failed; NEIGHBOUR
- the record was well-formed, agreed with itself and with the exit code, and the next ordinary run worked

The columns `rest` are the same programs sent to `POST /api/v1/execute` of one server with a warm pool, which lives for the
whole column, and attacks on that server. There, places that wait in its pool are no left-overs, and how quick neighbours
are beside a loud program is not asked again. Runs that drive the command, or use options that REST has not, are left out.

The columns under `bwrap` are a comparison, not a requirement: the same programs under plain `bwrap --unshare-all
--die-with-parent --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp`. `fail` there often means that it does not claim
to do this at all; it has no limits, and gives no record. What only a record could tell is not asked of it, nor are
neighbours. bubblewrap's own words are that its arguments decide what it protects from.
";

/// What stands for `NEIGHBOUR` where it was judged how long neighbours take.
const TIMED: &str = "\
beside loud cases its p99 stayed within twice its
  quiet value, over 100 rounds or more where a first look found it slower";
const NOT_TIMED: &str = "how long it took beside loud cases was not judged this time";

const NOT_PROMISED: &str = "\
## What this does not show

- The kernel is shared. A hole in a system call that is allowed is a hole in every sandbox, and no case here tries one.
- Side channels of processor, caches, memory and timing are neither closed nor tried.
- A case shows that one way was shut on one host at one time. Other ways of the same kind may exist.
- Figures depend on the host. Run `make attacks` on yours.
";

pub(crate) fn page(board: &Scoreboard) -> String {
    let mut text = String::from(HEAD);
    text += &host(board);
    text += &totals(board);
    text.push('\n');
    text += &CONDITIONS.replace("NEIGHBOUR", if board.timed { TIMED } else { NOT_TIMED });
    for (title, cases) in board.sections() {
        text += &section(board, title, &cases);
    }
    text += &reasons(board);
    text += &elsewhere(board);
    text += &mutants(board);
    text.push('\n');
    text += NOT_PROMISED;
    text
}

fn host(board: &Scoreboard) -> String {
    let host = &board.host;
    format!(
        "\n| | |\n| --- | --- |\n| Date | {} |\n| Kernel | Linux {}, {} |\n| cgroup | {} |\n| Landlock | ABI {} |\n\
        | Outer cgroup of the suite | {} |\n| Time | {:.0} s |\n",
        host.date, host.kernel, host.architecture, host.cgroup, host.landlock, host.outer, board.seconds
    )
}

fn totals(board: &Scoreboard) -> String {
    let mut text = String::from("\n| | Pass | Fail | Does not apply |\n| --- | ---: | ---: | ---: |\n");
    for column in &board.columns {
        let total = board.total(*column);
        let name =
            if column.isolator.is_ours() { format!("**{}**", column.name()) } else { column.name().into() };
        let _ = writeln!(text, "| {name} | {} | {} | {} |", total.pass, total.fail, total.not_applicable);
    }
    let controls = board.controls();
    text.push('\n');
    if !board.mutants.is_empty() {
        let caught = board.mutants.iter().filter(|mutant| mutant.caught_by.is_some()).count();
        let _ = writeln!(
            text,
            "Mutation score: **{caught} of {}** weakened builds are caught.",
            board.mutants.len()
        );
    }
    let _ = writeln!(
        text,
        "Controls: {} of {} kinds of harm done on purpose are noticed.",
        controls.pass,
        controls.pass + controls.fail
    );
    text
}

fn section(board: &Scoreboard, title: &str, cases: &[&Case]) -> String {
    let heads: String = board.columns.iter().map(|column| format!(" {} |", column.name())).collect();
    let rules = " :---: |".repeat(board.columns.len());
    let mut text = format!(
        "\n## {title}\n\n| Case | | Tries | Must happen |{heads}\n| --- | --- | --- | --- |{rules}\n"
    );
    for case in cases {
        let facts = &case.facts;
        let cells: String =
            board.columns.iter().map(|column| format!(" {} |", mark(board, case, *column))).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |{cells}",
            facts.id,
            facts.severity,
            escaped(&facts.tries),
            escaped(&facts.must)
        );
    }
    text
}

fn mark(board: &Scoreboard, case: &Case, column: Column) -> &'static str {
    match board.cell(case, column).map(|cell| cell.verdict) {
        Some(Verdict::Pass) => "pass",
        Some(Verdict::Fail) => "**fail**",
        Some(Verdict::NotApplicable) => "n/a",
        None => "",
    }
}

/// Why something does not apply or failed, once for each reason. The comparison's failures are not explained.
fn reasons(board: &Scoreboard) -> String {
    let mut text = String::new();
    for case in &board.cases {
        let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
        for column in &board.columns {
            let Some(cell) = board.cell(case, *column) else { continue };
            let Some(line) = reason(cell, *column) else { continue };
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, columns)) => columns.push(column.name()),
                None => lines.push((line, vec![column.name()])),
            }
        }
        for (line, columns) in lines {
            let _ = writeln!(text, "- {}, {}: {}", case.facts.id, columns.join(" and "), escaped(&line));
        }
    }
    if text.is_empty() { text } else { format!("\n## Why not\n\n{text}") }
}

fn reason(cell: &Cell, column: Column) -> Option<String> {
    match cell.verdict {
        Verdict::NotApplicable => Some(format!("n/a: {}", cell.words.join("; "))),
        Verdict::Fail if column.isolator.is_ours() => Some(format!("fail: {}", cell.words.join("; "))),
        _ => None,
    }
}

/// Cases that other tests prove: a list, and no verdict.
fn elsewhere(board: &Scoreboard) -> String {
    let mut text = String::from(
        "\n## Proven elsewhere\n\nCases that other tests of this project prove. They were not run for this page, and count \
        nowhere on it.\n\n| Case | | Tries | Must happen | Tests |\n| --- | --- | --- | --- | --- |\n",
    );
    for case in &board.elsewhere {
        let tests: Vec<String> = case.proven_by.iter().map(|test| format!("`{test}`")).collect();
        let (tries, must) = (escaped(&case.tries), escaped(&case.must));
        let _ =
            writeln!(text, "| {} | {} | {tries} | {must} | {} |", case.id, case.severity, tests.join(", "));
    }
    text
}

fn mutants(board: &Scoreboard) -> String {
    if board.mutants.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n## Mutants\n\nBuilds with one layer off, which no release contains. A case has to notice each of them.\n\n\
        | Layer off | Caught by |\n| --- | --- |\n",
    );
    for mutant in &board.mutants {
        let by = mutant.caught_by.as_deref().unwrap_or("**nobody**");
        let _ = writeln!(text, "| {} | {} |", escaped(&mutant.name), escaped(by));
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}
