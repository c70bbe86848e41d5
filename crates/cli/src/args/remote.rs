//! What can be typed to a server: where it is, what sessions may use, templates, keys, and the live view.

use super::NetworkArg;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use engine::limits;

/// Where a server is, and what it is shown.
#[derive(Args)]
pub(crate) struct ServerArgs {
    /// Server to talk to: its URL, or `unix:PATH` for a socket in the file system
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "SANDBOXD_SERVER",
        default_value = "http://127.0.0.1:8000",
        help_heading = "Server"
    )]
    pub(crate) server: String,
    /// Token to show it [default: for a server of this machine, the one in its state directory]
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "SANDBOXD_TOKEN",
        hide_env_values = true,
        help_heading = "Server"
    )]
    pub(crate) token: Option<String>,
    /// State directory of a server of this machine, where it is not the usual one
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Server")]
    pub(crate) state_dir: Option<String>,
}

/// What a session, or a program of it, may use. What is left out, the server decides.
#[derive(Args)]
pub(crate) struct LimitArgs {
    /// Wall time of one program, such as `500ms`, `30s`, `2m`
    #[arg(short, long, value_name = "TIME", value_parser = limits::duration, help_heading = "Limits")]
    pub(crate) timeout: Option<u64>,
    /// CPU time of all processes together
    #[arg(long, value_name = "TIME", value_parser = limits::duration, help_heading = "Limits")]
    pub(crate) cpu_time: Option<u64>,
    /// Memory, such as `64M`, `1Gi`, files included
    #[arg(short, long, value_name = "SIZE", value_parser = limits::bytes, help_heading = "Limits")]
    pub(crate) memory: Option<u64>,
    /// Cores, such as `0.5`, `500m`, `50%`
    #[arg(long, value_name = "CORES", value_parser = limits::cores, help_heading = "Limits")]
    pub(crate) cpus: Option<u64>,
    /// Processes and threads
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) pids: Option<u64>,
    /// Storage for files, part of the memory
    #[arg(long, value_name = "SIZE", value_parser = limits::bytes, help_heading = "Limits")]
    pub(crate) disk: Option<u64>,
    /// Number of files and directories
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) inodes: Option<u64>,
    /// Open files of one process
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) open_files: Option<u64>,
    /// Output kept of each stream
    #[arg(long, value_name = "SIZE", value_parser = limits::bytes, help_heading = "Limits")]
    pub(crate) output: Option<u64>,
}

#[derive(Args)]
pub(crate) struct TemplateArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(subcommand)]
    pub(crate) command: TemplateCommand,
}

#[derive(Subcommand)]
pub(crate) enum TemplateCommand {
    /// List templates
    #[command(visible_alias = "ls")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one template
    Show {
        /// Id of the template
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a template, and print its id
    #[command(after_help = TEMPLATE_EXAMPLES)]
    Create {
        /// Id of the template
        id: String,
        #[command(flatten)]
        content: Box<TemplateContent>,
    },
    /// Change a template; sessions made from it stay as they are
    Update {
        /// Id of the template
        id: String,
        #[command(flatten)]
        content: Box<TemplateContent>,
    },
    /// Remove templates that no session needs
    Rm {
        /// Ids of the templates
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}

const TEMPLATE_EXAMPLES: &str = "\
Examples:
  sandboxd template create data --name 'Data team' -l python -l r --memory 2Gi
  sandboxd template create web -l javascript -e NODE_ENV=production --timeout 1m
  sandboxd template create tables -l python --preload python=numpy,pandas --pool-min 2";

/// What a template says.
#[derive(Args)]
pub(crate) struct TemplateContent {
    /// Name for people [default: the id]
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Language its sessions have [default: all]; may be repeated
    #[arg(short, long = "language", value_name = "NAME")]
    pub(crate) languages: Vec<String>,
    /// Set a variable of their environment; may be repeated
    #[arg(short, long = "env", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// What programs of its sessions can reach; the server has to allow more than nothing
    #[arg(long, value_enum)]
    pub(crate) network: Option<NetworkArg>,
    /// Programs of one of its sessions that run at once [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) max_concurrent: Option<u32>,
    /// Whether sessions can be made from it
    #[arg(long)]
    pub(crate) active: Option<bool>,
    /// Modules of a language that its programs find loaded; may be repeated
    #[arg(long, value_name = "LANGUAGE=MODULE,…", help_heading = "Waiting programs")]
    pub(crate) preload: Vec<String>,
    /// File with a program that has run already wherever one of its programs is about to; may be repeated
    #[arg(long, value_name = "LANGUAGE=FILE", help_heading = "Waiting programs")]
    pub(crate) rehearsal: Vec<String>,
    /// Sandboxes that wait, at least, from the beginning
    #[arg(long, value_name = "N", help_heading = "Waiting programs")]
    pub(crate) pool_min: Option<u64>,
    /// Sandboxes that wait, at most
    #[arg(long, value_name = "N", help_heading = "Waiting programs")]
    pub(crate) pool_max: Option<u64>,
    /// Time nobody has to ask until those beyond the least are taken down
    #[arg(long, value_name = "TIME", value_parser = limits::duration, help_heading = "Waiting programs")]
    pub(crate) pool_idle: Option<u64>,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Print the template as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key, and print its token, which nobody can show again
    #[command(after_help = KEY_EXAMPLES)]
    Create(KeyContent),
    /// List keys, without their tokens
    #[command(visible_alias = "ls")]
    List {
        /// Only those of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one key, without its token
    Show {
        /// Id of the key
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Have keys stop working, at once and for good
    #[command(visible_alias = "rm")]
    Revoke {
        /// Ids of the keys
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}

const KEY_EXAMPLES: &str = "\
Examples:
  sandboxd key create ci --tenant team-a > token
  sandboxd key create reader --scope files --expires 2030-01-01T00:00:00Z
  sandboxd key create batch --concurrency 4 --cpu-seconds-per-hour 3600 --json";

/// What a key shall be like.
#[derive(Args)]
pub(crate) struct KeyContent {
    /// Name for people
    pub(crate) name: String,
    /// Whose it is [default: the caller's own]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// What it may be used for; may be repeated
    #[arg(long = "scope", value_enum, value_delimiter = ',', default_values_t = [ScopeArg::Run, ScopeArg::Files])]
    pub(crate) scopes: Vec<ScopeArg>,
    /// When it stops working by itself, such as `2030-01-01T00:00:00Z`
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
    /// Programs that run at once
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) concurrency: Option<u32>,
    /// Sessions at once
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) sessions: Option<u32>,
    /// Programs that wait for their turn
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) queued: Option<u32>,
    /// CPU time in an hour, in seconds
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) cpu_seconds_per_hour: Option<u64>,
    /// Requests in a minute, in the long run
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) requests_per_minute: Option<u32>,
    /// Requests at once, where none came for a while
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) burst: Option<u32>,
    /// Print the key and its token as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScopeArg {
    /// Running programs, and sessions
    Run,
    /// Files of sessions
    Files,
    /// Keys, templates, the audit log, and the state of the server
    Admin,
}

#[derive(Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// How often to look
    #[arg(long, value_name = "TIME", value_parser = limits::duration, default_value = "1s")]
    pub(crate) interval: u64,
    /// Look once and end, as is done where the output is no terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, an object on a line each time
    #[arg(long)]
    pub(crate) json: bool,
}
