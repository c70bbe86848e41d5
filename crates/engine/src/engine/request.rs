//! What shall be run, and what can be wrong with it.

use crate::call::Mode;
use crate::input::Input;
use crate::limits::{Limits, Wanted};
use crate::pool::Warmth;
use crate::runtime::Runtime;
use crate::runtime::plan::Purpose;
use crate::{Cancel, EngineError, Layer, Network, Profile};
use jail::beneath::PlainPath;
use std::sync::Arc;

/// Most files of a program.
const MOST_FILES: usize = 10_000;
/// Most bytes of all files of a program.
const MOST_FILE_BYTES: u64 = 100 << 20;
/// Files and directories of the storage that are ours.
const OWN_INODES: u64 = 16;
/// Most bytes of arguments and environment; the kernel's own bound is higher.
const MOST_WORDS: usize = 1 << 20;

/// A file of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path in the workspace.
    pub path: String,
    /// Content.
    pub content: Vec<u8>,
    /// Whether it may be executed.
    pub executable: bool,
}

/// What shall be run, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// Name or alias of the language.
    pub language: String,
    /// The program; without a path it gets the language's usual one.
    pub main: SourceFile,
    /// Files beside it.
    pub files: Vec<SourceFile>,
    /// What is wanted of it.
    pub mode: Mode,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, beside the little every program gets.
    pub env: Vec<(String, String)>,
    /// Its input.
    pub stdin: Option<Input>,
    /// Its limits, where they shall differ from the defaults.
    pub limits: Wanted,
    /// What it may reach.
    pub network: Network,
    /// System calls it may make.
    pub profile: Profile,
    /// Run it, or only check it.
    pub purpose: Purpose,
    /// Whether contents of new and changed files are wanted, not only their names.
    pub contents: bool,
    /// Run without any isolation. The name is the warning.
    pub unsafe_no_isolation: bool,
    /// Layers whose absence is accepted.
    pub allow_weaker: Vec<Layer>,
    /// The template it names, if that says anything about the programs that wait.
    pub template: Option<Arc<Warmth>>,
    /// Whose program it is: caches are never shared between owners.
    pub owner: String,
    /// Ends the run.
    pub cancel: Cancel,
}

impl Request {
    /// A program with nothing special about it.
    pub fn new(language: &str, code: impl Into<Vec<u8>>) -> Request {
        Request {
            language: language.to_owned(),
            main: SourceFile { path: String::new(), content: code.into(), executable: false },
            files: Vec::new(),
            mode: Mode::Script,
            args: Vec::new(),
            env: Vec::new(),
            stdin: None,
            limits: Wanted::default(),
            network: Network::None,
            profile: Profile::Default,
            purpose: Purpose::Run,
            contents: false,
            unsafe_no_isolation: false,
            allow_weaker: Vec::new(),
            template: None,
            owner: format!("uid-{}", rustix::process::getuid().as_raw()),
            cancel: Cancel::default(),
        }
    }

    /// Its limits, with the time that its event asks for where it asks for none itself.
    pub(crate) fn wanted(&self) -> Result<Wanted, EngineError> {
        let timeout_ms = self.mode.timeout_ms()?;
        Ok(self.limits.or(Wanted { timeout_ms, ..Wanted::default() }))
    }
}

/// Checks what only the caller can get wrong. Returns the path of the main file.
pub(super) fn checked(request: &Request, runtime: &Runtime, limits: &Limits) -> Result<String, EngineError> {
    let main = if request.main.path.is_empty() { &runtime.source } else { &request.main.path };
    let mut seen = std::collections::HashSet::new();
    let mut bytes = 0;
    let paths = std::iter::once(main).chain(request.files.iter().map(|file| &file.path));
    for path in paths {
        let plain = PlainPath::parse(path).map_err(|e| {
            EngineError::invalid("file", format!("`{path}`: {e}"))
                .with_hint("name it by a plain path in the workspace, such as `data/input.csv`")
        })?;
        if !seen.insert(plain.as_str().to_owned()) {
            return Err(EngineError::invalid("file", format!("`{path}` is there twice"))
                .with_hint("give one of them another name"));
        }
    }
    for path in &seen {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]).find(|above| seen.contains(*above));
        if let Some(above) = above {
            let what = format!("`{above}` is a file, so `{path}` cannot be below it");
            return Err(EngineError::invalid("file", what).with_hint("give one of them another name"));
        }
    }
    for file in request.files.iter().chain([&request.main]) {
        bytes += file.content.len() as u64;
    }
    bytes += request.mode.check()?;
    if seen.len() > MOST_FILES {
        return Err(EngineError::invalid("file", format!("{} files are too many", seen.len()))
            .with_hint(format!("at most {MOST_FILES}")));
    }
    if bytes > MOST_FILE_BYTES {
        return Err(EngineError::invalid("file", "the files are too large together")
            .with_hint(format!("at most {}", crate::limits::show_bytes(MOST_FILE_BYTES))));
    }
    if bytes > limits.disk_bytes {
        let (files, disk) = (crate::limits::show_bytes(bytes), crate::limits::show_bytes(limits.disk_bytes));
        return Err(EngineError::invalid("disk", format!("the files take {files}, the storage has {disk}"))
            .with_hint("`--disk` allows more storage, within `--memory`"));
    }
    if seen.len() as u64 + OWN_INODES > limits.disk_inodes {
        let (files, inodes) = (seen.len(), limits.disk_inodes);
        return Err(EngineError::invalid(
            "inodes",
            format!("{files} files do not fit into storage for {inodes}"),
        )
        .with_hint("`--inodes` allows more files"));
    }
    for (name, value) in &request.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(EngineError::invalid("env", format!("`{name}` cannot be a variable"))
                .with_hint("a name is not empty and has no `=`; neither part has a NUL byte"));
        }
    }
    if request.args.iter().any(|arg| arg.contains('\0')) {
        return Err(EngineError::invalid("args", "an argument has a NUL byte in it")
            .with_hint("the kernel ends arguments at NUL bytes; pass such data as a file or as input"));
    }
    let words =
        request.args.iter().map(String::len).chain(request.env.iter().map(|(n, v)| n.len() + v.len() + 2));
    if words.sum::<usize>() > MOST_WORDS {
        return Err(EngineError::invalid("args", "arguments and environment are too long together")
            .with_hint(format!(
                "at most {}; pass large data as a file or as input",
                crate::limits::show_bytes(MOST_WORDS as u64)
            )));
    }
    Ok(PlainPath::parse(main).map_err(|e| EngineError::invalid("file", e.to_string()))?.as_str().to_owned())
}
