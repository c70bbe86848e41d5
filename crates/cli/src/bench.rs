//! `sandboxd bench`: our sandbox beside the bare command and bubblewrap, in one run.
//!
//! Candidates take turns in every round, so that whatever else the machine does hits all of them alike. The
//! ratio to the bare command of the same run is the result; absolute times are context.

use crate::{settings, show};
use anyhow::{Context, Result, bail};
use engine::{Engine, Request, Status};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use tokio::sync::mpsc;

/// What is run: its name, the bare command, and the same for us.
const PROGRAMS: [(&str, &[&str], &str, &str); 2] = [
    ("bash -c true", &["/usr/bin/bash", "-c", "true"], "bash", "true"),
    ("python3 -c 'print(1)'", &["/usr/bin/python3", "-c", "print(1)"], "python", "print(1)"),
];

/// The least that makes bubblewrap isolate, with the environment we give.
const BWRAP: &str = "--unshare-all --die-with-parent --new-session --clearenv --setenv LANG C.UTF-8 \
    --setenv PATH /usr/bin --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib \
    --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp";

#[derive(Serialize)]
struct Row {
    program: &'static str,
    candidate: &'static str,
    p50_ms: f64,
    p99_ms: f64,
    ratio_to_bare: f64,
}

pub(crate) fn run(rounds: usize, json: bool) -> Result<ExitCode> {
    let engine = settings::engine()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bar = if json || !std::io::stderr().is_terminal() {
        indicatif::ProgressBar::hidden()
    } else {
        indicatif::ProgressBar::new((rounds * PROGRAMS.len()) as u64)
    };
    let mut rows = Vec::new();
    for (program, bare, language, code) in PROGRAMS {
        rows.extend(measure(&engine, &runtime, &bar, rounds, program, bare, language, code)?);
    }
    bar.finish_and_clear();
    if json {
        show::print(&serde_json::to_string(&rows)?)?;
    } else {
        show::print(&page(&rows, rounds))?;
    }
    Ok(ExitCode::SUCCESS)
}

const BARE: &str = "bare";
const BUBBLEWRAP: &str = "bwrap --unshare-all";
const ISOLATOR: &str = "native isolator";
const COMMAND: &str = "sandboxd run";

#[expect(clippy::too_many_arguments, reason = "one call, from the line above")]
fn measure(
    engine: &Engine,
    runtime: &tokio::runtime::Runtime,
    bar: &indicatif::ProgressBar,
    rounds: usize,
    program: &'static str,
    bare: &[&str],
    language: &str,
    code: &str,
) -> Result<Vec<Row>> {
    let own = std::env::current_exe()?;
    let mut candidates: [(&'static str, Vec<f64>); 4] =
        [BARE, BUBBLEWRAP, ISOLATOR, COMMAND].map(|name| (name, Vec::with_capacity(rounds)));
    // The first round warms caches and is not counted.
    for round in 0..=rounds {
        for turn in 0..candidates.len() {
            // Nobody is always first.
            let index = (round + turn) % candidates.len();
            let (name, times) = &mut candidates[index];
            let took = match *name {
                BARE => spawn(PathBuf::from(bare[0]), &bare[1..])?,
                BUBBLEWRAP => {
                    let words: Vec<&str> = BWRAP.split_whitespace().chain(bare.iter().copied()).collect();
                    spawn("bwrap".into(), &words)?
                }
                ISOLATOR => runtime.block_on(isolated(engine, language, code))?,
                _ => spawn(own.clone(), &["run", "-l", language, "-c", code])?,
            };
            if round > 0 {
                times.push(took);
            }
        }
        bar.inc(u64::from(round > 0));
    }
    for (_, times) in &mut candidates {
        times.sort_by(f64::total_cmp);
    }
    let at = |times: &[f64], share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let base = at(&candidates[0].1, 0.5);
    Ok(candidates
        .iter()
        .map(|(candidate, times)| Row {
            program,
            candidate,
            p50_ms: at(times, 0.5),
            p99_ms: at(times, 0.99),
            ratio_to_bare: at(times, 0.5) / base,
        })
        .collect())
}

/// A command from start to end.
fn spawn(program: PathBuf, args: &[&str]) -> Result<f64> {
    let began = Instant::now();
    let status = Command::new(&program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| {
            format!("`{}`; `scripts/setup tools` installs what is compared", program.display())
        })?;
    let took = began.elapsed();
    if !status.success() {
        bail!("`{}` failed: {status}", program.display());
    }
    Ok(took.as_secs_f64() * 1000.0)
}

/// A request to a running engine, from the call to the record, the sandbox made for it alone.
async fn isolated(engine: &Engine, language: &str, code: &str) -> Result<f64> {
    let request = Request::new(language, code);
    let (events, mut happening) = mpsc::channel(64);
    let began = Instant::now();
    let work = async {
        let outcome = engine.execute(&request, &events).await;
        drop(events);
        outcome
    };
    let (outcome, ()) = tokio::join!(work, async { while happening.recv().await.is_some() {} });
    let took = began.elapsed();
    match outcome? {
        execution if execution.status == Status::Success => Ok(took.as_secs_f64() * 1000.0),
        execution => bail!("the isolated program ended as {:?}", execution.status),
    }
}

fn page(rows: &[Row], rounds: usize) -> String {
    let mut table = show::table(&["PROGRAM", "BY", "P50", "P99", "RATIO TO BARE"]);
    for row in rows {
        table.add_row([
            row.program.to_owned(),
            row.candidate.to_owned(),
            format!("{:.2} ms", row.p50_ms),
            format!("{:.2} ms", row.p99_ms),
            format!("{:.2}", row.ratio_to_bare),
        ]);
    }
    format!(
        "{table}\n{rounds} rounds, candidates taking turns. `{ISOLATOR}` is a request to a running engine, \
         `{COMMAND}` the whole command"
    )
}
