//! The scoreboard on a terminal.

use crate::cell::Verdict;
use crate::progress::SHOWN;
use crate::scoreboard::Scoreboard;
use owo_colors::OwoColorize;
use std::fmt::Write;

const WIDTH: usize = 12;

pub(crate) fn matrix(board: &Scoreboard) -> String {
    let host = &board.host;
    let mut text = format!(
        "{} · Linux {} {} · cgroup {} · Landlock ABI {}\nouter cgroup: {}\n",
        host.date, host.kernel, host.architecture, host.cgroup, host.landlock, host.outer
    );
    let columns: String = board.columns.iter().map(|column| format!("{:WIDTH$}", column.name())).collect();
    for (title, cases) in board.sections() {
        let _ = writeln!(text, "\n{:32}{columns}", title.bold());
        for case in cases {
            let facts = &case.facts;
            let _ = write!(text, "  {:10} {}  ", facts.id, facts.severity);
            let tries: String = facts.tries.chars().take(16).collect();
            let _ = write!(text, "{tries:17}");
            for column in &board.columns {
                let verdict = board.cell(case, *column).map(|cell| cell.verdict);
                let word = format!("{:WIDTH$}", verdict.map_or("-", Verdict::name));
                let _ = match verdict {
                    Some(Verdict::Pass) => write!(text, "{}", word.green()),
                    Some(Verdict::Fail) => write!(text, "{}", word.red()),
                    _ => write!(text, "{}", word.dimmed()),
                };
            }
            text.push('\n');
        }
    }
    text.push('\n');
    for column in &board.columns {
        let total = board.total(*column);
        let tried = total.pass + total.fail;
        let _ = writeln!(
            text,
            "{:14} {} of {tried} pass, {} do not apply",
            column.name(),
            total.pass,
            total.not_applicable
        );
    }
    let controls = board.controls();
    let tried = controls.pass + controls.fail;
    if tried > 0 {
        let _ = writeln!(text, "{:14} {} of {tried} noticed", "controls", controls.pass);
    }
    let caught = board.mutants.iter().filter(|mutant| mutant.caught_by.is_some()).count();
    if !board.mutants.is_empty() {
        let _ = writeln!(text, "{:14} {caught} of {} caught", "mutants", board.mutants.len());
    }
    let _ = writeln!(text, "{:14} {:.0} s", "time", board.seconds);
    text + &failures(board)
}

/// What has to be mended, last: whoever sees only the end of a log sees this.
fn failures(board: &Scoreboard) -> String {
    let mut text = String::new();
    for ((id, column), cell) in board.failed() {
        let _ = writeln!(text, "{} {id} {}", "fail".red(), column.name());
        for words in cell.words.iter().take(SHOWN) {
            let _ = writeln!(text, "        {words}");
        }
    }
    text
}
