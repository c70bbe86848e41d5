//! The file: where it is looked for, whether it can be trusted, and what it says.
//!
//! It decides about isolation, so whoever can write it decides about this host. One that others can write is refused.

mod toml;
mod yaml;

use super::catalogue::{find, sections};
use super::founding;
use super::kind::{Given, Wrong};
use super::load::Sources;
use super::problem::Problem;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More is no file of settings.
const MOST: u64 = 1 << 20;

/// What a file says, before anybody knows what its words mean.
#[derive(Clone, Debug, PartialEq)]
struct Node {
    line: usize,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Nothing,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// The file is not what its format wants.
struct Fault {
    line: Option<usize>,
    message: String,
}

/// A setting in a file.
pub(super) struct Line {
    pub(super) path: String,
    pub(super) number: usize,
    pub(super) given: Result<Given, Wrong>,
}

/// Which file is read, if any, and what is to be said about others.
pub(super) fn locate(sources: &Sources) -> (Option<PathBuf>, Vec<String>) {
    let mut notes = Vec::new();
    if let Some(path) = named(sources) {
        return (Some(sources.folder.join(path)), notes);
    }
    let home = sources.home().map(|home| home.join(".config/sandboxd"));
    let folders = [Some(sources.folder.clone()), home, Some(sources.system.clone())];
    for folder in folders.into_iter().flatten() {
        let names = ["sandboxd.yaml", "sandboxd.toml"].map(|name| folder.join(name));
        let mut found = names.into_iter().filter(|path| path.exists());
        if let Some(first) = found.next() {
            if let Some(second) = found.next() {
                notes.push(format!("`{}` is not read, because `{}` is", second.display(), first.display()));
            }
            return (Some(first), notes);
        }
    }
    for old in founding::FILES {
        let path = sources.absolute(old);
        if path.exists() {
            let advice = "`sandboxd config validate FILE` says what its settings are called now";
            notes.push(format!("`{}` is not read: it is another program's; {advice}", path.display()));
        }
    }
    (None, notes)
}

/// The file that somebody named.
fn named(sources: &Sources) -> Option<PathBuf> {
    let variable = || sources.variables.get("SANDBOXD_CONFIG").filter(|path| !path.is_empty());
    sources.file.clone().or_else(|| variable().map(PathBuf::from))
}

/// Reads a file. What is wrong with it as a whole ends the reading; what is wrong with a line does not.
pub(super) fn read(path: &Path, sources: &Sources) -> Result<(Vec<Line>, Vec<Problem>), Vec<Problem>> {
    let shown = path.display();
    let wrong = |wrong: Wrong| vec![Problem::at(format!("`{shown}`"), wrong)];
    let text = open(path, named(sources).is_none()).map_err(wrong)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let parsed = match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => toml::parse(text),
        Some("yaml" | "yml" | "json") | None => yaml::parse(text),
        Some(other) => {
            let message = format!("`.{other}` is no ending of a file of settings");
            return Err(wrong(Wrong::new(message).hint("name it `.yaml` or `.toml`")));
        }
    };
    let place = |line: Option<usize>| match line {
        Some(line) => format!("{shown}:{line}"),
        None => shown.to_string(),
    };
    let node = parsed.map_err(|faults| {
        let problem = |fault: Fault| Problem::at(place(fault.line), Wrong::new(fault.message));
        faults.into_iter().map(problem).collect::<Vec<_>>()
    })?;
    let (mut lines, mut problems) = (Vec::new(), Vec::new());
    match node.what {
        What::Nothing => {}
        What::Map(children) => {
            for (name, child) in children {
                walk(name, child, &mut lines, &mut |path, line, wrong| {
                    let place = place(Some(line));
                    problems.push(match wrong {
                        Some(wrong) => Problem::new(path, place, wrong),
                        None => Problem::unknown(path, place),
                    });
                });
            }
        }
        _ => problems.push(Problem::at(
            place(Some(node.line)),
            Wrong::new("sections are missing").hint("`sandboxd config generate` writes a file to begin with"),
        )),
    }
    Ok((lines, problems))
}

