//! Pages made from the arguments themselves: completions and the manual.

use crate::args::Cli;
use crate::settings::VARIABLES;
use anyhow::Result;
use clap::CommandFactory;
use std::io::Write;
use std::process::ExitCode;

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sandboxd", &mut script);
    print(&script)
}

/// The manual: the command, each of its commands, and the environment.
pub(crate) fn manual() -> Result<ExitCode> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    let top = clap_mangen::Man::new(command.clone());
    top.render_title(&mut page)?;
    top.render_name_section(&mut page)?;
    top.render_synopsis_section(&mut page)?;
    top.render_description_section(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        section(&mut page, sub, sub.get_name())?;
    }
    writeln!(page, ".SH ENVIRONMENT")?;
    for (name, meaning) in VARIABLES {
        writeln!(page, ".TP\n\\fB{name}\\fR\n{}", meaning.replace('-', "\\-"))?;
    }
    print(&page)
}

/// What there is to say about one command, and about those below it.
fn section(page: &mut Vec<u8>, command: &clap::Command, name: &str) -> Result<()> {
    writeln!(page, ".SH \"SANDBOXD {}\"", name.to_uppercase())?;
    let man = clap_mangen::Man::new(command.clone());
    let mut body = Vec::new();
    man.render_synopsis_section(&mut body)?;
    man.render_description_section(&mut body)?;
    man.render_options_section(&mut body)?;
    // Sections of a command are sub-sections of the page.
    page.extend(String::from_utf8_lossy(&body).replace(".SH ", ".SS ").into_bytes());
    for part in command.get_subcommands().filter(|part| part.get_name() != "help") {
        section(page, part, &format!("{name} {}", part.get_name()))?;
    }
    Ok(())
}

fn print(bytes: &[u8]) -> Result<ExitCode> {
    crate::show::print(String::from_utf8_lossy(bytes).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
