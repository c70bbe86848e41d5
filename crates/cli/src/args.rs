//! What can be typed. No logic: `run --help` is written here.

pub(crate) mod mcp;
pub(crate) mod remote;
pub(crate) mod session;

use clap::{Args, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};
use engine::limits;
use mcp::McpArgs;
use remote::{KeyArgs, TemplateArgs, TopArgs};
use session::SessionArgs;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run untrusted code safely, now
///
/// Code runs in a sandbox of its own: Linux namespaces, a filter for system calls, no network, and limits on
/// time, memory, processes and storage. No server, root, container engine or virtual machine is needed.
#[derive(Parser)]
#[command(name = "sandboxd", version, max_term_width = 100, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads a command line that asks for a run, and has nothing wrong with it: to know what else can be typed takes
    /// longer than to make a namespace.
    pub(crate) fn of_run(words: &[OsString]) -> Option<Cli> {
        let [_, command @ ..] = words else { return None };
        let run = RunArgs::augment_args(clap::Command::new("run")).disable_help_flag(true);
        let matches = run.try_get_matches_from(command).ok()?;
        let options = RunArgs::from_arg_matches(&matches).ok()?;
        Some(Cli { command: Command::Run(Box::new(options)) })
    }
}

const EXAMPLES: &str = "\
Examples:
  sandboxd run -c 'print(6 * 7)'            Python, isolated
  sandboxd run script.rb -- one two         a file, with arguments
  sandboxd run -l bash -c 'curl example.org'    fails: there is no network inside
  sandboxd serve                            the REST API, on this machine only
  sandboxd session create demo              a sandbox of it that stays
  sandboxd mcp install --client claude-code an agent that runs its code here
  sandboxd demo                             hello in every language of this host
  sandboxd doctor                           what this host offers, and how to get more";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a program in a sandbox of its own
    ///
    /// Output is passed on as it comes. The exit code is the program's own; 124 when its time was up, 137 when
    /// its memory was, 128+N when signal N ended it, 125 when sandboxd itself failed, 2 for a wrong request.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Serve the REST API until it is told to stop
    ///
    /// Listens on this machine only, and always wants a token: it is made when the server is first started, and
    /// kept in the state directory. `/docs` shows the API, `/health` says whether it is up, `/metrics` is for
    /// Prometheus. SIGTERM or Ctrl-C ends it: requests in flight have 10 seconds. A socket that systemd passes on
    /// is used instead of --host and --port.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Use sessions of a server: make them, run programs in them, fetch and send files
    ///
    /// A session is a sandbox that stays: its workspace is kept from one program to the next. `sandboxd serve` has to
    /// run, here or elsewhere.
    #[command(after_help = session::EXAMPLES)]
    Session(SessionArgs),
    /// See and change what sessions of a server are made from
    Template(TemplateArgs),
    /// Make, list and revoke keys of a server
    Key(KeyArgs),
    /// Watch what a server does: sessions, programs that run, sandboxes that wait
    ///
    /// `q` or Ctrl-C ends it. What it shows is what the token may see.
    Top(TopArgs),
    /// Give agents sandboxes as tools, by the Model Context Protocol
    #[command(after_help = mcp::EXAMPLES)]
    Mcp(McpArgs),
    /// List languages: version, and whether this host has them
    Languages {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what this host offers for isolation, and how to get more
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say hello in every language of this host, all at once
    Demo {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure sandboxes beside the bare command, bubblewrap, runc and crun
    ///
    /// All take turns in one run; the ratio to the bare command is the result. Says which targets are reached.
    /// `scripts/setup tools` installs what is compared.
    Bench(BenchArgs),
    /// Write, check and show the settings of the server
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell
    ///
    /// For bash: `sandboxd completions bash > ~/.local/share/bash-completion/completions/sandboxd`
    Completions {
        /// Shell to print it for
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    ///
    /// To read it: `sandboxd man | man -l -`
    Man,
}

const RUN_EXAMPLES: &str = "\
Examples:
  sandboxd run main.py --timeout 5s --memory 256M
  sandboxd run -c 'console.log(process.argv.slice(2))' -l js -- a b
  echo 'print(input())' | sandboxd run - --stdin hello
  sandboxd run main.c --file util.c=src/util.c --file util.h=src/util.h
  sandboxd run --mode evaluate -c '6 * 7'    prints the value
  sandboxd run app.py --mode handler --event '{\"name\": \"Ada\"}'
  sandboxd run plot.py --artifacts out/      keep the files it makes
  sandboxd run main.go --json | jq .metrics";

#[derive(Args)]
pub(crate) struct RunArgs {
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
    #[arg(long, value_enum, default_value_t = ModeArg::Script)]
    pub(crate) mode: ModeArg,
    /// What its handler is called with, as JSON [default: {}]
    #[arg(long, value_name = "JSON", conflicts_with = "event_file", allow_hyphen_values = true)]
    pub(crate) event: Option<String>,
    /// The same, from a file; `-` reads it from standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) event_file: Option<PathBuf>,
    /// What differs from the usual context of a handler, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) context: Option<String>,
    /// Put a file or directory beside the program, `NAME=PATH` or `PATH`; may be repeated
    #[arg(short, long = "file", value_name = "NAME=PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<String>,
    /// Input of the program: text, `@FILE`, or `-` for our own standard input
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true)]
    pub(crate) stdin: Option<String>,
    /// Set a variable of the program's environment, which is otherwise clean; may be repeated
    #[arg(short, long = "env", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Check the program without running it
    #[arg(long)]
    pub(crate) check: bool,
    /// Save new and changed files of the workspace to a directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) artifacts: Option<PathBuf>,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,

    /// Wall time, such as `500ms`, `30s`, `2m` [default: 30s]
    #[arg(short, long, value_name = "TIME", value_parser = limits::duration, help_heading = "Limits")]
    pub(crate) timeout: Option<u64>,
    /// CPU time of all processes together [default: wall time × cores]
    #[arg(long, value_name = "TIME", value_parser = limits::duration, help_heading = "Limits")]
    pub(crate) cpu_time: Option<u64>,
    /// Memory, such as `64M`, `1Gi`, files the program writes included [default: 512M, or the language's]
    #[arg(short, long, value_name = "SIZE", value_parser = limits::bytes, help_heading = "Limits")]
    pub(crate) memory: Option<u64>,
    /// Cores, such as `0.5`, `500m`, `50%` [default: 1]
    #[arg(long, value_name = "CORES", value_parser = limits::cores, help_heading = "Limits")]
    pub(crate) cpus: Option<u64>,
    /// Processes and threads [default: 128]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) pids: Option<u64>,
    /// Storage for files, part of the memory [default: half of the memory]
    #[arg(long, value_name = "SIZE", value_parser = limits::bytes, help_heading = "Limits")]
    pub(crate) disk: Option<u64>,
    /// Number of files and directories [default: 100000]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) inodes: Option<u64>,
    /// Open files of one process [default: 1024]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) open_files: Option<u64>,
    /// Output kept of each stream [default: 8M]; past 64M the program is ended
    #[arg(long, value_name = "SIZE", value_parser = limits::bytes, help_heading = "Limits")]
    pub(crate) output: Option<u64>,

    /// What the program can reach
    #[arg(long, value_enum, default_value_t = NetworkArg::None, help_heading = "Isolation")]
    pub(crate) network: NetworkArg,
    /// System calls the program may make
    #[arg(long, value_enum, default_value_t = ProfileArg::Default, help_heading = "Isolation")]
    pub(crate) profile: ProfileArg,
    /// Accept that a layer is missing on this host, instead of refusing; the record says so
    #[arg(long, value_enum, value_name = "LAYER", help_heading = "Isolation")]
    pub(crate) allow_weaker: Vec<LayerArg>,
    /// Run with NO ISOLATION AT ALL: the program can do whatever you can
    #[arg(long, help_heading = "Isolation")]
    pub(crate) unsafe_no_isolation: bool,

    /// Print the record of the run as JSON, and nothing else
    #[arg(long, conflicts_with = "quiet", help_heading = "Output")]
    pub(crate) json: bool,
    /// Print only what the program prints
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Run it as a server does that keeps sandboxes warm: by an interpreter that is there before the program
    #[arg(long, conflicts_with = "unsafe_no_isolation", help_heading = "Isolation")]
    pub(crate) warm: bool,
    /// Afterwards print what the run used and what protected the host
    #[arg(long, conflicts_with_all = ["json", "quiet"], help_heading = "Output")]
    pub(crate) metrics: bool,
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Write a file with every setting, what it is for and its default, all commented out
    #[command(after_help = GENERATE_EXAMPLES)]
    Generate {
        /// File to write, instead of printing
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
        /// What to write it in [default: by the ending of FILE, else yaml]
        #[arg(long, value_enum)]
        format: Option<ConfigFormat>,
        /// Overwrite FILE if it is there
        #[arg(short, long, requires = "output")]
        force: bool,
    },
    /// Check the settings, and say everything that is wrong with them
    ///
    /// Looks at what the server would look at: the file, the environment, and values given here. The exit code is 0
    /// when all is well, else 2.
    Validate {
        /// File to check, instead of the one the server would find
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
        /// Set a value over file and environment; may be repeated
        #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
        set: Vec<(String, String)>,
    },
    /// Show the settings that count, and where each came from
    ///
    /// Without `--all` only those that somebody has set. Secrets are not shown.
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// File to read, instead of the one the server would find
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        config: Option<PathBuf>,
        /// Set a value over file and environment; may be repeated
        #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
        set: Vec<(String, String)>,
        /// Show defaults too
        #[arg(short, long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

const GENERATE_EXAMPLES: &str = "\
Examples:
  sandboxd config generate -o sandboxd.yaml
  sandboxd config generate -o /etc/sandboxd/sandboxd.toml";

const SHOW_EXAMPLES: &str = "\
Examples:
  sandboxd config show --all
  SANDBOXD_SERVER_PORT=9000 sandboxd config show
  sandboxd config show --set limits.max_timeout=10m --json";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigFormat {
    /// YAML
    Yaml,
    /// TOML
    Toml,
    /// The reference page
    #[value(hide = true)]
    Markdown,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("there is no `=` in it; write `limits.timeout=30s`")?;
    Ok((key.trim().into(), value.into()))
}

