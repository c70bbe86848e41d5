//! The `sandboxd` command: arguments in, one command done, an exit code out.
//!
//! Data goes to standard output, everything else to standard error. The name the program is started by picks
//! a role: `sandbox-run` is `sandboxd run`.

mod args;
mod bench;
mod config;
mod demo;
mod doctor;
mod languages;
mod page;
mod remote;
mod report;
mod run;
mod serve;
mod settings;
mod show;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

/// We failed, not the program.
const OURS: u8 = 125;
/// Somebody ended the run from outside.
const INTERRUPTED: u8 = 130;
/// The caller asked for something that cannot be.
const MISUSE: u8 = 2;

fn main() -> ExitCode {
    #[cfg(feature = "mutants")]
    jail::mutant::choose();
    let words = arguments();
    let asks_for_a_run = words.get(1).is_some_and(|command| command == "run");
    let engine = if asks_for_a_run { run::head_start() } else { None };
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // With what it has begun.
            drop(engine);
            error.exit()
        }
    };
    let outcome = match cli.command {
        Command::Run(options) => run::run(*options, engine),
        Command::Serve(options) => serve::run(options),
        Command::Session(options) => remote::session(options),
        Command::Template(options) => remote::template(options),
        Command::Key(options) => remote::key(options),
        Command::Top(options) => remote::top(options),
        Command::Languages { json } => languages::run(json),
        Command::Doctor { json } => doctor::run(json),
        Command::Demo { json } => demo::run(json),
        Command::Bench(options) => bench::run(options),
        Command::Config(command) => config::run(command),
        Command::Completions { shell } => page::completions(shell),
        Command::Man => page::manual(),
    };
    outcome.unwrap_or_else(|error| report::failure(&error))
}

/// The words of the command line, with the role written out.
fn arguments() -> Vec<std::ffi::OsString> {
    let mut words: Vec<_> = std::env::args_os().collect();
    let name = words.first().and_then(|name| std::path::Path::new(name).file_name());
    if name.is_some_and(|name| name == "sandbox-run") {
        words.insert(1, "run".into());
    }
    words
}
