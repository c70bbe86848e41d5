//! `sandboxd demo`: hello in every language of this host, all at once.

use crate::{settings, show};
use anyhow::Result;
use engine::runtime::find;
use engine::{Execution, Request, Status};
use serde::Serialize;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::mpsc;

#[derive(Serialize)]
struct Row {
    language: String,
    ok: bool,
    said: String,
    duration_ms: f64,
    memory_peak_bytes: u64,
    isolation: Option<engine::Receipt>,
}

pub(crate) fn run(json: bool) -> Result<ExitCode> {
    let engine = Arc::new(settings::engine()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rows = runtime.block_on(async {
        let available: Vec<String> = engine
            .catalogue()
            .runtimes()?
            .into_iter()
            .filter(|runtime| find::find(runtime).is_ok())
            .map(|runtime| runtime.name.clone())
            .collect();
        let bar = progress(available.len() as u64, json);
        let mut tasks = tokio::task::JoinSet::new();
        for name in available {
            let engine = Arc::clone(&engine);
            tasks.spawn(async move { hello(&engine, name).await });
        }
        let mut rows = Vec::new();
        while let Some(row) = tasks.join_next().await {
            bar.inc(1);
            rows.extend(row.ok());
        }
        bar.finish_and_clear();
        rows.sort_by(|a, b| a.language.cmp(&b.language));
        Ok::<_, anyhow::Error>(rows)
    })?;
    let good = rows.iter().filter(|row| row.ok).count();
    if json {
        show::print(&serde_json::to_string(&rows)?)?;
    } else {
        show::print(&page(&rows, good))?;
    }
    Ok(if good == rows.len() && good > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn progress(length: u64, json: bool) -> indicatif::ProgressBar {
    if json || !std::io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    let style = indicatif::ProgressStyle::with_template("{bar:32} {pos}/{len} languages, {elapsed}");
    let bar = indicatif::ProgressBar::new(length);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Runs the language's own hello.
async fn hello(engine: &engine::Engine, language: String) -> Row {
    let catalogue = engine.catalogue();
    let checks =
        catalogue.by_name(&language).and_then(|runtime| catalogue.checks(runtime)).unwrap_or_default();
    let code = checks.into_iter().find(|check| check.name == "hello").map(|check| check.code);
    let mut request = Request::new(&language, code.unwrap_or_default());
    // All of them share a few cores and wait for each other.
    request.limits.timeout_ms = Some(300_000);
    let (events, mut happening) = mpsc::channel(16);
    let drain = async { while happening.recv().await.is_some() {} };
    let work = async {
        let outcome = engine.execute(&request, &events).await;
        drop(events);
        outcome
    };
    let (outcome, ()) = tokio::join!(work, drain);
    match outcome {
        Ok(execution) => of_execution(language, execution),
        Err(error) => Row {
            language,
            ok: false,
            said: error.to_string(),
            duration_ms: 0.0,
            memory_peak_bytes: 0,
            isolation: None,
        },
    }
}

fn of_execution(language: String, execution: Execution) -> Row {
    let ok = execution.status == Status::Success;
    let said = match execution.error {
        Some(error) => error.message,
        None => execution.stdout.to_string().trim().to_owned(),
    };
    Row {
        language,
        ok,
        said,
        duration_ms: execution.metrics.duration_ms,
        memory_peak_bytes: execution.metrics.memory_peak_bytes,
        isolation: Some(execution.isolation),
    }
}

fn page(rows: &[Row], good: usize) -> String {
    let mut table = show::table(&["LANGUAGE", "SAYS", "TIME", "MEMORY", "ISOLATION"]);
    for row in rows {
        let isolation = row.isolation.as_ref().map_or("-".into(), |receipt| {
            let cgroup = format!("{:?}", receipt.cgroup).to_lowercase();
            let ids = if receipt.host_uid_unique { "own uid" } else { "shared uid" };
            format!(
                "grade {}: {ids}, seccomp, landlock {}, cgroup {cgroup}",
                receipt.grade, receipt.landlock_abi
            )
        });
        table.add_row([
            row.language.clone(),
            row.said.clone(),
            show::millis(row.duration_ms),
            show::size(row.memory_peak_bytes),
            isolation,
        ]);
    }
    format!("{table}\n{good} of {} said hello, each in a sandbox of its own", rows.len())
}
