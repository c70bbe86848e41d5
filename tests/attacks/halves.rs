//! The half of root and the half of the plain user at the same time: two processes of this program, each with a world
//! of its own, which take turns where a case minds the other.

use crate::arguments::Arguments;
use crate::case::Case;
use crate::cell::{Cell, Verdict};
use crate::scoreboard::{Column, Grid, Host};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What is asked of a half, and what it calls itself.
const HALVES: [&str; 2] = ["root", "plain"];

/// The host and all cells, as if they had been tried one after the other.
pub(crate) fn try_both(
    arguments: &Arguments,
    cases: &[Case],
    columns: &[Column],
) -> Result<(Host, Grid), String> {
    let prefix = format!("sandboxd-attacks-{}-", std::process::id());
    let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in("/var/tmp");
    let folder = folder.map_err(|e| format!("/var/tmp: {e}"))?;
    let started = HALVES.map(|who| start(arguments, who, folder.path()));
    let mut boards = Vec::new();
    for (who, half) in HALVES.into_iter().zip(started) {
        let ended = half.and_then(|mut half| half.wait().map_err(|e| e.to_string()));
        let ended = ended.map_err(|why| format!("the half of {who}: {why}"))?;
        // One that found something wrong has a board nevertheless.
        let text = std::fs::read_to_string(board(folder.path(), who)).unwrap_or_default();
        let board: Value = serde_json::from_str(&text).map_err(|_| format!("the half of {who}: {ended}"))?;
        boards.push(board);
    }
    let mut cells = Grid::new();
    for column in columns {
        for case in cases {
            let cell = boards.iter().find_map(|board| cell_of(board, &case.facts.id, column.name()));
            cells.extend(cell.map(|cell| ((case.facts.id.clone(), *column), read(cell))));
        }
    }
    Ok((Host::read(&boards[0]), cells))
}

fn board(folder: &Path, who: &str) -> PathBuf {
    folder.join(format!("{who}.json"))
}

fn start(arguments: &Arguments, who: &str, folder: &Path) -> Result<Child, String> {
    let mut words: Vec<OsString> = Vec::new();
    let mut say = |name: &str, value: OsString| words.extend([OsString::from(name), value]);
    say("--who", who.into());
    say("--turns", folder.into());
    say("--json", board(folder, who).into());
    arguments.case.iter().for_each(|case| say("--case", case.into()));
    let folders = [
        ("--binaries", &arguments.binaries),
        ("--cases", &arguments.cases),
        ("--programs", &arguments.programs),
    ];
    for (name, path) in folders {
        path.iter().for_each(|path| say(name, path.into()));
    }
    if let Some(column) = arguments.column {
        say("--column", format!("{column:?}").to_lowercase().into());
    }
    let flags = [
        ("--no-timing", arguments.no_timing),
        ("--no-compare", arguments.no_compare),
        ("--verbose", arguments.verbose),
    ];
    words.extend(flags.iter().filter(|(_, given)| *given).map(|(name, _)| OsString::from(name)));
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    // What both found is shown by us, once.
    Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())
}

fn cell_of<'a>(board: &'a Value, id: &str, column: &str) -> Option<&'a Value> {
    board["cases"].as_array()?.iter().find(|case| case["id"] == id)?["cells"].get(column)
}

/// A cell as a board has it; one that cannot be understood has failed.
fn read(cell: &Value) -> Cell {
    let lines = |key: &str| {
        let lines = cell[key].as_array().into_iter().flatten();
        lines.filter_map(|line| line.as_str().map(str::to_owned)).collect()
    };
    let good = [Verdict::Pass, Verdict::NotApplicable];
    let verdict = good.into_iter().find(|verdict| cell["verdict"] == verdict.name()).unwrap_or(Verdict::Fail);
    let seconds = cell["seconds"].as_f64().unwrap_or_default();
    Cell { verdict, words: lines("words"), notes: lines("notes"), seconds }
}
