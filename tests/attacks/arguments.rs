//! What the program can be asked for.

use clap::{Parser, ValueEnum};
use std::path::PathBuf;

/// Attacks sandboxes and the host around them, and shows what held
#[derive(Debug, Parser)]
#[command(name = "attacks")]
pub(crate) struct Arguments {
    /// Only these cases: identifiers, beginnings of them, or globs
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub(crate) case: Vec<String>,
    /// Only as this user
    #[arg(long)]
    pub(crate) who: Option<WhoArgument>,
    /// Only this isolator
    #[arg(long)]
    pub(crate) column: Option<Isolator>,
    /// Do not judge how long neighbours take: for a machine that does other things meanwhile
    #[arg(long)]
    pub(crate) no_timing: bool,
    /// Root's half and the plain user's at the same time, but for cases that mind
    #[arg(long, conflicts_with_all = ["who", "mutant", "list"])]
    pub(crate) both_at_once: bool,
    /// Leave out the comparison
    #[arg(long)]
    pub(crate) no_compare: bool,
    /// Print the cases and do nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Say everything that was wrong, and what the comparison answered
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Where to write the scoreboard as JSON [default: target/attacks/scoreboard.json, for a whole run]
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
    /// Where to write the scoreboard as a page [default: docs/reference/attacks.md, for a whole run]
    #[arg(long, value_name = "PATH")]
    pub(crate) markdown: Option<PathBuf>,
    /// Folder with `sandboxd` and `sandbox-executor` [default: target/release]
    #[arg(long, value_name = "DIR")]
    pub(crate) binaries: Option<PathBuf>,
    /// Folder with the cases [default: tests/attacks/cases]
    #[arg(long, value_name = "DIR")]
    pub(crate) cases: Option<PathBuf>,
    /// Folder with their programs [default: tests/attacks/programs]
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
    /// Attack this weakened build until a case catches it; succeed if one does
    #[arg(long, value_name = "NAME")]
    pub(crate) mutant: Option<String>,
    /// Cells that are known to pass with every layer in place, in the words of `caught by`
    #[arg(long, value_name = "CELL", requires = "mutant")]
    pub(crate) passed: Vec<String>,
    /// Where to note what became of a mutant [default: target/attacks/mutants.json]
    #[arg(long, value_name = "PATH")]
    pub(crate) mutants: Option<PathBuf>,
    /// Take turns with the other half, which was told the same folder
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) turns: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhoArgument {
    Root,
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Isolator {
    Native,
    /// The same by interpreters that are there before their programs.
    Warm,
    /// The same by `POST /api/v1/execute` of a server that lives all the while; and attacks on that server.
    Rest,
    Bwrap,
}

impl Isolator {
    /// Whether it is ours, and so has to pass.
    pub(crate) fn is_ours(self) -> bool {
        self != Isolator::Bwrap
    }
}
