//! What is told while cases are tried: a line for each cell, and on a terminal a bar below.

use crate::case::Case;
use crate::cell::{Cell, Verdict};
use crate::scoreboard::Column;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Most lines that are shown of what was wrong with a cell.
pub(crate) const SHOWN: usize = 8;

pub(crate) struct Progress {
    bar: ProgressBar,
    verbose: bool,
}

impl Progress {
    /// One half of a suite has no bar: the other one writes to the same terminal.
    pub(crate) fn new(cells: usize, verbose: bool, half: bool) -> Progress {
        let bar = if std::io::stderr().is_terminal() && !half {
            ProgressBar::new(cells as u64)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed}") {
            bar.set_style(style);
        }
        Progress { bar, verbose }
    }

    pub(crate) fn tell(&self, case: &Case, column: Column, cell: &Cell) {
        let verdict = cell.verdict.name();
        let mut lines =
            vec![format!("{verdict:5} {:8} {:12} {:.1} s", case.facts.id, column.name(), cell.seconds)];
        lines[0].extend(cell.notes.iter().map(|note| format!("  ({note})")));
        let expected = !column.isolator.is_ours() || cell.verdict == Verdict::NotApplicable;
        if self.verbose || (cell.verdict == Verdict::Fail && !expected) {
            let most = if self.verbose { usize::MAX } else { SHOWN };
            lines.extend(cell.words.iter().take(most).map(|words| format!("        {words}")));
            if cell.words.len() > most {
                lines.push(format!("        and {} more", cell.words.len() - most));
            }
        }
        self.bar.suspend(|| eprintln!("{}", lines.join("\n")));
        self.bar.inc(1);
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
