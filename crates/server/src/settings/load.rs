//! Loading: defaults, then the file, then variables, then the command line; later wins. Every layer is looked at to
//! its end, so that everything that is wrong is told at once.

mod variables;

use super::catalogue::{Settings, catalogue, find};
use super::key::Key;
use super::kind::{Given, Kind, Wrong};
use super::problem::{Problem, Problems};
use super::value::{Typed, Value};
use super::{check, file};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// Where settings come from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The file, where somebody named one.
    pub file: Option<PathBuf>,
    /// Paths and values from the command line; of two for one path the later counts.
    pub flags: Vec<(String, String)>,
    /// The environment.
    pub variables: BTreeMap<String, OsString>,
    /// Where relative paths begin, and where a file is looked for first.
    pub folder: PathBuf,
    /// Where a file is looked for last.
    pub system: PathBuf,
    /// Whether the state is the system's.
    pub is_root: bool,
}

impl Sources {
    /// This process and its surroundings.
    pub fn here() -> Sources {
        let names = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        Sources {
            file: None,
            flags: Vec::new(),
            variables: names.collect(),
            folder: std::env::current_dir().unwrap_or_else(|_| "/".into()),
            system: "/etc/sandboxd".into(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    pub(super) fn home(&self) -> Option<PathBuf> {
        self.variables.get("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }

    /// A path that does not depend on where one is.
    pub(super) fn absolute(&self, text: &str) -> PathBuf {
        let rest = text.strip_prefix("~/").or_else(|| (text == "~").then_some(""));
        match (rest, self.home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.folder.join(text.strip_prefix("./").unwrap_or(text)),
        }
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The file.
    File {
        /// Which.
        path: PathBuf,
        /// Where in it.
        line: usize,
    },
    /// A variable of this name.
    Variable(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => write!(f, "${name}"),
            Origin::Flag => f.write_str("command line"),
        }
    }
}

/// A setting, settled.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Which.
    pub key: &'static Key,
    /// What it is.
    pub value: Value,
    /// Who said so.
    pub origin: Origin,
}

/// Settings, and how they came to be.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What the server goes by.
    pub settings: Settings,
    /// Each of them, in the order of the catalogue.
    pub all: Vec<Setting>,
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// What an operator should know, for the log.
    pub notes: Vec<String>,
}

/// Loads settings, or says everything that is wrong with them.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let mut loading = Loading::new(sources);
    let file = loading.file();
    loading.variables();
    loading.flags();
    loading.defaults();
    let settings = match Settings::of(&loading.values) {
        Ok(settings) => settings,
        Err(path) => {
            if loading.broken.is_empty() {
                loading.refuse(path, Origin::Default, Wrong::new("is of another kind than its type"));
            }
            return Err(Problems(loading.problems));
        }
    };
    check::together(&settings, &mut loading);
    if !loading.problems.is_empty() {
        return Err(Problems(loading.problems));
    }
    let Loading { mut values, notes, .. } = loading;
    let take = |key: &'static Key| {
        let (value, origin) = values.0.remove(key.path)?;
        Some(Setting { key, value, origin })
    };
    let all = catalogue().iter().filter_map(take).collect();
    Ok(Loaded { settings, all, file, notes })
}

/// Values by path, each with who said so.
#[derive(Debug, Default)]
pub(super) struct Values(BTreeMap<&'static str, (Value, Origin)>);

impl Values {
    /// The value in its type, or the path back.
    pub(super) fn typed<T: Typed>(&self, path: &'static str) -> Result<T, &'static str> {
        self.0.get(path).and_then(|(value, _)| T::of(value)).ok_or(path)
    }

    /// Who said so.
    pub(super) fn origin(&self, path: &str) -> Origin {
        self.0.get(path).map_or(Origin::Default, |(_, origin)| origin.clone())
    }
}

/// What is known when a default is asked for.
pub(super) struct Known<'a> {
    pub(super) values: &'a Values,
    pub(super) sources: &'a Sources,
}

impl Known<'_> {
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.sources.variables.get(name).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
    }

    pub(super) fn home(&self) -> Option<PathBuf> {
        self.sources.home()
    }

