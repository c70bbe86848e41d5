//! The `sandboxd` command: arguments in, one command done, an exit code out.
//!
//! Data goes to standard output, everything else to standard error. The name the program is started by picks
//! a role: `sandbox-run` is `sandboxd run`, `mcp-sandboxd` is `sandboxd mcp --profile sandboxrunner`.

mod args;
mod bench;
mod config;
mod demo;
mod doctor;
mod languages;
mod mcp;
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
    executor::end_on_panic();
    #[cfg(feature = "mutants")]
    jail::mutant::choose();
    let words = arguments();
    let asks_for_a_run = words.get(1).is_some_and(|command| command == "run");
    let engine = if asks_for_a_run { run::head_start() } else { None };
    let run = if asks_for_a_run { Cli::of_run(&words) } else { None };
    let cli = match run.map_or_else(|| Cli::try_parse_from(words), Ok) {
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
        Command::Mcp(options) => mcp::run(options),
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

/// Whether a word is a command, or asks which version this is.
fn is_no_option(word: &std::ffi::OsString) -> bool {
    let word = word.to_string_lossy();
    !word.starts_with('-') || word == "--version" || word == "--help"
}

/// The words of the command line, with the role written out.
fn arguments() -> Vec<std::ffi::OsString> {
    let mut words: Vec<_> = std::env::args_os().collect();
    let name = words.first().and_then(|name| std::path::Path::new(name).file_name());
    let role: &[&str] = match name.and_then(|name| name.to_str()) {
        Some("sandbox-run") => &["run"],
        // What else it can do is done by its other names.
        Some("mcp-sandboxd") if !words.get(1).is_some_and(is_no_option) => {
            &["mcp", "--profile", "sandboxrunner"]
        }
        Some("code-sandbox-mcp") if words.len() == 1 => &["mcp", "--profile", "code-sandbox"],
        _ => &[],
    };
    words.splice(1..1, role.iter().map(Into::into));
    words
}
