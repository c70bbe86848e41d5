//! Cases as data: reading them, and refusing what is not understood.

use crate::turns::Manner;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::{Table, Value};

/// Sections in the order in which they are run and shown. A file that is not named here comes after them.
const SECTIONS: [(&str, &str); 13] = [
    ("filesystem", "Filesystem"),
    ("processes", "Processes"),
    ("resources", "Memory, CPU, time"),
    ("streams", "Output and input"),
    ("network", "Network"),
    ("kernel", "Kernel surface"),
    ("information", "Information"),
    ("results", "Result integrity"),
    ("pool", "Pool and copies"),
    ("server", "The server"),
    ("host", "Host faults"),
    ("ordinary", "Ordinary programs"),
    ("controls", "Controls of the suite itself"),
];

const SEVERITIES: [&str; 4] = ["S0", "S1", "S2", "S3"];

/// Keys that say how to run, as opposed to what to expect of it.
const HOW: [&str; 9] = ["name", "language", "program", "code", "files", "options", "stdin", "args", "drive"];

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) section: String,
    pub(crate) facts: Facts,
    pub(crate) root: Vec<Run>,
    pub(crate) plain: Vec<Run>,
}

/// What is said of a case beside its runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Facts {
    pub(crate) id: String,
    pub(crate) severity: String,
    pub(crate) tries: String,
    pub(crate) must: String,
    /// Why it does not apply to a plain user.
    pub(crate) root_only: Option<String>,
    /// Why it does not apply to root.
    pub(crate) plain_only: Option<String>,
    /// Why it does not apply to interpreters that wait.
    pub(crate) cold_only: Option<String>,
    /// It attacks the server, and is tried where there is one.
    #[serde(default)]
    pub(crate) served: bool,
    /// Why it does not apply to programs that come by REST.
    pub(crate) command_only: Option<String>,
    /// It strains the machine: neighbours have to stay nearly as quick as without it.
    #[serde(default)]
    pub(crate) loud: bool,
    /// Why nothing may go on beside it, where that is not to be told from its other keys.
    pub(crate) alone: Option<String>,
    /// A control: it does harm without isolation, and the suite has to notice all of this, as globs.
    #[serde(default)]
    pub(crate) must_notice: Vec<String>,
    /// What else it may notice then, depending on the host; and nothing more.
    #[serde(default)]
    pub(crate) may_notice: Vec<String>,
    /// Why it is not tried under another isolator: there it would do harm, or mean nothing.
    pub(crate) no_compare: Option<String>,
    /// It kills what cleans up, so that its empty cgroups are left to the next run.
    #[serde(default)]
    pub(crate) next_run_cleans: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) language: String,
    pub(crate) program: Option<String>,
    pub(crate) code: Option<String>,
    #[serde(default)]
    pub(crate) files: Vec<String>,
    #[serde(default)]
    pub(crate) options: Vec<String>,
    pub(crate) stdin: Option<String>,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    pub(crate) drive: Option<String>,
    #[serde(default)]
    pub(crate) expect: Expect,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    pub(crate) status: Option<Vec<String>>,
    pub(crate) exit_code: Option<i64>,
    pub(crate) signal: Option<i64>,
    /// Seconds, of the whole command.
    pub(crate) ends_within: Option<f64>,
    pub(crate) stdout_truncated: Option<bool>,
    pub(crate) stderr_truncated: Option<bool>,
    pub(crate) stdout_contains: Vec<String>,
    pub(crate) stdout_lacks: Vec<String>,
    pub(crate) stderr_contains: Vec<String>,
    pub(crate) stderr_lacks: Vec<String>,
    /// In the message of the record's `error`.
    pub(crate) error_contains: Vec<String>,
    pub(crate) metrics: BTreeMap<String, [f64; 2]>,
    /// Exactly these names.
    pub(crate) artifacts: Option<Vec<String>>,
    pub(crate) at_least: Option<usize>,
    pub(crate) attempts: Vec<(String, Vec<String>)>,
    /// Those that come before them where an interpreter waited, and nowhere else.
    pub(crate) warm_attempts: Vec<(String, Vec<String>)>,
    /// Listeners it may reach: globs. For a control that shows that they can be reached.
    pub(crate) hits: Vec<String>,
}