const SERVE_EXAMPLES: &str = "\
Examples:
  sandboxd serve
  curl localhost:8000/api/v1/execute --json '{\"language\": \"python\", \"code\": \"print(6 * 7)\"}' \\
      -H \"Authorization: Bearer $(cat ~/.local/state/sandboxd/token)\"
  sandboxd serve --port 9000 --state-dir ./state
  sandboxd serve --unix-socket /run/user/1000/sandboxd.sock
  sandboxd serve --host 0.0.0.0 --allow-remote --token-file token --allowed-host sandbox.example.org";

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// File with settings, instead of the one that would be found; `sandboxd config` tells more
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1]; one that other machines can reach takes --allow-remote and
    /// --token-file as well
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) host: Option<String>,
    /// Port to listen on; 0 for any that is free [default: 8000]
    #[arg(short, long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Listen on a socket in the file system instead, which only this user may use
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) unix_socket: Option<String>,
    /// Where token, database, objects and audit log are kept [default: ~/.local/state/sandboxd, for root
    /// /var/lib/sandboxd]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) state_dir: Option<String>,
    /// File with a token of your own, which nobody else may read
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<String>,
    /// Let other machines in, if --host says so: whoever has the token can run programs here
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// A name that clients call this server by, beside `localhost`; may be repeated
    #[arg(long = "allowed-host", value_name = "NAME")]
    pub(crate) allowed_hosts: Vec<String>,
    /// Set any setting over file and environment; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
}

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// How often each is measured; programs that take long less often
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) rounds: usize,
    /// Measure everything, but hardly: to see that it works, not how fast it is
    #[arg(long, conflicts_with = "rounds")]
    pub(crate) quick: bool,
    /// Measure only these programs and parts
    #[arg(long, value_enum, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    pub(crate) only: Vec<BenchPart>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the JSON to a file, whatever is printed
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) save: Option<PathBuf>,
    /// Draw a chart of the ratios
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
}