    /// A place in the state directory.
    pub(super) fn in_state_dir(&self, name: &str) -> Result<PathBuf, String> {
        let dir: Result<PathBuf, _> = self.values.typed("state.dir");
        dir.map(|dir| dir.join(name)).map_err(|path| format!("there is no `{path}` to put it in"))
    }
}

/// Settings on their way.
pub(super) struct Loading<'a> {
    pub(super) sources: &'a Sources,
    pub(super) values: Values,
    pub(super) problems: Vec<Problem>,
    pub(super) notes: Vec<String>,
    /// Settings that somebody said something wrong about.
    pub(super) broken: BTreeSet<String>,
}

impl<'a> Loading<'a> {
    fn new(sources: &'a Sources) -> Loading<'a> {
        let (problems, notes, broken) = (Vec::new(), Vec::new(), BTreeSet::new());
        Loading { sources, values: Values::default(), problems, notes, broken }
    }

    fn file(&mut self) -> Option<PathBuf> {
        let (path, notes) = file::locate(self.sources);
        self.notes.extend(notes);
        let path = path?;
        let (lines, problems) = match file::read(&path, self.sources) {
            Ok(read) => read,
            Err(problems) => (Vec::new(), problems),
        };
        self.problems.extend(problems);
        for line in lines {
            let origin = Origin::File { path: path.clone(), line: line.number };
            match (find(&line.path), line.given) {
                (Some(key), Ok(given)) => self.set(key, &given, origin),
                (_, Err(wrong)) => self.refuse(&line.path, origin, wrong),
                (None, Ok(_)) => self.problems.push(Problem::unknown(&line.path, origin)),
            }
        }
        Some(path)
    }

    fn flags(&mut self) {
        for (path, text) in &self.sources.flags {
            match find(path) {
                Some(key) => self.set(key, &Given::Text(text.clone()), Origin::Flag),
                None => self.problems.push(Problem::unknown(path, Origin::Flag)),
            }
        }
    }

    fn defaults(&mut self) {
        for key in catalogue() {
            if self.values.0.contains_key(key.path) {
                continue;
            }
            let known = Known { values: &self.values, sources: self.sources };
            match key.default(&known) {
                Ok(value) => drop(self.values.0.insert(key.path, (value, Origin::Default))),
                Err(wrong) => self.refuse(key.path, Origin::Default, wrong),
            }
        }
    }

    /// Takes a value over whatever was said before.
    fn set(&mut self, key: &'static Key, given: &Given, origin: Origin) {
        match key.read(given) {
            Ok(value) => {
                let value = self.placed(key, value);
                self.values.0.insert(key.path, (value, origin));
            }
            Err(wrong) => self.refuse(key.path, origin, wrong),
        }
    }

    /// Paths do not depend on where one is.
    fn placed(&self, key: &Key, value: Value) -> Value {
        match (key.kind, value) {
            (Kind::Path, Value::Text(text)) => {
                Value::Text(self.sources.absolute(&text).display().to_string())
            }
            (Kind::Objects, Value::Text(text)) if !text.contains("://") => {
                Value::Text(self.sources.absolute(&text).display().to_string())
            }
            (_, value) => value,
        }
    }

    pub(super) fn refuse(&mut self, path: &str, origin: Origin, wrong: Wrong) {
        self.broken.insert(path.into());
        self.problems.push(Problem::new(path, origin, wrong));
    }
}

#[cfg(test)]
impl Sources {
    /// A place without a file and with nothing in the environment but a home.
    pub(crate) fn nowhere() -> Sources {
        Sources {
            file: None,
            flags: Vec::new(),
            variables: [("HOME".to_owned(), OsString::from("/home/nobody"))].into(),
            folder: "/nonexistent".into(),
            system: "/nonexistent/etc".into(),
            is_root: false,
        }
    }

    pub(crate) fn flags(mut self, flags: &[(&str, &str)]) -> Sources {
        self.flags.extend(flags.iter().map(|(path, text)| (path.to_string(), text.to_string())));
        self
    }

    pub(crate) fn env(mut self, name: &str, text: &str) -> Sources {
        self.variables.insert(name.into(), text.into());
        self
    }

    pub(crate) fn file(mut self, path: &std::path::Path) -> Sources {
        self.file = Some(path.into());
        self
    }
}

#[cfg(test)]
mod tests;
