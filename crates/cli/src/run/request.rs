//! From arguments to a request.

use crate::args::{LayerArg, ModeArg, NetworkArg, ProfileArg, RunArgs};
use crate::report;
use anyhow::{Context, Result};
use engine::limits::Wanted;
use engine::runtime::Catalogue;
use engine::runtime::plan::Purpose;
use engine::{EngineError, Feed, Input, Layer, Mode, Network, Profile, Request, SourceFile};
use serde_json::Map;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;

/// The language of code nobody named a language for.
const USUAL: &str = "python";
/// Most bytes read from any one place.
const MOST_INPUT: u64 = 100 << 20;
/// Bytes of input that are passed on together.
const PIECE: usize = 32 << 10;
/// After so much input there is a short rest: what is passed on is on its way, and it takes all the cores of a small
/// machine to do that without one.
const BREATH: usize = 256 << 10;
/// Input that is read at once.
const LITTLE: u64 = 64 << 10;

pub(super) fn build(args: &RunArgs, catalogue: &Catalogue) -> Result<Request> {
    let (path, content) = program(args.code.as_deref(), args.file.as_deref())?;
    let language = match &args.language {
        Some(name) => name.clone(),
        None => guess(&path, &content, catalogue)?,
    };
    let mut request = Request::new(&language, content);
    request.main.path = path;
    for file in &args.files {
        add(file, &mut request.files)?;
    }
    request.mode = mode(args)?;
    request.args = args.args.clone();
    request.env = args.env.iter().map(|text| variable(text)).collect::<Result<_>>()?;
    request.stdin = args.stdin.as_deref().map(|text| input(text, args)).transpose()?;
    request.limits = Wanted {
        timeout_ms: args.timeout,
        cpu_time_ms: args.cpu_time,
        memory_bytes: args.memory,
        cpu_millis: args.cpus,
        pids: args.pids,
        disk_bytes: args.disk,
        disk_inodes: args.inodes,
        open_files: args.open_files,
        output_bytes: args.output,
    };
    request.network = match args.network {
        NetworkArg::None => Network::None,
        NetworkArg::Host => Network::Host,
    };
    request.profile = match args.profile {
        ProfileArg::Default => Profile::Default,
        ProfileArg::Debug => Profile::Debug,
        ProfileArg::Strict => Profile::Strict,
    };
    request.purpose = if args.check { Purpose::Check } else { Purpose::Run };
    request.contents = args.artifacts.is_some();
    request.unsafe_no_isolation = args.unsafe_no_isolation;
    request.allow_weaker = args
        .allow_weaker
        .iter()
        .map(|layer| match layer {
            LayerArg::Overlay => Layer::Overlay,
            LayerArg::Cgroup => Layer::Cgroup,
        })
        .collect();
    Ok(request)
}

/// Name and content of the program. Code without a file has no name yet.
pub(crate) fn program(code: Option<&str>, file: Option<&Path>) -> Result<(String, Vec<u8>)> {
    if let Some(code) = code {
        return Ok((String::new(), code.as_bytes().to_vec()));
    }
    let path = file.unwrap_or(Path::new("-"));
    if path == Path::new("-") {
        return Ok((String::new(), read("file", &mut std::io::stdin().lock(), "standard input")?));
    }
    let content = read_file("file", path)?;
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| not_text("file", path))?;
    Ok((name.to_owned(), content))
}

pub(crate) fn guess(path: &str, content: &[u8], catalogue: &Catalogue) -> Result<String> {
    match catalogue.by_file(Path::new(path), content) {
        Some(runtime) => Ok(runtime.name.clone()),
        None if path.is_empty() => Ok(USUAL.into()),
        None => Err(EngineError::invalid("language", format!("`{path}` does not tell its language"))
            .with_hint("name it with `--language`; `sandboxd languages` lists them")
            .into()),
    }
}

/// What is wanted of the program, and what that takes.
fn mode(args: &RunArgs) -> Result<Mode> {
    if args.mode != ModeArg::Handler {
        let given = [
            ("event", args.event.is_some() || args.event_file.is_some()),
            ("context", args.context.is_some()),
        ];
        if let Some((field, _)) = given.iter().find(|(_, given)| *given) {
            return Err(EngineError::invalid(field, "only a handler has one")
                .with_hint("add `--mode handler`")
                .into());
        }
    }
    Ok(match args.mode {
        ModeArg::Script => Mode::Script,
        ModeArg::Evaluate => Mode::Evaluate,
        ModeArg::Handler => Mode::Handler {
            event: event(args)?.map_or_else(|| Ok(Map::new().into()), |text| parsed("event", &text))?,
            context: args
                .context
                .as_ref()
                .map_or_else(|| Ok(Map::new()), |text| parsed("context", text.as_bytes()))?,
        },
    })
}

fn event(args: &RunArgs) -> Result<Option<Vec<u8>>> {
    let Some(path) = &args.event_file else {
        return Ok(args.event.as_ref().map(|text| text.clone().into_bytes()));
    };
    let taken = args.file.as_deref() == Some(Path::new("-")) || args.stdin.as_deref() == Some("-");
    match path == Path::new("-") {
        true if taken => Err(EngineError::invalid("event-file", "standard input is something else already")
            .with_hint("pass the event as a file or with `--event`")
            .into()),
        true => read("event-file", &mut std::io::stdin().lock(), "standard input").map(Some),
        false => read_file("event-file", path).map(Some),
    }
}

