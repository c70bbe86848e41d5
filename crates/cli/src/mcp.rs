//! `sandboxd mcp`: sandboxd as a server of tools for agents.

mod install;
mod private;
mod serve;

use crate::args::mcp::{McpArgs, McpCommand};
use anyhow::Result;
use std::process::ExitCode;

pub(crate) fn run(args: McpArgs) -> Result<ExitCode> {
    match args.command {
        Some(McpCommand::Install(options)) => install::run(&options),
        None => serve::run(args.serve),
    }
}