impl Expect {
    /// The same for an interpreter that waited.
    pub(crate) fn of_warm(&self) -> Expect {
        let attempts = self.warm_attempts.iter().chain(&self.attempts).cloned().collect();
        Expect { attempts, ..self.clone() }
    }

    /// The same by REST, where what the command calls `--name` is the field `name`.
    pub(crate) fn of_rest(&self) -> Expect {
        let field = |words: &String| words.strip_prefix("--").unwrap_or(words).to_owned();
        Expect { stderr_contains: self.stderr_contains.iter().map(field).collect(), ..self.clone() }
    }

    pub(crate) fn statuses(&self) -> Vec<&str> {
        self.status.as_ref().map_or(vec!["success"], |all| all.iter().map(String::as_str).collect())
    }

    /// Whether a machine that does other things meanwhile could make a difference.
    fn asks_for_time(&self) -> bool {
        self.ends_within.is_some() || self.metrics.contains_key("duration_ms")
    }

    /// Whether anything is asked for that a program which does nothing would not give.
    fn can_fail(&self) -> bool {
        self.at_least.is_some()
            || !self.stdout_contains.is_empty()
            || !self.stderr_contains.is_empty()
            || !self.error_contains.is_empty()
            || !self.metrics.is_empty()
            || self.artifacts.as_ref().is_some_and(|names| !names.is_empty())
            || self.stdout_truncated == Some(true)
            || self.stderr_truncated == Some(true)
            || !self.statuses().contains(&"success")
    }
}

impl Case {
    /// Every case of a directory, in order.
    pub(crate) fn load_all(folder: &Path) -> Result<Vec<Case>, String> {
        let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".toml")).collect();
        names.sort_by_key(|name| (rank(stem(name)), name.clone()));
        let mut all = Vec::new();
        for name in names {
            let text = std::fs::read_to_string(folder.join(&name)).map_err(|e| format!("{name}: {e}"))?;
            all.extend(Case::load(&name, &text)?);
        }
        let mut seen = BTreeSet::new();
        match all.iter().find(|case| !seen.insert(&case.facts.id)) {
            Some(twice) => Err(format!("case {} is there twice", twice.facts.id)),
            None => Ok(all),
        }
    }

    /// Whether it tries the suite itself, and not a sandbox.
    pub(crate) fn is_control(&self) -> bool {
        !self.facts.must_notice.is_empty()
    }

    /// Whether it asks that a slow neighbour is noticed.
    pub(crate) fn is_about_timing(&self) -> bool {
        self.facts.must_notice.iter().any(|glob| glob.starts_with("neighbour p99"))
    }

    /// What may go on beside it: it may strain the machine, harm the host, or ask how long things take.
    pub(crate) fn manner(&self) -> Manner {
        let mut runs = self.root.iter().chain(&self.plain);
        if self.facts.loud || self.facts.alone.is_some() || self.is_control() {
            Manner::Alone
        } else if runs.any(|run| run.expect.asks_for_time()) {
            Manner::Timed
        } else {
            Manner::Beside
        }
    }

    /// Whether the programs and drives it names exist.
    pub(crate) fn check(&self, programs: &Path, known_drive: impl Fn(&str) -> bool) -> Result<(), String> {
        let id = &self.facts.id;
        for run in self.root.iter().chain(&self.plain) {
            if let Some(file) = run.needed().into_iter().find(|file| !programs.join(file).is_file()) {
                return Err(format!("case {id}: there is no `programs/{file}`"));
            }
            if let Some(drive) = run.drive.as_ref().filter(|name| !known_drive(name)) {
                return Err(format!("case {id}: there is no drive `{drive}`"));
            }
        }
        Ok(())
    }

    /// The cases of one file. An error names the file, the case and the key.
    pub(crate) fn load(file: &str, text: &str) -> Result<Vec<Case>, String> {
        let mut whole: Table = text.parse().map_err(|e| format!("{file}: {e}"))?;
        let cases = match whole.remove("case") {
            Some(Value::Array(cases)) => cases,
            _ => return Err(format!("{file}: there is no [[case]]")),
        };
        if let Some(key) = whole.keys().next() {
            return Err(format!("{file}: unknown key `{key}` beside the cases"));
        }
        let section = title(stem(file));
        let read = |(number, case): (usize, Value)| {
            let id = case.get("id").and_then(Value::as_str).map(str::to_owned);
            let id = id.unwrap_or_else(|| format!("number {}", number + 1));
            Case::read(case, &section).map_err(|why| format!("{file}: case {id}: {why}"))
        };
        cases.into_iter().enumerate().map(read).collect()
    }

    fn read(case: Value, section: &str) -> Result<Case, String> {
        let Value::Table(mut table) = case else { return Err("is no table".into()) };
        let runs = match table.remove("run") {
            Some(Value::Array(runs)) if !runs.is_empty() => runs,
            _ => return Err("there is no [[case.run]]".into()),
        };
        let facts: Facts = Value::Table(table).try_into().map_err(short)?;
        if !SEVERITIES.contains(&facts.severity.as_str()) {
            return Err(format!("severity `{}` is none of {}", facts.severity, SEVERITIES.join(", ")));
        }
        if facts.root_only.is_some() && facts.plain_only.is_some() {
            return Err("root_only and plain_only together leave nobody".into());
        }
        let (mut root, mut plain) = (Vec::new(), Vec::new());
        for (number, run) in runs.into_iter().enumerate() {
            let Value::Table(mut run) = run else { return Err("a run is no table".into()) };
            let named = run.get("name").and_then(Value::as_str).map(str::to_owned);
            let named = named.unwrap_or_else(|| (number + 1).to_string());
            let at = |why: String| format!("run {named}: {why}");
            let other = run.remove("plain").unwrap_or_else(|| Value::Table(Table::new()));
            let Value::Table(other) = other else { return Err(at("`plain` is no table".into())) };
            plain.push(Run::read(replaced(run.clone(), other)).map_err(at)?);
            root.push(Run::read(run).map_err(at)?);
        }
        Ok(Case { section: section.into(), facts, root, plain })
    }
}

