//! Files of sessions: listed, fetched, sent, moved, removed.

use super::client::Client;
use super::{each, facts, sessions, transfer};
use crate::args::session::FilesCommand;
use crate::{report, show};
use anyhow::Result;
use engine::EngineError;
use serde_json::{Value, json};
use std::process::ExitCode;

pub(super) async fn run(client: &Client, command: FilesCommand) -> Result<ExitCode> {
    match command {
        FilesCommand::Ls { id, path, recursive, json } => {
            list(client, &id, path.as_deref().unwrap_or_default(), recursive, json).await
        }
        FilesCommand::Get { id, path, to } => {
            let parts = a_file(&path)?;
            transfer::fetch(client, &below(&id, &parts), to.as_deref()).await
        }
        FilesCommand::Put { id, from, to } => {
            let to = transfer::target(&from, to.as_deref())?;
            let parts = a_file(&to)?;
            transfer::send(client, &from, &below(&id, &parts)).await
        }
        FilesCommand::Rm { id, paths, recursive } => {
            let query: &[(&str, &str)] = if recursive { &[("recursive", "true")] } else { &[] };
            let id = id.as_str();
            each(
                &paths,
                |path| async move { client.delete(&below(id, &a_file(&path)?), query).await.map(drop) },
            )
            .await
        }
        FilesCommand::Mkdir { id, paths } => {
            let id = id.as_str();
            each(&paths, |path| async move {
                let body = json!({"path": a_file(&path)?.join("/")});
                client.post(&sessions::below(id, &["files", "directories"]), &body).await.map(drop)
            })
            .await
        }
        FilesCommand::Mv { id, from, to, force } => {
            let (from, to) = (a_file(&from)?.join("/"), a_file(&to)?.join("/"));
            let body = json!({"from": from, "to": to, "replace": force});
            client.post(&sessions::below(&id, &["files", "move"]), &body).await?;
            show::print(&report::one_line(&to))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn below<'a>(id: &'a str, parts: &[&'a str]) -> Vec<&'a str> {
    sessions::below(id, &[&["files"][..], parts].concat())
}

async fn list(client: &Client, id: &str, path: &str, recursive: bool, json: bool) -> Result<ExitCode> {
    let below = parts(path)?.join("/");
    let (mut files, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut query = vec![("path", below.as_str())];
        query.extend(recursive.then_some(("recursive", "true")));
        query.extend(after.as_deref().map(|after| ("after", after)));
        let mut page = client.get(&sessions::below(id, &["files"]), &query).await?;
        match page.get_mut("files").map(Value::take) {
            Some(Value::Array(more)) => files.extend(more),
            _ => return Err(client.odd().into()),
        }
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    if json {
        show::print_json(&files)?;
        return Ok(ExitCode::SUCCESS);
    }
    if files.is_empty() {
        report::note("there are no files");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = show::table(&["MODE", "SIZE", "CHANGED", "PATH"]);
    for file in &files {
        let is_directory = file["type"] == "directory";
        let size = if is_directory { "-".into() } else { facts::size(&file["size"]) };
        let path = facts::cell(&file["path"]) + if is_directory { "/" } else { "" };
        table.add_row([facts::cell(&file["mode"]), size, facts::ago(&file["modified_time"]), path]);
    }
    show::print(&table.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The parts of a path in the workspace, which programs see as `/workspace`.
fn parts(path: &str) -> Result<Vec<&str>> {
    let wrong = |why: &str| {
        EngineError::invalid("path", format!("`{path}` {why}"))
            .with_hint("a path in the workspace, such as `data/a.csv` or `/workspace/data/a.csv`")
    };
    let inside = match path.strip_prefix('/') {
        None => path,
        Some(rest) => rest
            .strip_prefix("workspace")
            .filter(|rest| rest.is_empty() || rest.starts_with('/'))
            .ok_or_else(|| wrong("is not in the workspace"))?,
    };
    let parts: Vec<&str> = inside.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    match parts.contains(&"..") {
        true => Err(wrong("leads elsewhere").into()),
        false => Ok(parts),
    }
}

/// The same of something in the workspace, which the workspace itself is not.
fn a_file(path: &str) -> Result<Vec<&str>> {
    match parts(path)? {
        parts if parts.is_empty() => {
            Err(EngineError::invalid("path", format!("`{path}` is the workspace itself"))
                .with_hint("name a file or directory in it")
                .into())
        }
        parts => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_workspace() {
        assert_eq!(parts("a/b").unwrap(), ["a", "b"]);
        assert_eq!(parts("./a//b/").unwrap(), ["a", "b"]);
        assert_eq!(parts("/workspace/a").unwrap(), ["a"]);
        assert!(parts("/workspace").unwrap().is_empty() && parts("").unwrap().is_empty());
        for odd in ["/etc/passwd", "/workspaces/a", "../a", "a/../b"] {
            assert!(parts(odd).is_err(), "{odd}");
        }
        assert!(a_file("/workspace/").is_err() && a_file("x").is_ok());
    }
}
