//! Templates: what sessions are made from.

use super::client::Client;
use super::{each, facts};
use crate::args::remote::{TemplateCommand, TemplateContent};
use crate::{report, show};
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

const TEMPLATES: [&str; 3] = ["api", "v1", "templates"];
/// Most that are asked for at once.
const PAGE: usize = 200;

pub(super) async fn run(client: &Client, command: TemplateCommand) -> Result<ExitCode> {
    match command {
        TemplateCommand::List { json } => list(client, json).await,
        TemplateCommand::Show { id, json } => show(client, &id, json).await,
        TemplateCommand::Create { id, content } => {
            let mut body = body(&content)?;
            body.entry("name").or_insert_with(|| id.clone().into());
            body.insert("id".into(), id.into());
            told(&client.post(&TEMPLATES, &Value::Object(body)).await?, content.json)
        }
        TemplateCommand::Update { id, content } => {
            let body = Value::Object(body(&content)?);
            told(&client.put(&below(&id), &body).await?, content.json)
        }
        TemplateCommand::Rm { ids } => {
            each(&ids, |id| async move { client.delete(&below(&id), &[]).await.map(drop) }).await
        }
    }
}

fn below(id: &str) -> [&str; 4] {
    let [api, version, templates] = TEMPLATES;
    [api, version, templates, id]
}

fn body(content: &TemplateContent) -> Result<Map<String, Value>> {
    Ok(facts::given([
        ("name", content.name.as_deref().map(Value::from)),
        ("description", content.description.as_deref().map(Value::from)),
        ("languages", facts::some(&content.languages)),
        ("default_env_vars", facts::pairs(&content.env)?),
        ("network", content.network.map(|network| json!(network))),
        ("is_active", content.active.map(Value::from)),
        ("limits", facts::object(facts::limits(&content.limits))),
    ]))
}

fn told(template: &Value, json: bool) -> Result<ExitCode> {
    match json {
        true => show::print_json(template)?,
        false => show::print(&facts::cell(&template["id"]))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(client: &Client, json: bool) -> Result<ExitCode> {
    let mut templates: Vec<Value> = Vec::new();
    loop {
        let (limit, offset) = (PAGE.to_string(), templates.len().to_string());
        let page = client.get(&TEMPLATES, &[("limit", &limit), ("offset", &offset)]).await?;
        let Value::Array(more) = page else { return Err(client.odd().into()) };
        let last = more.len() < PAGE;
        templates.extend(more);
        if last {
            break;
        }
    }
    if json {
        show::print_json(&templates)?;
        return Ok(ExitCode::SUCCESS);
    }
    if templates.is_empty() {
        report::note("there are no templates; `sandboxd template create` makes one");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = show::table(&["TEMPLATE", "NAME", "LANGUAGES", "MEMORY", "TIME", "ACTIVE"]);
    for template in &templates {
        table.add_row([
            facts::cell(&template["id"]),
            facts::cell(&template["name"]),
            facts::cell(&template["languages"]),
            facts::size(&template["limits"]["memory_bytes"]),
            facts::span(&template["limits"]["timeout_ms"]),
            if template["is_active"] == true { "yes" } else { "no" }.into(),
        ]);
    }
    show::print(&table.to_string())?;
    Ok(ExitCode::SUCCESS)
}

async fn show(client: &Client, id: &str, json: bool) -> Result<ExitCode> {
    let template = client.get(&below(id), &[]).await?;
    if json {
        show::print_json(&template)?;
        return Ok(ExitCode::SUCCESS);
    }
    let limits = &template["limits"];
    let rows = [
        ("id", facts::cell(&template["id"])),
        ("name", facts::cell(&template["name"])),
        ("description", facts::cell(&template["description"])),
        ("languages", facts::cell(&template["languages"])),
        ("memory", facts::size(&limits["memory_bytes"])),
        ("storage", facts::size(&limits["disk_bytes"])),
        ("cores", facts::cell(&template["default_cpu_cores"])),
        ("processes", facts::cell(&limits["pids"])),
        ("time of a program", facts::span(&limits["timeout_ms"])),
        ("network", facts::cell(&template["network"])),
        ("environment", facts::cell(&template["default_env_vars"])),
        ("active", facts::cell(&template["is_active"])),
        ("made", facts::cell(&template["created_at"])),
        ("changed", facts::cell(&template["updated_at"])),
    ];
    show::print(&facts::table("TEMPLATE", &rows).to_string())?;
    Ok(ExitCode::SUCCESS)
}
