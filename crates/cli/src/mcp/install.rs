//! `sandboxd mcp install`: an entry for this program in the configuration of an agent.
//!
//! The file belongs to somebody else, so nothing in it changes but one entry, nothing changes unasked, and what cannot
//! be read for certain is left alone. What is written holds no secret.

mod clients;
mod diff;
mod edit;
mod entry;
mod file;

use crate::args::mcp::{InstallArgs, ScopeArg};
use crate::{MISUSE, report, show};
use anstream::{eprint, eprintln};
use anyhow::Result;
use clients::{Client, Surroundings, TOKEN};
use edit::{Edit, Unfit};
use entry::{Entry, Way};
use file::File;
use owo_colors::OwoColorize;
use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

/// The person said no.
const DECLINED: u8 = 1;

/// Why nothing was done, and what to do about it.
#[derive(Debug)]
struct Refusal {
    what: String,
    hint: Option<String>,
}

impl Refusal {
    fn new(what: impl Into<String>) -> Refusal {
        Refusal { what: what.into(), hint: None }
    }

    fn with_hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }
}

/// Does it for each agent, whatever comes of the others; what none of them could do is refused before anything is
/// touched.
pub(super) fn run(args: &InstallArgs) -> Result<ExitCode> {
    let here = Surroundings::here()?;
    let way = match Way::of(args).and_then(|way| plan(args, &way, &here).map(|()| way)) {
        Ok(way) => way,
        Err(refusal) => return Ok(refuse(&refusal)),
    };
    if way.is_open() {
        report::warn("the token will travel unencrypted: anybody on the way can read it; use `https`");
    }
    let mut worst = 0;
    for name in &args.clients {
        let code = match clients::client(*name) {
            None => {
                show::print(&way.python(&args.name))?;
                0
            }
            Some(client) => match install(args, client, &way, &here)? {
                Ok(code) => code,
                Err(refusal) => {
                    refuse(&refusal);
                    MISUSE
                }
            },
        };
        worst = worst.max(code);
    }
    Ok(ExitCode::from(worst))
}

/// Whether every agent can do what is asked.
fn plan(args: &InstallArgs, way: &Way, here: &Surroundings) -> Result<(), Refusal> {
    for client in args.clients.iter().filter_map(|name| clients::client(*name)) {
        way.entry(client)?;
        if !args.print || args.scope == ScopeArg::Project {
            client.target(args.scope, here)?;
        }
    }
    Ok(())
}

fn refuse(refusal: &Refusal) -> ExitCode {
    report::complain(&refusal.what, refusal.hint.as_deref());
    ExitCode::from(MISUSE)
}

/// One agent. The outer error is that nobody reads what is printed.
fn install(
    args: &InstallArgs,
    client: &Client,
    way: &Way,
    here: &Surroundings,
) -> Result<Result<u8, Refusal>> {
    let entry = match way.entry(client) {
        Ok(entry) => entry,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let target = client.target(args.scope, here);
    if args.print {
        if let Ok(target) = target {
            report::note(&format!("for `{}`", target.file.display()));
        }
        print(client, &args.name, &entry)?;
        return Ok(Ok(0));
    }
    let prepared = target.and_then(|target| {
        let found = args.yes || target.own.is_dir() || target.file.symlink_metadata().is_ok();
        match found {
            true => File::read(&target.file),
            false => Err(Refusal::new(format!(
                "{} was not found: there is no `{}`",
                client.title,
                target.own.display()
            ))
            .with_hint("`--print` shows what to add by hand, `--yes` makes the file all the same")),
        }
    });
    let file = match prepared {
        Ok(file) => file,
        Err(refusal) => return Ok(Err(refusal)),
    };
    match edit::set(file.text.as_deref().unwrap_or_default(), client.section, &args.name, &entry) {
        Ok(Edit::Same) => {
            report::note(&format!("nothing to do: `{}` has it already", file.path.display()));
            Ok(Ok(0))
        }
        Ok(Edit::Changed(text)) => Ok(write(args, client, way, &file, &text)),
        Err(unfit) => {
            print(client, &args.name, &entry)?;
            Ok(Err(left_alone(&file, unfit)))
        }
    }
}

/// Prints what a file with nothing else in it would hold.
fn print(client: &Client, name: &str, entry: &Entry) -> Result<()> {
    let page = BTreeMap::from([(client.section, BTreeMap::from([(name, entry)]))]);
    show::print(&serde_json::to_string_pretty(&page)?)?;
    Ok(())
}

fn left_alone(file: &File, unfit: Unfit) -> Refusal {
    let path = file.path.display();
    let what = match unfit {
        Unfit::NotJson(why) => format!("`{path}` is not strict JSON, and was left as it is: {why}"),
        Unfit::NotAnObject(what) => format!("`{path}` was left as it is: {what} is not an object"),
    };
    Refusal::new(what)
        .with_hint("add what is printed here by hand; comments are fine for the agent, not for us")
}

/// Shows the change, asks, and makes it.
fn write(args: &InstallArgs, client: &Client, way: &Way, file: &File, text: &str) -> Result<u8, Refusal> {
    let path = file.path.display().to_string();
    show_diff(&diff::unified(&path, file.text.as_deref(), text));
    if !args.yes {
        if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            let what = format!("`{path}` was left as it is: there is no terminal to ask on");
            return Err(Refusal::new(what).with_hint("`--yes` does it without asking"));
        }
        if !is_agreed() {
            report::note("nothing was changed");
            return Ok(DECLINED);
        }
    }
    // A file of the user may come to hold secrets of other servers; one of a project is for everybody in it.
    let mode = if args.scope == ScopeArg::User { 0o600 } else { 0o666 };
    let backup = file.replace(text, mode)?;
    if let Some(backup) = backup {
        report::note(&format!("the file as it was is `{}`", backup.display()));
    }
    if matches!(way, Way::Server { .. }) {
        report::note(&format!("{} takes the token from the variable {TOKEN}", client.title));
    }
    report::note(&format!("`{}` is in `{path}`; restart {} to see it", args.name, client.title));
    Ok(0)
}

fn is_agreed() -> bool {
    eprint!("Change it? [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

fn show_diff(diff: &str) {
    for line in diff.lines() {
        // What a terminal would take for a command is shown, not sent; indentation is neither.
        let line = line.split('\t').map(report::one_line).collect::<Vec<_>>().join("\t");
        match line.chars().next() {
            Some('+') => eprintln!("{}", line.green()),
            Some('-') => eprintln!("{}", line.red()),
            Some('@') => eprintln!("{}", line.cyan()),
            _ => eprintln!("{line}"),
        }
    }
}
