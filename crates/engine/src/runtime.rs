//! Languages as data: the catalogue of `runtimes/*.toml`.
//!
//! A [`Runtime`] says how a language is compiled, run and checked; [`find`] looks which of its variants this
//! host can offer; [`plan`] turns one variant and a program into the steps of a job. Nothing here knows any
//! language by name.

mod catalogue;
pub mod find;
mod loads;
pub mod plan;

pub use catalogue::Catalogue;
pub use find::Found;

use crate::limits::{Wanted, bytes, duration};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A language.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    /// The name everything else refers to.
    pub name: String,
    /// The name people know.
    pub title: String,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    /// Endings of its files, the usual one first.
    pub extensions: Vec<String>,
    /// Type of its files.
    pub mime: String,
    /// Name of a program that comes without one.
    pub source: String,
    /// What a warm pool does for it.
    pub warm: Warm,
    /// How to get it.
    pub install: String,
    /// Defaults of its own.
    #[serde(default)]
    limits: OwnLimits,
    /// Ways to run it, the preferred first.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
}

/// What a warm pool does for a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Warm {
    /// Starts it anew in a prepared sandbox.
    None,
    /// Keeps interpreters waiting in sandboxes.
    Parked,
    /// Forks a loaded interpreter into sandboxes.
    Zygote,
}

/// Limits as people write them in a page of the catalogue.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnLimits {
    memory: Option<String>,
    disk: Option<String>,
    timeout: Option<String>,
    pids: Option<u64>,
}

/// One way to run a language.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Programs it cannot do without.
    pub needs: Vec<String>,
    /// Prints the version.
    pub version: Vec<String>,
    /// Makes a program, for languages that need that.
    #[serde(default)]
    pub compile: Vec<String>,
    /// What it makes, by name in the build directory.
    #[serde(default)]
    pub output: Vec<String>,
    /// Runs the program.
    pub run: Vec<String>,
    /// Runs the program for the value of its handler, where the language can.
    pub handler: Option<Host>,
    /// Runs the program for the value of its last expression, where the language can.
    pub evaluate: Option<Host>,
    /// Checks the program without running it.
    #[serde(default)]
    pub syntax: Vec<String>,
    /// Environment of all of these.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Trees outside of what every sandbox sees, where its programs may be.
    #[serde(default, rename = "toolchain")]
    pub toolchains: Vec<Toolchain>,
    /// Work done once for all runs.
    pub prepare: Option<Prepare>,
    /// How it waits for a program, where a warm pool keeps it waiting.
    pub park: Option<Park>,
}

/// A program of ours that runs the user's for its value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its file, of those in `runtimes/handler/`.
    pub host: String,
    /// Runs it; `{host}` is where it lies.
    pub run: Vec<String>,
}

/// How an interpreter waits for a program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Park {
    /// Starts it so that it waits; nothing for one whose copies wait. `{drivers}` is where the files of
    /// `runtimes/park/` are, which make it.
    #[serde(default)]
    pub run: Vec<String>,
    /// Where it starts, if not where its program does; the driver goes there.
    pub directory: Option<String>,
    /// Whether its program can be given arguments once it waits.
    #[serde(default = "yes")]
    pub args: bool,
    /// Whether it leaves somebody behind who keeps its memory, so that its end is known before the kernel has taken that
    /// down. Those whose copies wait always do. Worth it for what has a lot.
    #[serde(default)]
    pub keeper: bool,
    /// Variables it looks at when it starts, `*` for any ending, `!` for one that is none of those that follow. A
    /// program that wants one of them does not get one that waits.
    pub start_env: Vec<String>,
    /// Modules that are loaded before the first program comes, as far as they are installed.
    #[serde(default)]
    pub preload: Vec<String>,
    /// A program that it runs once before it is copied.
    #[serde(default)]
    pub warm_up: String,
    /// Variables that are set while modules are loaded, and never seen by a program.
    #[serde(default)]
    pub load_env: BTreeMap<String, String>,
    /// Words at the beginning of a line after which it names a module.
    #[serde(default)]
    pub import_words: Vec<String>,
    /// Modules too large to be loaded for everybody: for each set an interpreter of its own, which is a copy of one that
    /// has loaded a part of it.
    #[serde(default, rename = "set")]
    pub sets: Vec<PreloadSet>,
}

/// Modules that are loaded for the programs that want them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreloadSet {
    /// Which, beside those for everybody.
    pub preload: Vec<String>,
    /// What is run once beside what everybody runs.
    #[serde(default)]
    pub warm_up: String,
}