/// A program that is measured, or what is measured of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BenchPart {
    /// Program: hello in Python
    Python,
    /// Program: hello in Node.js
    Node,
    /// Program: hello in Bash
    Bash,
    /// Program: hello in C, compiled before
    C,
    /// Program: `import numpy`
    Numpy,
    /// Program: `import pandas` and a small DataFrame
    Pandas,
    /// Part: how long one run takes
    Latency,
    /// Part: 1, 2 and 8 runs in flight, and what one costs
    Load,
    /// Part: memory of sandboxes that wait
    Memory,
    /// Part: how soon after its time a program is dead
    Deadline,
    /// Part: a run through the server, without and with a million records of earlier ones
    Server,
}

impl BenchPart {
    pub(crate) fn is_program(self) -> bool {
        use BenchPart::{Deadline, Latency, Load, Memory, Server};
        !matches!(self, Latency | Load | Memory | Deadline | Server)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// That it runs
    Script,
    /// The value of its function `handler(event)` or `handler(event, context)`, printed as JSON
    Handler,
    /// The value of its last expression, printed as JSON
    Evaluate,
}

#[derive(Clone, Copy, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NetworkArg {
    /// Nothing but itself
    None,
    /// Everything this host can reach, this host included
    Host,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ProfileArg {
    /// What ordinary programs need
    Default,
    /// Also debuggers and tracers, on the program's own processes
    Debug,
    /// Computing only: no sockets, no shared memory segments, no file watching
    Strict,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LayerArg {
    /// Overlays of the sandbox's own over directories of the host
    Overlay,
    /// Limits by the kernel's cgroups, where sandboxd runs as root
    Cgroup,
}
