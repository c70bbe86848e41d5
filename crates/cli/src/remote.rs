//! Commands that talk to a server: `session`, `template`, `key` and `top`.
//!
//! They know the REST API and nothing of what is behind it, so the server may be on another machine. What it answers is
//! shown as a table, or printed as it is with `--json`.

mod client;
mod error;
mod events;
mod exec;
mod facts;
mod files;
mod keys;
mod logs;
mod metrics;
mod output;
mod place;
mod sessions;
mod templates;
mod top;
mod transfer;

pub(crate) use error::RemoteError;

use crate::args::remote::{KeyArgs, TemplateArgs, TopArgs};
use crate::args::session::{SessionArgs, SessionCommand};
use anyhow::Result;
use client::Client;
use std::process::ExitCode;

pub(crate) fn session(args: SessionArgs) -> Result<ExitCode> {
    let client = Client::new(&args.server)?;
    block_on(async {
        match args.command {
            SessionCommand::Create(new) => sessions::create(&client, &new).await,
            SessionCommand::List { status, template, limit, json } => {
                sessions::list(&client, status.as_deref(), template.as_deref(), limit, json).await
            }
            SessionCommand::Show { id, json } => sessions::show(&client, &id, json).await,
            SessionCommand::Exec(program) => exec::run(&client, &program).await,
            SessionCommand::Files(command) => files::run(&client, command).await,
            SessionCommand::Logs { id, follow, tail, json } => {
                logs::run(&client, &id, tail, follow, json).await
            }
            SessionCommand::Pause { ids } => sessions::pause(&client, &ids).await,
            SessionCommand::Resume { ids } => sessions::resume(&client, &ids).await,
            SessionCommand::Rm { ids, purge } => sessions::remove(&client, &ids, purge).await,
        }
    })
}

pub(crate) fn template(args: TemplateArgs) -> Result<ExitCode> {
    let client = Client::new(&args.server)?;
    block_on(templates::run(&client, args.command))
}

pub(crate) fn key(args: KeyArgs) -> Result<ExitCode> {
    let client = Client::new(&args.server)?;
    block_on(keys::run(&client, args.command))
}

pub(crate) fn top(args: TopArgs) -> Result<ExitCode> {
    let client = Client::new(&args.server)?;
    block_on(top::run(&client, &args))
}

fn block_on(work: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(work);
    // Nothing waits for a thread that reads what nobody types.
    runtime.shutdown_background();
    outcome
}

/// Does something for each of several, whatever comes of the others, and says which it was done for.
async fn each<W: Future<Output = Result<()>>>(
    names: &[String],
    work: impl Fn(String) -> W,
) -> Result<ExitCode> {
    let mut outcome = ExitCode::SUCCESS;
    for name in names {
        match work(name.clone()).await {
            Ok(()) => crate::show::print(&crate::report::one_line(name))?,
            Err(error) if names.len() == 1 => return Err(error),
            Err(error) => outcome = crate::report::failure(&error.context(format!("`{name}`"))),
        }
    }
    Ok(outcome)
}