/// Finds the settings below a name.
fn walk(
    path: String,
    node: Node,
    lines: &mut Vec<Line>,
    problem: &mut dyn FnMut(&str, usize, Option<Wrong>),
) {
    if find(&path).is_some() {
        lines.push(Line { number: node.line, given: given(node), path });
        return;
    }
    let is_section = sections().iter().any(|(section, _)| *section == path);
    let first = path.split('.').next().unwrap_or_default();
    match node.what {
        What::Nothing if is_section => {}
        What::Map(children) if is_section => {
            children
                .into_iter()
                .for_each(|(name, child)| walk(format!("{path}.{name}"), child, lines, problem));
        }
        // A file from before is told what each of its settings is called now.
        What::Map(children) if super::problem::is_from_before(first) => {
            children
                .into_iter()
                .for_each(|(name, child)| walk(format!("{path}.{name}"), child, lines, problem));
        }
        _ if is_section => {
            let hint = format!("put its settings below it, indented, or in `[{path}]`");
            problem(&path, node.line, Some(Wrong::new("is a section, not a setting").hint(hint)));
        }
        _ => problem(&path, node.line, None),
    }
}

fn given(node: Node) -> Result<Given, Wrong> {
    let plain = |node: Node| match node.what {
        What::Text(text) => Ok(text),
        What::Nothing => Ok(String::new()),
        _ => Err(Wrong::new("is nested deeper than any setting")),
    };
    match node.what {
        What::Nothing => Err(Wrong::new("has no value").hint("give one, or put `#` before it")),
        What::Text(text) => Ok(Given::Text(text)),
        What::List(nodes) => nodes.into_iter().map(plain).collect::<Result<_, _>>().map(Given::List),
        What::Map(pairs) => {
            let pairs = pairs.into_iter().map(|(name, node)| Ok((name, plain(node)?)));
            pairs.collect::<Result<_, _>>().map(Given::Map)
        }
    }
}

/// The text of a file that nobody else can write; one that was found, not named, has to be ours or root's.
fn open(path: &Path, is_found: bool) -> Result<String, Wrong> {
    let cannot = |error: std::io::Error| Wrong::new(format!("cannot be read: {error}"));
    let mut file = File::open(path).map_err(cannot)?;
    let meta = file.metadata().map_err(cannot)?;
    if meta.is_dir() {
        return Err(Wrong::new("is a directory"));
    }
    if meta.mode() & 0o022 != 0 {
        let hint = format!("`chmod go-w {}`", path.display());
        return Err(Wrong::new("others can write it, and it decides about isolation").hint(hint));
    }
    if is_found && !is_trusted(&meta) {
        let hint = format!("if that is right, name it: `--config {}`", path.display());
        return Err(Wrong::new("it belongs to somebody else").hint(hint));
    }
    let mut text = String::new();
    file.by_ref().take(MOST + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > MOST {
        return Err(Wrong::new("is too large for a file of settings"));
    }
    Ok(text)
}

fn is_trusted(meta: &std::fs::Metadata) -> bool {
    meta.uid() == 0 || meta.uid() == rustix::process::geteuid().as_raw()
}

/// What lies in a file that only its owner can read.
pub(super) fn secret(path: &Path) -> Result<String, Wrong> {
    let cannot = |error: std::io::Error| Wrong::new(format!("`{}` cannot be read: {error}", path.display()));
    let mut file = File::open(path).map_err(cannot)?;
    let meta = file.metadata().map_err(cannot)?;
    if meta.mode() & 0o077 != 0 {
        let hint = format!("`chmod 600 {}`", path.display());
        return Err(Wrong::new(format!("others can read `{}`", path.display())).hint(hint));
    }
    if !is_trusted(&meta) {
        return Err(Wrong::new(format!("`{}` belongs to somebody else", path.display())));
    }
    let mut text = String::new();
    file.by_ref().take(MOST).read_to_string(&mut text).map_err(cannot)?;
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return Err(Wrong::new(format!("`{}` is empty", path.display())));
    }
    Ok(text.to_owned())
}
