//! `sandboxd languages`: what is there, and why the rest is not.

use crate::show;
use anyhow::Result;
use engine::runtime::{Catalogue, Runtime, Warm, find};
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct Row {
    name: String,
    title: String,
    aliases: Vec<String>,
    version: Option<String>,
    warm: Warm,
    available: bool,
    /// Why not.
    reason: Option<String>,
    install: String,
    mime: String,
}

pub(crate) fn run(json: bool) -> Result<ExitCode> {
    let catalogue = Catalogue::default();
    let runtimes = catalogue.runtimes()?;
    // Some tools take their time to say which version they are; they can do so side by side.
    let rows: Vec<Row> = std::thread::scope(|scope| {
        let asked: Vec<_> = runtimes.iter().map(|runtime| scope.spawn(|| row(runtime))).collect();
        asked.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    if json {
        show::print(&serde_json::to_string(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = show::table(&["LANGUAGE", "VERSION", "WARM", "STATE", "ALSO KNOWN AS"]);
    for row in &rows {
        let version = row.version.clone().unwrap_or_else(|| "-".into());
        let warm = format!("{:?}", row.warm).to_lowercase();
        let state = match &row.reason {
            None => "available".to_owned(),
            Some(reason) => format!("{reason}; hint: {}", row.install),
        };
        table.add_row([row.name.clone(), version, warm, state, row.aliases.join(" ")]);
    }
    show::print(&table.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn row(runtime: &Runtime) -> Row {
    let found = find::find(runtime);
    Row {
        name: runtime.name.clone(),
        title: runtime.title.clone(),
        aliases: runtime.aliases.clone(),
        version: found.as_ref().ok().and_then(|found| found.version()),
        warm: runtime.warm,
        available: found.is_ok(),
        reason: found.err().map(|error| error.to_string()),
        install: runtime.install.clone(),
        mime: runtime.mime.clone(),
    }
}
