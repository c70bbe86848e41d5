//! Templates: what sessions are made from.

use super::client::Client;
use super::{each, facts};
use crate::args::remote::{TemplateCommand, TemplateContent};
use crate::{report, show};
use anyhow::{Context, Result};
use engine::EngineError;
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
        ("max_concurrent", content.max_concurrent.map(Value::from)),
        ("is_active", content.active.map(Value::from)),
        ("preload", facts::object(preload(&content.preload)?)),
        ("rehearsal", facts::object(rehearsal(&content.rehearsal)?)),
        ("pool", facts::object(pool(content))),
        ("limits", facts::object(facts::limits(&content.limits))),
    ]))
}

/// Modules by language, of `LANGUAGE=MODULE,…`; nothing behind the `=` for none.
fn preload(texts: &[String]) -> Result<Map<String, Value>> {
    let mut all: Map<String, Value> = Map::new();
    for text in texts {
        let (language, modules) = named("preload", text, "python=numpy,pandas")?;
        let modules = modules.split(',').filter(|module| !module.is_empty()).map(Value::from);
        if let Value::Array(list) = all.entry(language).or_insert_with(|| json!([])) {
            list.extend(modules);
        }
    }
    Ok(all)
}

/// Programs by language, of `LANGUAGE=FILE`; nothing behind the `=` for none.
fn rehearsal(texts: &[String]) -> Result<Map<String, Value>> {
    let mut all = Map::new();
    for text in texts {
        let (language, file) = named("rehearsal", text, "python=warm.py")?;
        let program = match file {
            "" => String::new(),
            file => std::fs::read_to_string(file).with_context(|| format!("could not read `{file}`"))?,
        };
        all.insert(language, program.into());
    }
    Ok(all)
}

fn named<'t>(option: &str, text: &'t str, example: &str) -> Result<(String, &'t str)> {
    match text.split_once('=') {
        Some((language, rest)) if !language.is_empty() => Ok((language.to_owned(), rest)),
        _ => Err(EngineError::invalid(option, format!("`{text}` does not say for which language"))
            .with_hint(format!("write it as `--{option} {example}`"))
            .into()),
    }
}

fn pool(content: &TemplateContent) -> Map<String, Value> {
    facts::given([
        ("min", content.pool_min.map(Value::from)),
        ("max", content.pool_max.map(Value::from)),
        ("idle_timeout", content.pool_idle.map(|ms| format!("{ms}ms").into())),
    ])
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
        ("run at once", facts::cell(&template["max_concurrent"])),
        ("modules loaded", facts::cell(&template["preload"])),
        ("rehearsal", facts::cell(&template["rehearsal"])),
        ("sandboxes that wait", facts::cell(&template["pool"])),
        ("environment", facts::cell(&template["default_env_vars"])),
        ("active", facts::cell(&template["is_active"])),
        ("made", facts::cell(&template["created_at"])),
        ("changed", facts::cell(&template["updated_at"])),
    ];
    show::print(&facts::table("TEMPLATE", &rows).to_string())?;
    Ok(ExitCode::SUCCESS)
}
