//! What can be typed about MCP, the protocol agents find their tools by.

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    #[command(flatten)]
    pub(crate) serve: McpServeArgs,
}

#[derive(Args)]
pub(crate) struct McpServeArgs {
    /// File with settings, instead of the one that would be found; `sandboxd config` tells more
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Tools it offers [default: all]
    #[arg(long, value_enum)]
    pub(crate) profile: Option<McpProfile>,
    /// How results look [default: stream]
    #[arg(long, value_enum)]
    pub(crate) content_style: Option<McpStyle>,
    /// How much is logged, on standard error [default: warn]
    #[arg(short, long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// How lines of the log look: auto, json or text
    #[arg(short = 'f', long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// Where files of sandboxes are while it runs [default: ~/.local/state/sandboxd, for root /var/lib/sandboxd]
    #[arg(short, long, visible_alias = "state-dir", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) workspace_dir: Option<PathBuf>,
    /// Serve HTTP at `/mcp` instead, as `sandboxd serve` does
    #[arg(long)]
    pub(crate) http: bool,
    /// Port for that [default: 3000]
    #[arg(short, long, value_name = "PORT", requires = "http")]
    pub(crate) port: Option<u16>,
    /// Set any setting over file and environment; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = super::assignment)]
    pub(crate) set: Vec<(String, String)>,
}

/// How results look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpStyle {
    /// A block for each line of output
    Stream,
    /// A block for each stream
    Compact,
    /// The same, without notes of our own
    Plain,
}

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// Add sandboxd to the configuration of an agent
    ///
    /// Shows what it would change, asks, keeps a copy of the file as it was, and changes nothing else in it. The
    /// agent then starts this very program by itself; with --url it talks to a server that runs.
    #[command(after_help = INSTALL_EXAMPLES)]
    Install(InstallArgs),
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  sandboxd mcp install --client claude-code
  sandboxd mcp install --client claude-desktop --client cursor --yes
  sandboxd mcp install --client vscode --scope project --print";

const INSTALL_EXAMPLES: &str = "\
Examples:
  sandboxd mcp install --client claude-code                     for every project of yours
  sandboxd mcp install --client vscode --scope project          for the project in this directory
  sandboxd mcp install --client claude-desktop --client cursor --yes
  sandboxd mcp install --client cursor --profile minimal --name tiny
  sandboxd mcp install --client claude-code --url http://127.0.0.1:8000    a server that runs
  sandboxd mcp install --client windsurf --print                only show it
  sandboxd mcp install --client openai-agents > agent.py        a program to begin with";

#[derive(Args)]
pub(crate) struct InstallArgs {
    /// Agent to add it to; may be repeated
    #[arg(long = "client", value_enum, value_name = "NAME", required = true)]
    pub(crate) clients: Vec<ClientArg>,
    /// What the agent calls it
    #[arg(long, value_name = "NAME", default_value = "sandboxd", value_parser = name)]
    pub(crate) name: String,
    /// Tools it offers [default: all]
    #[arg(long, value_enum)]
    pub(crate) profile: Option<McpProfile>,
    /// Where it is added: to the configuration of the user, or to that of the project in this directory
    #[arg(long, value_enum, default_value_t = ScopeArg::User)]
    pub(crate) scope: ScopeArg,
    /// Print what would be added, and touch nothing
    #[arg(long)]
    pub(crate) print: bool,
    /// Do not ask, and make the file even if the agent is not found
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Server that runs, instead of a program the agent starts: its URL, to which `/mcp` is added where it names
    /// no path. The agent takes the token from its variable SANDBOXD_TOKEN
    #[arg(long, value_name = "URL", conflicts_with = "profile")]
    pub(crate) url: Option<String>,
}

/// A program that can be given MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientArg {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Windsurf
    Windsurf,
    /// The OpenAI Agents SDK for Python: prints a program, for there is no file
    OpenaiAgents,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArg {
    /// All projects of this user
    User,
    /// The project in this directory
    Project,
}

/// Which tools an agent is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpProfile {
    /// All there are
    All,
    /// Run and check code, with sessions
    CodeSandbox,
    /// Sandboxes with commands and files, and one tool per language
    Sandboxrunner,
    /// Run code, and nothing else
    Minimal,
}

/// A name that every agent takes.
fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match !text.is_empty() && text.len() <= 64 && text.chars().all(fits) {
        true => Ok(text.into()),
        false => Err("up to 64 letters, digits, `-` and `_` make a name".into()),
    }
}
