//! Everything that came out, in an order that is always the same.

use crate::arguments::Isolator;
use crate::case::Case;
use crate::cell::{Cell, Verdict};
use crate::elsewhere::Elsewhere;
use crate::world::Who;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Most lines kept of what was wrong with a cell.
const KEPT: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Column {
    pub(crate) isolator: Isolator,
    pub(crate) who: Who,
}

impl Column {
    pub(crate) fn name(self) -> &'static str {
        match (self.isolator, self.who) {
            (Isolator::Native, Who::Root) => "native root",
            (Isolator::Native, Who::Plain) => "native user",
            (Isolator::Warm, Who::Root) => "warm root",
            (Isolator::Warm, Who::Plain) => "warm user",
            (Isolator::Rest, Who::Root) => "rest root",
            (Isolator::Rest, Who::Plain) => "rest user",
            (Isolator::Bwrap, Who::Root) => "bwrap root",
            (Isolator::Bwrap, Who::Plain) => "bwrap user",
        }
    }
}

/// Every cell that was tried, by the case's identifier and column.
pub(crate) type Grid = BTreeMap<(String, Column), Cell>;

/// The host on which it was run.
pub(crate) struct Host {
    pub(crate) date: String,
    pub(crate) kernel: String,
    pub(crate) architecture: String,
    pub(crate) cgroup: String,
    pub(crate) landlock: String,
    /// What bounds the suite itself, or why nothing does.
    pub(crate) outer: String,
}

impl Host {
    /// As a board has it that was written before.
    pub(crate) fn read(board: &Value) -> Host {
        let word = |key: &str| board[key].as_str().unwrap_or("unknown").to_owned();
        Host {
            date: word("date"),
            kernel: word("kernel"),
            architecture: word("architecture"),
            cgroup: word("cgroup"),
            landlock: word("landlock_abi"),
            outer: word("outer_cgroup"),
        }
    }
}

pub(crate) struct Scoreboard {
    pub(crate) host: Host,
    pub(crate) columns: Vec<Column>,
    pub(crate) cases: Vec<Case>,
    pub(crate) cells: Grid,
    pub(crate) mutants: Vec<Mutant>,
    pub(crate) elsewhere: Vec<Elsewhere>,
    /// Whether it was judged how long neighbours take.
    pub(crate) timed: bool,
    pub(crate) seconds: f64,
}

/// A build with one layer off, and what noticed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    pub(crate) caught_by: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) pass: usize,
    pub(crate) fail: usize,
    pub(crate) not_applicable: usize,
}

impl Scoreboard {
    pub(crate) fn cell(&self, case: &Case, column: Column) -> Option<&Cell> {
        self.cells.get(&(case.facts.id.clone(), column))
    }

    /// Sections with their cases.
    pub(crate) fn sections(&self) -> Vec<(&str, Vec<&Case>)> {
        let mut sections: Vec<(&str, Vec<&Case>)> = Vec::new();
        for case in &self.cases {
            match sections.iter_mut().find(|(title, _)| *title == case.section) {
                Some((_, cases)) => cases.push(case),
                None => sections.push((&case.section, vec![case])),
            }
        }
        sections
    }

    /// How the cases of a column ended, without the controls of the suite itself.
    pub(crate) fn total(&self, column: Column) -> Total {
        Total::of(self.cells_of(column, false))
    }

    /// How the controls ended, as everybody.
    pub(crate) fn controls(&self) -> Total {
        let native = self.columns.iter().filter(|column| column.isolator == Isolator::Native);
        Total::of(native.flat_map(|column| self.cells_of(*column, true)))
    }

    fn cells_of(&self, column: Column, controls: bool) -> impl Iterator<Item = &Cell> {
        let cases = self.cases.iter().filter(move |case| case.is_control() == controls);
        cases.filter_map(move |case| self.cell(case, column))
    }

    /// Cells of ours that did not pass, though they apply. The comparison is not required to.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (&(String, Column), &Cell)> {
        let ours = self.cells.iter().filter(|((_, column), _)| column.isolator.is_ours());
        ours.filter(|(_, cell)| cell.verdict == Verdict::Fail)
    }

    pub(crate) fn json(&self) -> Value {
        let cell = |cell: &Cell| {
            let words: Vec<&String> = cell.words.iter().take(KEPT).collect();
            json!({
                "verdict": cell.verdict.name(),
                "seconds": (cell.seconds * 1000.0).round() / 1000.0,
                "words": words,
                "notes": cell.notes,
            })
        };
        let case = |case: &Case| {
            let of = |column: &Column| Some((column.name(), cell(self.cell(case, *column)?)));
            let cells: BTreeMap<&str, Value> = self.columns.iter().filter_map(of).collect();
            json!({
                "id": case.facts.id,
                "section": case.section,
                "severity": case.facts.severity,
                "tries": case.facts.tries,
                "must": case.facts.must,
                "cells": cells,
            })
        };
        let totals: BTreeMap<&str, Value> =
            self.columns.iter().map(|c| (c.name(), self.total(*c).json())).collect();
        json!({
            "date": self.host.date,
            "kernel": self.host.kernel,
            "architecture": self.host.architecture,
            "cgroup": self.host.cgroup,
            "landlock_abi": self.host.landlock,
            "outer_cgroup": self.host.outer,
            "seconds": self.seconds.round(),
            "columns": self.columns.iter().map(|column| column.name()).collect::<Vec<_>>(),
            "totals": totals,
            "controls": self.controls().json(),
            "mutants": self.mutants,
            "proven_elsewhere": self.elsewhere,
            "cases": self.cases.iter().map(case).collect::<Vec<_>>(),
        })
    }
}

impl Total {
    fn of<'a>(cells: impl Iterator<Item = &'a Cell>) -> Total {
        let mut total = Total::default();
        for cell in cells {
            match cell.verdict {
                Verdict::Pass => total.pass += 1,
                Verdict::Fail => total.fail += 1,
                Verdict::NotApplicable => total.not_applicable += 1,
            }
        }
        total
    }

    fn json(self) -> Value {
        json!({ "pass": self.pass, "fail": self.fail, "not_applicable": self.not_applicable })
    }
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::NotApplicable => "n/a",
        }
    }
}

impl Mutant {
    /// What is known of mutants; nothing if none was tried.
    pub(crate) fn load(path: &Path) -> Vec<Mutant> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Notes what became of one, in place of what was known of it.
    pub(crate) fn note(self, path: &Path) -> Result<(), String> {
        let mut all = Mutant::load(path);
        all.retain(|other| other.name != self.name);
        all.push(self);
        all.sort_by(|one, other| one.name.cmp(&other.name));
        let text = serde_json::to_string_pretty(&all).map_err(|e| e.to_string())?;
        write(path, &(text + "\n"))
    }
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, text)).map_err(|e| format!("{}: {e}", path.display()))
}
