//! Runs hostile programs in sandboxes, as root and as a plain user, and shows what held.
//!
//! Cases are data, in `cases/`; the README says how to add one.
#![cfg(test)]

mod arguments;
mod bwrap;
mod canaries;
mod case;
mod cell;
#[path = "../rest/client.rs"]
mod client;
mod drives;
mod elsewhere;
mod guarded;
mod halves;
mod listeners;
mod matrix;
mod neighbour;
mod outer;
mod page;
mod pattern;
mod progress;
mod record;
mod request;
mod scoreboard;
mod seen;
mod served;
mod stage;
mod standing;
#[path = "../support/mod.rs"]
mod support;
mod traces;
mod turns;
mod watchdog;
mod world;

use arguments::{Arguments, Isolator, WhoArgument};
use case::Case;
use cell::{Cell, Cells, Verdict};
use clap::Parser;
use elsewhere::Elsewhere;
use progress::Progress;
use scoreboard::{Column, Grid, Host, Mutant, Scoreboard};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use turns::{Manner, Turns};
use world::{Place, Who, World};

fn main() -> ExitCode {
    // A shell lets what it starts in the background ignore SIGINT, and so would every command that is tried here.
    jail::sys::reset_signals();
    jail::sys::ignore_broken_pipes();
    match attack(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

/// Whether everything is as it should be.
fn attack(arguments: &Arguments) -> Result<bool, String> {
    let began = Instant::now();
    let here = support::repository().join("tests/attacks");
    // Cargo starts us in the folder of a crate, which is nowhere anybody means.
    let or = |given: &Option<PathBuf>, usual: PathBuf| {
        support::repository().join(given.as_ref().unwrap_or(&usual))
    };
    let programs = or(&arguments.programs, here.join("programs"));
    let all = Case::load_all(&or(&arguments.cases, here.join("cases")))?;
    let count = all.len();
    let cases: Vec<Case> = all.into_iter().filter(|case| wanted(arguments, &case.facts.id)).collect();
    if cases.is_empty() {
        return Err(format!("none of {count} cases fits {:?}", arguments.case));
    }
    if arguments.list {
        for case in &cases {
            println!("{:8} {}  {}", case.facts.id, case.facts.severity, case.facts.tries);
        }
        return Ok(true);
    }
    let columns = columns(arguments)?;
    let elsewhere = Elsewhere::load(&here.join("elsewhere.toml"), &support::repository())?;
    let narrowed = arguments.who.is_some() || arguments.column.is_some() || arguments.no_compare;
    let whole = cases.len() == count && !narrowed && arguments.cases.is_none();
    let target = support::repository().join("target");
    let mutants = or(&arguments.mutants, target.join("attacks/mutants.json"));
    quiet_panics();
    let (host, cells) = if arguments.both_at_once {
        halves::try_both(arguments, &cases, &columns)?
    } else {
        let binaries = or(&arguments.binaries, target.join("release"));
        let tried = try_all(arguments, &cases, &columns, &binaries, &programs)?;
        if let Some(name) = &arguments.mutant {
            match &tried.caught_by {
                Some(by) => println!("caught by {by}"),
                None => println!("`{name}` survived"),
            }
            let caught = tried.caught_by.is_some();
            Mutant { name: name.clone(), caught_by: tried.caught_by }.note(&mutants)?;
            return Ok(caught);
        }
        (tried.host.ok_or("nobody to run as")?, tried.cells)
    };
    let board = Scoreboard {
        host,
        columns,
        cases,
        cells,
        mutants: Mutant::load(&mutants),
        elsewhere,
        timed: !arguments.no_timing,
        seconds: began.elapsed().as_secs_f64(),
    };
    anstream::print!("{}", matrix::matrix(&board));
    if whole || arguments.json.is_some() {
        let path = or(&arguments.json, target.join("attacks/scoreboard.json"));
        scoreboard::write(&path, &format!("{:#}\n", board.json()))?;
    }
    if whole || arguments.markdown.is_some() {
        let path = or(&arguments.markdown, support::repository().join("docs/reference/attacks.md"));
        scoreboard::write(&path, &page::page(&board))?;
    }
    Ok(board.failed().next().is_none())
}

/// What came of cases.
#[derive(Default)]
struct Tried {
    host: Option<Host>,
    cells: Grid,
    /// Which cell noticed that a layer is missing; the last one that was tried.
    caught_by: Option<String>,
}

/// Tries every case in every column, one after the other; a mutant only until it is caught.
fn try_all(
    arguments: &Arguments,
    cases: &[Case],
    columns: &[Column],
    binaries: &Path,
    programs: &Path,
) -> Result<Tried, String> {
    // Whoever is orphaned by a command becomes our child, so that nobody below us can hide.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(|e| e.to_string())?;
    traces::reap_orphans();
    let turns = arguments.turns.as_deref().map(Turns::at);
    if turns.is_some() {
        let end = rustix::process::Signal::TERM; // with the one who started us
        rustix::process::set_parent_process_death_signal(Some(end)).map_err(|e| e.to_string())?;
    }
    let turn = |manner: Manner| turns.as_ref().map(|turns| turns.take(manner)).transpose();
    let beginning = turn(Manner::Beside)?;
    let world = World::new(binaries, programs)?;
    drop(beginning);
    let progress = Progress::new(cases.len() * columns.len(), arguments.verbose, turns.is_some());
    let mut tried = Tried::default();
    // Those that may meet only their like are at the same place in both halves, so that they do.
    let mut cases: Vec<&Case> = cases.iter().collect();
    if turns.is_some() {
        cases.sort_by_key(|case| case.manner());
    }
    for who in [Who::Root, Who::Plain] {
        let columns: Vec<Column> = columns.iter().copied().filter(|column| column.who == who).collect();
        if columns.is_empty() {
            continue;
        }
        let beginning = turn(Manner::Beside)?;
        let timed = arguments.mutant.is_none() && !arguments.no_timing;
        let place = Place::new(&world, who, arguments.mutant.as_deref())?;
        tried.host.get_or_insert_with(|| the_host(&place));
        let user = Cells::new(place, timed);
        drop(beginning);
        for column in columns {
            if column.isolator == Isolator::Rest {
                let _turn = turn(Manner::Beside)?;
                user.serve()?;
            }
            for &case in &cases {
                // A weakened sandbox has nothing to do with what the suite itself notices.
                if case.is_control() && (column.isolator != Isolator::Native || arguments.mutant.is_some()) {
                    continue;
                }
                if arguments.no_timing && case.is_about_timing() {
                    continue;
                }
                let _turn = turn(case.manner())?;
                let there = case.check(programs, |name| drives::find(name).is_some());
                let cell = match (there, column.isolator) {
                    (Err(why), _) => Cell { words: vec![why], ..Cell::default() },
                    (Ok(()), Isolator::Native) => user.native(case),
                    (Ok(()), Isolator::Warm) => user.warm(case),
                    (Ok(()), Isolator::Rest) => user.rest(case),
                    (Ok(()), Isolator::Bwrap) => user.bwrap(case),
                };
                progress.tell(case, column, &cell);
                if arguments.mutant.is_some() && cell.verdict == Verdict::Fail {
                    let by = format!("{} ({})", case.facts.id, column.name());
                    if arguments.passed.contains(&by) || user.passes_with_all_layers(case) {
                        tried.caught_by = Some(by);
                        return Ok(tried);
                    }
                    eprintln!("      {by} fails with every layer in place, too, and proves nothing");
                }
                tried.cells.insert((case.facts.id.clone(), column), cell);
            }
            let _turn = turn(Manner::Beside)?;
            user.close()?;
        }
    }
    progress.end();
    Ok(tried)
}

fn wanted(arguments: &Arguments, id: &str) -> bool {
    let fits = |asked: &String| id.starts_with(asked.as_str()) || pattern::matches(asked, id);
    arguments.case.is_empty() || arguments.case.iter().any(fits)
}

fn columns(arguments: &Arguments) -> Result<Vec<Column>, String> {
    let whos = match arguments.who {
        Some(WhoArgument::Root) => vec![Who::Root],
        Some(WhoArgument::Plain) => vec![Who::Plain],
        None => vec![Who::Root, Who::Plain],
    };
    if whos.contains(&Who::Root) && !support::am_root() {
        return Err("half of the suite runs as root; run it by root, or say `--who plain`".into());
    }
    let isolators = match arguments.column {
        Some(only) => vec![only],
        None if arguments.mutant.is_some() => vec![Isolator::Native],
        None if arguments.no_compare => vec![Isolator::Native, Isolator::Warm, Isolator::Rest],
        None => vec![Isolator::Native, Isolator::Warm, Isolator::Rest, Isolator::Bwrap],
    };
    let of = |isolator: Isolator| whos.iter().map(move |who| Column { isolator, who: *who });
    Ok(isolators.into_iter().flat_map(of).collect())
}

fn the_host(place: &Place) -> Host {
    let record = place.ordinary.run("python", "print(1)").json();
    let system = rustix::system::uname();
    // The version alone; what a builder appended to it says nothing to others.
    let release = system.release().to_string_lossy().into_owned();
    let end = release.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(release.len());
    Host {
        date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        kernel: release[..end].into(),
        architecture: system.machine().to_string_lossy().into_owned(),
        cgroup: record["isolation"]["cgroup"].as_str().unwrap_or("unknown").into(),
        landlock: record["isolation"]["landlock_abi"].to_string(),
        outer: match &place.world.outer {
            Ok(_) => outer::BOUNDS.into(),
            Err(why) => format!("NONE ({why}): only each sandbox's own limits bound what the cases do"),
        },
    }
}

/// A failed assertion is a finding, told with its cell; only what is none of a cell's is told at once.
fn quiet_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(|at| at.file().to_owned()).unwrap_or_default();
        if !place.contains("tests/") {
            usual(panic);
        }
    }));
}
