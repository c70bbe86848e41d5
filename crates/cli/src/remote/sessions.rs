//! Sessions: made, listed, shown, paused, ended.

use super::client::Client;
use super::{each, facts};
use crate::args::session::CreateArgs;
use crate::{report, show};
use anyhow::Result;
use serde_json::{Value, json};
use std::process::ExitCode;

const SESSIONS: [&str; 3] = ["api", "v1", "sessions"];

pub(super) async fn create(client: &Client, args: &CreateArgs) -> Result<ExitCode> {
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    // What is for ever is a number there.
    let span = |text: &Option<String>| match text.as_deref() {
        Some("-1") => Some(json!(-1)),
        text => text.map(Value::from),
    };
    let body = facts::given([
        ("id", text(&args.id)),
        ("template_id", text(&args.template)),
        ("languages", facts::some(&args.languages)),
        ("env_vars", facts::pairs(&args.env)?),
        ("metadata", facts::pairs(&args.metadata)?),
        ("agent_id", text(&args.agent)),
        ("network", args.network.map(|network| json!(network))),
        ("max_concurrent", args.max_concurrent.map(Value::from)),
        ("mode", args.ephemeral.then(|| "ephemeral".into())),
        ("idle_timeout", span(&args.idle)),
        ("lifetime", span(&args.lifetime)),
        ("limits", facts::object(facts::limits(&args.limits))),
    ]);
    let made = client.post(&SESSIONS, &Value::Object(body)).await?;
    match args.json {
        true => show::print_json(&made)?,
        false => show::print(&facts::cell(&made["id"]))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn list(
    client: &Client,
    status: Option<&str>,
    template: Option<&str>,
    limit: Option<usize>,
    json: bool,
) -> Result<ExitCode> {
    let query: Vec<(&str, &str)> = [("status", status), ("template_id", template)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    let sessions = client.list(&SESSIONS, &query, limit).await?;
    if json {
        show::print_json(&sessions)?;
    } else if sessions.is_empty() {
        report::note("there are no such sessions; `sandboxd session create` makes one");
    } else {
        show::print(&table(&sessions).to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sessions as people read them.
pub(super) fn table(sessions: &[Value]) -> comfy_table::Table {
    let mut table =
        show::table(&["SESSION", "STATE", "TEMPLATE", "RUNNING", "WAITING", "MEMORY", "MADE", "LAST USED"]);
    for session in sessions {
        table.add_row([
            facts::cell(&session["id"]),
            facts::cell(&session["state"]),
            facts::cell(&session["template_id"]),
            facts::cell(&session["running"]),
            facts::cell(&session["queued"]),
            facts::size(&session["limits"]["memory_bytes"]),
            facts::ago(&session["created_at"]),
            facts::ago(&session["last_activity_at"]),
        ]);
    }
    table
}

pub(super) async fn show(client: &Client, id: &str, json: bool) -> Result<ExitCode> {
    let mut session = client.get(&below(id, &[]), &[]).await?;
    let mut history = client.get(&below(id, &["history"]), &[]).await?;
    let history = history.get_mut("items").map(Value::take).unwrap_or_default();
    if json {
        if let Some(session) = session.as_object_mut() {
            session.insert("history".into(), history);
        }
        show::print_json(&session)?;
        return Ok(ExitCode::SUCCESS);
    }
    let limits = &session["limits"];
    let defaults = session["defaults"].as_array().map(Vec::as_slice).unwrap_or_default();
    // What counts, and whether anybody asked for it.
    let usual = |name: &str, shown: String| match defaults.iter().any(|default| default == name) {
        true => format!("{shown} (default)"),
        false => shown,
    };
    let cores = limits["cpu_millis"].as_f64().map_or("-".into(), |millis| (millis / 1000.0).to_string());
    let rows = [
        ("id", facts::cell(&session["id"])),
        ("state", facts::cell(&session["state"])),
        ("mode", facts::cell(&session["mode"])),
        ("template", facts::cell(&session["template_id"])),
        ("agent", facts::cell(&session["agent_id"])),
        ("languages", facts::cell(&session["languages"])),
        (
            "running, waiting",
            format!("{}, {}", facts::cell(&session["running"]), facts::cell(&session["queued"])),
        ),
        ("run at once", facts::cell(&session["max_concurrent"])),
        ("memory", usual("memory_bytes", facts::size(&limits["memory_bytes"]))),
        ("storage", usual("disk_bytes", facts::size(&limits["disk_bytes"]))),
        ("cores", usual("cpu_millis", cores)),
        ("processes", usual("pids", facts::cell(&limits["pids"]))),
        ("time of a program", usual("timeout_ms", facts::span(&limits["timeout_ms"]))),
        ("network", usual("network", facts::cell(&session["network"]))),
        ("packages", packages(&session)),
        ("ends unused after", facts::span(&session["idle_timeout_ms"])),
        ("ends after", facts::span(&session["lifetime_ms"])),
        ("environment", facts::cell(&session["env_vars"])),
        ("metadata", facts::cell(&session["metadata"])),
        ("made", facts::cell(&session["created_at"])),
        ("last used", facts::cell(&session["last_activity_at"])),
        ("ended", facts::cell(&session["completed_at"])),
    ];
    show::print(&facts::table("SESSION", &rows).to_string())?;
    let mut table = show::table(&["WHEN", "FROM", "TO", "WHY"]);
    for step in history.as_array().into_iter().flatten() {
        table.add_row(["at", "from", "to", "reason"].map(|name| facts::cell(&step[name])));
    }
    show::print(&format!("\n{table}"))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn pause(client: &Client, ids: &[String]) -> Result<ExitCode> {
    each(ids, |id| async move { client.post(&below(&id, &["pause"]), &Value::Null).await.map(drop) }).await
}

pub(super) async fn resume(client: &Client, ids: &[String]) -> Result<ExitCode> {
    each(ids, |id| async move { client.post(&below(&id, &["resume"]), &Value::Null).await.map(drop) }).await
}

/// Ends them; with `purge` nothing of them is left.
pub(super) async fn remove(client: &Client, ids: &[String], purge: bool) -> Result<ExitCode> {
    each(ids, |id| async move {
        match purge {
            true => client.delete(&below(&id, &[]), &[]).await.map(drop),
            false => client.post(&below(&id, &["terminate"]), &Value::Null).await.map(drop),
        }
    })
    .await
}

/// Packages that are there, or why they are not.
fn packages(session: &Value) -> String {
    let installed = session["installed_dependencies"].as_array().into_iter().flatten();
    let names =
        installed.map(|one| format!("{}=={}", facts::cell(&one["name"]), facts::cell(&one["version"])));
    let mut words: Vec<String> = names.collect();
    if session["dependency_install_status"] != "completed" {
        words.push(format!("({})", facts::cell(&session["dependency_install_status"])));
        words.extend(session["dependency_install_error"].as_str().map(report::one_line));
    }
    if words.is_empty() { "-".into() } else { words.join(" ") }
}

/// The path of something of a session.
pub(super) fn below<'a>(id: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&SESSIONS[..], &[id], rest].concat()
}