impl Run {
    /// Whether what runs it can be there before its program.
    pub(crate) fn can_wait(&self) -> bool {
        !self.language.is_empty() && !self.options.iter().any(|option| option == "--unsafe-no-isolation")
    }

    fn read(table: Table) -> Result<Run, String> {
        let run: Run = Value::Table(table).try_into().map_err(short)?;
        if run.drive.is_none() {
            if run.program.is_some() == run.code.is_some() {
                return Err("wants either `program` or `code`".into());
            }
            if run.language.is_empty() {
                return Err("wants a `language`".into());
            }
            if !run.expect.can_fail() {
                return Err(
                    "expects nothing that could fail: say `at_least`, `stdout_contains` or a like".into()
                );
            }
        }
        if run.expect.at_least.is_some() == run.expect.attempts.is_empty() {
            return Err("`attempts` and `at_least` belong together".into());
        }
        if run.expect.at_least == Some(0) {
            return Err("`at_least` 0 would let a program pass that does nothing".into());
        }
        Ok(run)
    }

    /// Files of `programs/` that it uses, the program first.
    pub(crate) fn needed(&self) -> Vec<String> {
        self.program.iter().cloned().chain(self.beside()).collect()
    }

    /// Files that are put beside the program.
    pub(crate) fn beside(&self) -> Vec<String> {
        let library = match self.language.as_str() {
            "python" => Some("attack.py"),
            "c" => Some("attack.h"),
            _ => None,
        };
        let named = self.files.iter().map(String::as_str).filter(|file| Some(*file) != library);
        library.into_iter().chain(named).map(str::to_owned).collect()
    }
}

/// A run with what is different for a plain user put in place.
fn replaced(mut run: Table, other: Table) -> Table {
    for (key, value) in other {
        if HOW.contains(&key.as_str()) {
            run.insert(key, value);
        } else if let Value::Table(expect) = run.entry("expect").or_insert_with(|| Value::Table(Table::new()))
        {
            expect.insert(key, value);
        }
    }
    run
}

/// The message alone, without a place in a text that is not shown.
fn short(error: toml::de::Error) -> String {
    error.message().to_owned()
}

fn stem(file: &str) -> &str {
    file.trim_end_matches(".toml")
}

fn rank(stem: &str) -> usize {
    SECTIONS.iter().position(|(name, _)| *name == stem).unwrap_or(SECTIONS.len())
}

/// Name of a section for people.
fn title(stem: &str) -> String {
    let known = SECTIONS.iter().find(|(name, _)| *name == stem).map(|(_, title)| (*title).to_owned());
    known.unwrap_or_else(|| {
        let mut letters = stem.chars();
        letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
    })
}
