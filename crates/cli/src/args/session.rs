//! What can be typed about sessions of a server, and their files.

use super::NetworkArg;
use super::remote::{LimitArgs, ServerArgs};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use engine::limits;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  sandboxd session create demo
  sandboxd session files put demo data.csv
  sandboxd session exec demo -c 'print(len(open(\"data.csv\").readlines()))'
  sandboxd session list --server https://sandbox.example.org
  sandboxd session rm demo";

#[derive(Args)]
pub(crate) struct SessionArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
}

#[derive(Subcommand)]
pub(crate) enum SessionCommand {
    /// Make a session, and print its id
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Box<CreateArgs>),
    /// List sessions, the newest first
    #[command(visible_alias = "ls")]
    List {
        /// Only those in this state, such as `ready`, `paused`, `stopped`, `terminated`
        #[arg(long, value_name = "STATE")]
        status: Option<String>,
        /// Only those made from this template
        #[arg(long, value_name = "ID")]
        template: Option<String>,
        /// At most so many [default: all]
        #[arg(short = 'n', long, value_name = "N")]
        limit: Option<usize>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one session, and the states it has been in
    Show {
        /// Id of the session
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a program in a session
    ///
    /// Output is passed on as it comes, and the exit code is that of `sandboxd run`. Ctrl-C ends the program on the
    /// server, and so does a connection that breaks.
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(Box<ExecArgs>),
    /// List, fetch, send, move and remove files of a session
    #[command(subcommand)]
    Files(FilesCommand),
    /// Show what the programs of a session have written, the oldest first
    ///
    /// Standard output and diagnostics of the programs go where they went, with a line about each program among the
    /// diagnostics.
    Logs {
        /// Id of the session
        id: String,
        /// Go on with what is written from now on, until the session ends or Ctrl-C
        #[arg(short, long)]
        follow: bool,
        /// At most so many programs, the newest
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
        tail: usize,
        /// Print JSON, an object on a line for each program that is over
        #[arg(long)]
        json: bool,
    },
    /// Stop every process of sessions where it is
    Pause {
        /// Ids of the sessions
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Let paused sessions go on
    Resume {
        /// Ids of the sessions
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// End sessions: their programs, their sandboxes and their files
    Rm {
        /// Ids of the sessions
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// Forget them as well, with their executions
        #[arg(long)]
        purge: bool,
    },
}

const CREATE_EXAMPLES: &str = "\
Examples:
  sandboxd session create
  sandboxd session create demo --memory 1Gi --idle 2h -e WHO=you
  id=$(sandboxd session create --template python-basic)";

#[derive(Args)]
pub(crate) struct CreateArgs {
    /// Id of the session [default: one is made]
    pub(crate) id: Option<String>,
    /// Template to make it from
    #[arg(long, value_name = "ID")]
    pub(crate) template: Option<String>,
    /// Language that will be asked for; may be repeated
    #[arg(short, long = "language", value_name = "NAME")]
    pub(crate) languages: Vec<String>,
    /// Set a variable of its environment; may be repeated
    #[arg(short, long = "env", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Something to know it by; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) metadata: Vec<String>,
    /// Agent that gets this session back when it asks again
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// What its programs can reach; the server has to allow more than nothing
    #[arg(long, value_enum)]
    pub(crate) network: Option<NetworkArg>,
    /// For one program, not for many
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// Programs of it that run at once [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) max_concurrent: Option<u32>,
    /// How long it may do nothing, or `never` to let it
    #[arg(long, value_name = "TIME", value_parser = span, allow_hyphen_values = true)]
    pub(crate) idle: Option<String>,
    /// How long it may live, or `never` to let it
    #[arg(long, value_name = "TIME", value_parser = span, allow_hyphen_values = true)]
    pub(crate) lifetime: Option<String>,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Print the session as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A time as the server reads it; for ever is -1 there.
fn span(text: &str) -> Result<String, String> {
    match text {
        "never" | "-1" => Ok("-1".into()),
        text => limits::duration(text).map(|ms| format!("{ms}ms")),
    }
}

const EXEC_EXAMPLES: &str = "\
Examples:
  sandboxd session exec demo -c 'open(\"notes\", \"w\").write(\"kept\")'
  sandboxd session exec demo main.go -- one two
  sandboxd session exec demo --mode shell -c 'ls -l | wc -l'
  sandboxd session exec demo app.py --mode handler --event '{\"name\": \"Ada\"}'
  sandboxd session exec demo -c 'print(input())' --stdin hello --timeout 5s --json";

#[derive(Args)]
pub(crate) struct ExecArgs {
    /// Id of the session
    pub(crate) id: String,
    /// Program to run; `-` reads it from standard input
    #[arg(value_name = "FILE", required_unless_present = "code", conflicts_with = "code", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Program to run, as text
    #[arg(short, long, value_name = "CODE")]
    pub(crate) code: Option<String>,
    /// Language, as `sandboxd languages` names it; by default told from FILE, else python
    #[arg(short, long, value_name = "NAME")]
    pub(crate) language: Option<String>,
    /// What is wanted of the program
    #[arg(long, value_enum, default_value_t = ExecMode::Script)]
    pub(crate) mode: ExecMode,
    /// What its handler is called with, as JSON [default: {}]
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) event: Option<String>,
    /// Put a file or directory beside the program, `NAME=PATH` or `PATH`; may be repeated
    #[arg(short, long = "file", value_name = "NAME=PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<String>,
    /// Input of the program: text, `@FILE`, or `-` for our own standard input
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true)]
    pub(crate) stdin: Option<String>,
    /// Set a variable of the program's environment; may be repeated
    #[arg(short, long = "env", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Print the record of the run as JSON, and nothing else
    #[arg(long, conflicts_with = "quiet", help_heading = "Output")]
    pub(crate) json: bool,
    /// Print only what the program prints
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExecMode {
    /// That it runs
    Script,
    /// That a shell runs it, as a command line
    Shell,
    /// The value of its function `handler(event)` or `handler(event, context)`, printed as JSON
    Handler,
    /// The value of its last expression, printed as JSON
    Evaluate,
}

#[derive(Subcommand)]
pub(crate) enum FilesCommand {
    /// List files
    #[command(visible_alias = "list")]
    Ls {
        /// Id of the session
        id: String,
        /// Below which directory [default: the workspace]
        path: Option<String>,
        /// List what is below its directories as well
        #[arg(short, long)]
        recursive: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch a file
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// Id of the session
        id: String,
        /// Path in the workspace
        path: String,
        /// File or directory to save it to, `-` for standard output [default: its name, here]
        #[arg(value_hint = ValueHint::AnyPath)]
        to: Option<PathBuf>,
    },
    /// Send a file
    #[command(after_help = PUT_EXAMPLES)]
    Put {
        /// Id of the session
        id: String,
        /// File to send, `-` for standard input
        #[arg(value_hint = ValueHint::FilePath)]
        from: PathBuf,
        /// Path in the workspace, ending in `/` for a directory [default: its name]
        to: Option<String>,
    },
    /// Remove files and directories
    Rm {
        /// Id of the session
        id: String,
        /// Paths in the workspace
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<String>,
        /// Remove directories with all that is in them
        #[arg(short, long)]
        recursive: bool,
    },
    /// Make directories, and those above them
    Mkdir {
        /// Id of the session
        id: String,
        /// Paths in the workspace
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<String>,
    },
    /// Give a file or directory another path
    Mv {
        /// Id of the session
        id: String,
        /// What
        from: String,
        /// Its new path
        to: String,
        /// Replace a file that has that path
        #[arg(short, long)]
        force: bool,
    },
}

const GET_EXAMPLES: &str = "\
Examples:
  sandboxd session files get demo out/plot.png
  sandboxd session files get demo data.csv - | head";

const PUT_EXAMPLES: &str = "\
Examples:
  sandboxd session files put demo data.csv
  sandboxd session files put demo data.csv raw/2024.csv
  tar c src | sandboxd session files put demo - src.tar";