/// Variables that every program's libraries look at when it starts.
const START_ENV: [&str; 8] =
    ["LD_*", "LC_*", "LANG", "LANGUAGE", "LOCPATH", "MALLOC_*", "GLIBC_*", "GCONV_PATH"];

impl Park {
    /// Whether a program that waits can be given this variable.
    pub fn takes(&self, name: &str) -> bool {
        let start = START_ENV.iter().copied().chain(self.start_env.iter().map(String::as_str));
        let first = start.into_iter().find(|known| {
            let known = known.trim_start_matches('!');
            known.strip_suffix('*').map_or(name == known, |beginning| name.starts_with(beginning))
        });
        first.is_none_or(|known| known.starts_with('!'))
    }
}

impl Park {
    /// The set nearest to what these files import: one that lacks as few as possible of what they want, and of those
    /// the smallest. None for a program that wants nothing of any set.
    pub fn set_for<'f>(&self, files: impl Iterator<Item = &'f [u8]>) -> Option<usize> {
        if self.sets.is_empty() {
            return None;
        }
        let known = |name: &str| self.sets.iter().any(|set| set.preload.iter().any(|module| module == name));
        let wanted: Vec<&str> =
            files.flat_map(|file| self.imports(file)).filter(|name| known(name)).collect();
        let lacking = |modules: &[String]| {
            wanted.iter().filter(|name| !modules.iter().any(|module| module == *name)).count()
        };
        let sets = self.sets.iter().enumerate().map(|(index, set)| (Some(index), set.preload.as_slice()));
        let all = std::iter::once((None, [].as_slice())).chain(sets);
        all.min_by_key(|(_, modules)| (lacking(modules), modules.len())).and_then(|(index, _)| index)
    }

    /// Modules a file names, as far as a glance at the beginnings of its lines tells.
    fn imports<'f>(&self, file: &'f [u8]) -> Vec<&'f str> {
        let lines = file.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        let mut names = Vec::new();
        for line in lines {
            let Some((word, rest)) = line.trim_start().split_once(' ') else { continue };
            if self.import_words.iter().any(|known| known == word) {
                let end = |c: char| !c.is_alphanumeric() && c != '_';
                names.extend(rest.split(',').filter_map(|part| part.trim().split(end).next()));
            }
        }
        names
    }
}

fn yes() -> bool {
    true
}

/// A tree of the host that holds a language.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// Where it may be; `~` is the caller's home, `*` any name.
    pub glob: String,
    /// Where it is seen inside.
    pub mount: String,
    /// Directories in it that hold programs.
    pub path: Vec<String>,
}

/// Work done once for all runs of one version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// Does it.
    pub run: Vec<String>,
    /// Where its result is seen inside, then and later.
    pub mount: String,
    /// Whether the language also works with an empty directory, and gets one where this fails.
    #[serde(default)]
    pub optional: bool,
}

/// A program that proves a language works.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What it proves.
    pub name: String,
    /// The program.
    pub code: String,
    /// Files beside it.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Its input.
    pub stdin: Option<String>,
    /// Its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Exactly what it writes.
    pub stdout: Option<String>,
    /// What it writes among other things.
    #[serde(default)]
    pub stdout_contains: Vec<String>,
    /// What it complains of among other things.
    #[serde(default)]
    pub stderr_contains: Vec<String>,
    /// Its exit code.
    #[serde(default)]
    pub exit: i32,
}

impl Runtime {
    /// Reads a page of the catalogue.
    pub(crate) fn parse(page: &str) -> Result<Runtime, String> {
        let runtime: Runtime = serde_json::from_str(page).map_err(|e| e.to_string())?;
        runtime.limits.wanted()?;
        Ok(runtime)
    }

    /// Its own defaults.
    pub fn limits(&self) -> Wanted {
        // They were understood when the page was read.
        self.limits.wanted().unwrap_or_default()
    }

    /// Every name it answers to.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}

impl OwnLimits {
    fn wanted(&self) -> Result<Wanted, String> {
        Ok(Wanted {
            memory_bytes: self.memory.as_deref().map(bytes).transpose()?,
            disk_bytes: self.disk.as_deref().map(bytes).transpose()?,
            timeout_ms: self.timeout.as_deref().map(duration).transpose()?,
            pids: self.pids,
            ..Wanted::default()
        })
    }
}
