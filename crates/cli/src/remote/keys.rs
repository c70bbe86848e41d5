//! Keys: made, listed, revoked. The token of a key is printed when it is made, and never again.

use super::client::Client;
use super::{each, facts};
use crate::args::remote::{KeyCommand, KeyContent};
use crate::{report, show};
use anyhow::Result;
use serde_json::{Value, json};
use std::process::ExitCode;

const KEYS: [&str; 3] = ["api", "v1", "keys"];

pub(super) async fn run(client: &Client, command: KeyCommand) -> Result<ExitCode> {
    match command {
        KeyCommand::Create(content) => create(client, &content).await,
        KeyCommand::List { tenant, json } => list(client, tenant.as_deref(), json).await,
        KeyCommand::Show { id, json } => show(client, &id, json).await,
        KeyCommand::Revoke { ids } => {
            each(&ids, |id| async move { client.delete(&below(&id), &[]).await.map(drop) }).await
        }
    }
}

fn below(id: &str) -> [&str; 4] {
    let [api, version, keys] = KEYS;
    [api, version, keys, id]
}

async fn create(client: &Client, content: &KeyContent) -> Result<ExitCode> {
    let number = |value: Option<u32>| value.map(Value::from);
    let limits = facts::given([
        ("concurrency", number(content.concurrency)),
        ("sessions", number(content.sessions)),
        ("queued", number(content.queued)),
        ("cpu_seconds_per_hour", content.cpu_seconds_per_hour.map(Value::from)),
        ("requests_per_minute", number(content.requests_per_minute)),
        ("burst", number(content.burst)),
    ]);
    let body = facts::given([
        ("name", Some(content.name.as_str().into())),
        ("tenant", content.tenant.as_deref().map(Value::from)),
        ("scopes", Some(json!(content.scopes))),
        ("expires_at", content.expires.as_deref().map(Value::from)),
        ("limits", facts::object(limits)),
    ]);
    let made = client.post(&KEYS, &Value::Object(body)).await?;
    if content.json {
        show::print_json(&made)?;
    } else {
        show::print(&facts::cell(&made["token"]))?;
        report::note(&format!(
            "this is the token of key `{}`, and it is shown this once",
            facts::cell(&made["id"])
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(client: &Client, tenant: Option<&str>, json: bool) -> Result<ExitCode> {
    let query: Vec<(&str, &str)> = tenant.map(|tenant| ("tenant", tenant)).into_iter().collect();
    let keys = client.list(&KEYS, &query, None).await?;
    if json {
        show::print_json(&keys)?;
        return Ok(ExitCode::SUCCESS);
    }
    if keys.is_empty() {
        report::note("there are no such keys; `sandboxd key create` makes one");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = show::table(&["KEY", "NAME", "TENANT", "SCOPES", "STATE", "MADE", "LAST USED"]);
    for key in &keys {
        table.add_row([
            facts::cell(&key["id"]),
            facts::cell(&key["name"]),
            facts::cell(&key["tenant"]),
            facts::cell(&key["scopes"]),
            state(key).into(),
            facts::ago(&key["created_at"]),
            facts::ago(&key["last_used_at"]),
        ]);
    }
    show::print(&table.to_string())?;
    Ok(ExitCode::SUCCESS)
}

async fn show(client: &Client, id: &str, json: bool) -> Result<ExitCode> {
    let key = client.get(&below(id), &[]).await?;
    if json {
        show::print_json(&key)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = [
        ("id", facts::cell(&key["id"])),
        ("name", facts::cell(&key["name"])),
        ("tenant", facts::cell(&key["tenant"])),
        ("scopes", facts::cell(&key["scopes"])),
        ("limits", facts::cell(&key["limits"])),
        ("state", state(&key).into()),
        ("made", facts::cell(&key["created_at"])),
        ("expires", facts::cell(&key["expires_at"])),
        ("revoked", facts::cell(&key["revoked_at"])),
        ("last used", facts::cell(&key["last_used_at"])),
    ];
    show::print(&facts::table("KEY", &rows).to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Whether it works.
fn state(key: &Value) -> &'static str {
    let over = key["expires_at"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    match over {
        _ if !key["revoked_at"].is_null() => "revoked",
        Some(at) if at <= jiff::Timestamp::now() => "expired",
        _ => "works",
    }
}