pub(crate) fn parsed<T: serde::de::DeserializeOwned>(field: &str, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|e| {
        let shape = if field == "context" { "an object of JSON" } else { "JSON" };
        EngineError::invalid(field, format!("it is not {shape}: {e}"))
            .with_hint("such as `{\"name\": \"Ada\"}`")
            .into()
    })
}

/// `NAME=PATH` or `PATH`; a directory stands for everything in it.
pub(crate) fn add(text: &str, files: &mut Vec<SourceFile>) -> Result<()> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) => (name.to_owned(), Path::new(path)),
        None => {
            let path = Path::new(text);
            let name =
                path.file_name().and_then(|name| name.to_str()).ok_or_else(|| not_text("file", path))?;
            (name.to_owned(), path)
        }
    };
    add_below(&name, path, files)
}

fn add_below(name: &str, path: &Path, files: &mut Vec<SourceFile>) -> Result<()> {
    let meta = std::fs::metadata(path).map_err(|e| unreadable("file", path, &e))?;
    if !meta.is_dir() {
        let executable = meta.permissions().mode() & 0o100 != 0;
        files.push(SourceFile { path: name.to_owned(), content: read_file("file", path)?, executable });
        return Ok(());
    }
    let mut entries = std::fs::read_dir(path)
        .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
        .map_err(|e| unreadable("file", path, &e))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let below = entry.file_name();
        let below = below.to_str().ok_or_else(|| not_text("file", &entry.path()))?;
        let (name, path, kind) = (format!("{name}/{below}"), entry.path(), entry.file_type()?);
        // Links are not followed into who knows where; a file they lead to can be named by itself.
        if kind.is_symlink() {
            continue;
        }
        if !kind.is_dir() && !kind.is_file() {
            let what = format!("`{}` is neither a file nor a directory", path.display());
            return Err(EngineError::invalid("file", what).with_hint("name what you want one by one").into());
        }
        add_below(&name, &path, files)?;
    }
    Ok(())
}

pub(crate) fn variable(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        EngineError::invalid("env", format!("`{text}` has no value")).with_hint("write it as `NAME=VALUE`")
    })?;
    Ok((name.to_owned(), value.to_owned()))
}

fn input(text: &str, args: &RunArgs) -> Result<Input> {
    match text.strip_prefix('@') {
        Some(path) => {
            let (file, length) = open_file("stdin", Path::new(path))?;
            match length {
                Some(0..=LITTLE) => read("stdin", &mut &file, path).map(Input::Whole),
                _ => Ok(feed(file, path)),
            }
        }
        None if text == "-" && args.file.as_deref() == Some(Path::new("-")) => {
            Err(EngineError::invalid("stdin", "standard input is the program already")
                .with_hint("pass the program as a file or with `-c`")
                .into())
        }
        None if text == "-" => Ok(feed(std::io::stdin(), "standard input")),
        None => Ok(Input::Whole(text.as_bytes().to_vec())),
    }
}

/// Passes input on as the program reads it, however much there is of it.
fn feed(from: impl Read + Send + 'static, name: &str) -> Input {
    let name = name.to_owned();
    // Nothing waits for the thread: who types nothing more keeps nobody from ending.
    Input::Live(Feed::new(move |fill| drop(std::thread::spawn(move || pass_on(from, &name, &fill)))))
}

fn pass_on(mut from: impl Read, name: &str, fill: &mpsc::Sender<Vec<u8>>) {
    let mut piece = vec![0; PIECE];
    let mut passed = 0;
    loop {
        match from.read(&mut piece) {
            Ok(0) => return,
            Ok(length) if fill.blocking_send(piece[..length].to_vec()).is_err() => return,
            Ok(length) => passed += length,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return report::warn(&format!("{name}: {e}: the program's input ends here")),
        }
        if passed >= BREATH {
            std::thread::sleep(Duration::from_micros(500));
            passed = 0;
        }
    }
}

pub(crate) fn read_file(field: &str, path: &Path) -> Result<Vec<u8>> {
    read(field, &mut open_file(field, path)?.0, &path.display().to_string())
}

/// Opens a file, and says how long it is if that is known.
fn open_file(field: &str, path: &Path) -> Result<(std::fs::File, Option<u64>)> {
    let file = std::fs::File::open(path).map_err(|e| unreadable(field, path, &e))?;
    let meta = file.metadata().map_err(|e| unreadable(field, path, &e))?;
    if meta.is_dir() {
        return Err(EngineError::invalid(field, format!("`{}` is a directory", path.display()))
            .with_hint("name a file; `--file DIR` puts a whole directory beside the program")
            .into());
    }
    Ok((file, meta.is_file().then_some(meta.len())))
}

pub(crate) fn read(field: &str, from: &mut impl Read, name: &str) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    from.take(MOST_INPUT + 1).read_to_end(&mut content).with_context(|| name.to_owned())?;
    if content.len() as u64 > MOST_INPUT {
        return Err(EngineError::invalid(field, format!("`{name}` is larger than 100M"))
            .with_hint("a sandbox takes at most 100M from outside")
            .into());
    }
    Ok(content)
}

fn unreadable(field: &str, path: &Path, e: &std::io::Error) -> EngineError {
    let reason = match e.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "you may not read it".to_owned(),
        _ => e.to_string(),
    };
    EngineError::invalid(field, format!("`{}`: {reason}", path.display()))
        .with_hint("name a file that exists, or pass code with `-c`")
}

fn not_text(field: &str, path: &Path) -> EngineError {
    EngineError::invalid(field, format!("`{}`: the name is not valid UTF-8", path.display()))
        .with_hint("give it another name with `--file NAME=PATH`")
}
