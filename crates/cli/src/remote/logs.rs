//! `sandboxd session logs`: what the programs of a session have written, and what they write.

use super::client::Client;
use super::events::Events;
use super::{RemoteError, facts, output, sessions};
use anyhow::Result;
use reqwest::Method;
use serde_json::Value;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::time::Duration;

/// How often is looked for new programs.
const PAUSE: Duration = Duration::from_secs(1);
/// How many programs are usually new between two looks, at most.
const FEW: usize = 5;

pub(super) async fn run(
    client: &Client,
    session: &str,
    tail: usize,
    follow: bool,
    json: bool,
) -> Result<ExitCode> {
    match watch(client, session, tail, follow, json).await {
        // A reader that has seen enough is no failure.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        done => done.map(|()| ExitCode::SUCCESS),
    }
}

async fn watch(client: &Client, session: &str, tail: usize, follow: bool, json: bool) -> Result<()> {
    let path = sessions::below(session, &["executions"]);
    let newest = client.list(&path, &[], Some(tail.max(1))).await?;
    // Ids sort by time, so whatever is behind this one is new.
    let mut last = newest.first().map(id).unwrap_or_default().to_owned();
    for execution in newest.iter().take(tail).rev() {
        one(client, execution, follow, json).await?;
    }
    if !follow {
        return Ok(());
    }
    loop {
        tokio::time::sleep(PAUSE).await;
        let new = match behind(client, &path, &last).await {
            Err(error) if is_gone(&error) => return Ok(()),
            new => new?,
        };
        for execution in new.iter().rev() {
            one(client, execution, follow, json).await?;
            last = id(execution).to_owned();
        }
        match client.get(&sessions::below(session, &[]), &[]).await {
            Err(error) if is_gone(&error) => return Ok(()),
            Ok(session) if new.is_empty() && has_ended(&session) => return Ok(()),
            session => drop(session?),
        }
    }
}

/// Executions behind one, the newest first.
async fn behind(client: &Client, path: &[&str], last: &str) -> Result<Vec<Value>> {
    let mut most = FEW;
    loop {
        let mut newest = client.list(path, &[], Some(most)).await?;
        let all = newest.len();
        newest.retain(|execution| id(execution) > last);
        if all < most || newest.len() < all {
            return Ok(newest);
        }
        most *= 4;
    }
}

fn id(execution: &Value) -> &str {
    execution["id"].as_str().unwrap_or_default()
}

fn has_ended(session: &Value) -> bool {
    matches!(session["state"].as_str(), Some("terminated" | "failed"))
}

fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<RemoteError>().and_then(RemoteError::status) == Some(404)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// What one program wrote, or writes.
async fn one(client: &Client, execution: &Value, follow: bool, json: bool) -> Result<()> {
    let is_over = !execution["completed_at"].is_null();
    if !json {
        let ending = if execution["outcome"].is_null() { "status" } else { "outcome" };
        let facts = ["id", "language", ending].map(|name| facts::cell(&execution[name]));
        eprintln!("== {}, {}", facts.join(", "), facts::ago(&execution["created_at"]));
    }
    if !is_over && follow {
        let path = ["api", "v1", "executions", id(execution), "stream"];
        let response = client.send(client.request(Method::GET, &path, &[])?).await?;
        pass_on(Events::of(client, response), json).await?;
    }
    if json && (is_over || follow) {
        let mut done = client.get(&["api", "v1", "executions", id(execution)], &[]).await?;
        output::complete(client, id(execution), &mut done).await?;
        let mut out = std::io::stdout();
        out.write_all((done.to_string() + "\n").as_bytes())?;
        out.flush()?;
    } else if is_over {
        copy(client, id(execution), "stdout", &mut std::io::stdout()).await?;
        copy(client, id(execution), "stderr", &mut std::io::stderr()).await?;
    }
    Ok(())
}

async fn copy(client: &Client, execution: &str, stream: &str, to: &mut impl Write) -> Result<()> {
    let mut response = output::open(client, execution, stream).await?;
    while let Some(bytes) = response.chunk().await.map_err(|error| client.failed(error))? {
        to.write_all(&bytes)?;
    }
    to.flush()?;
    Ok(())
}

/// Until the program is over.
async fn pass_on(mut events: Events, json: bool) -> Result<()> {
    while let Some(event) = events.next().await? {
        match event.name.as_str() {
            _ if json => {}
            "stdout" => {
                let mut out = std::io::stdout();
                out.write_all(&event.bytes())?;
                out.flush()?;
            }
            "stderr" => std::io::stderr().write_all(&event.bytes())?,
            _ => {}
        }
    }
    Ok(())
}
