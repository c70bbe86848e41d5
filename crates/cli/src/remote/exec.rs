//! `sandboxd session exec`: a program into a session of a server, its output live on the terminal.

use super::client::{Client, json};
use super::events::Events;
use super::{RemoteError, facts, output, sessions};
use crate::args::session::{ExecArgs, ExecMode};
use crate::run::{ending, request};
use crate::{INTERRUPTED, OURS, report, show};
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::runtime::Catalogue;
use engine::{EngineError, SourceFile, Status};
use reqwest::Method;
use reqwest::header::ACCEPT;
use serde_json::{Map, Value, json as object};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// How long what is left of a cancelled program may take to arrive and to be read.
const FAREWELL: Duration = Duration::from_millis(500);

pub(super) async fn run(client: &Client, args: &ExecArgs) -> Result<ExitCode> {
    let body = Value::Object(body(args)?);
    let mut signals = Signals::new()?;
    let request = client.request(Method::POST, &sessions::below(&args.id, &["execute"]), &[])?;
    let response = tokio::select! {
        response = client.send(json(request, &body).header(ACCEPT, "text/event-stream")) => response?,
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let id = response.headers().get("x-execution-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let mut events = Events::of(client, response);
    let followed = tokio::select! {
        followed = follow(&mut events, args) => followed?,
        () = told_to_stop(client, id.as_deref(), &mut signals) => None,
    };
    match followed {
        Some((mut record, mid_line)) => {
            if let (true, Some(id)) = (args.json, &id) {
                output::complete(client, id, &mut record).await?;
            }
            tell(&record, mid_line, args)
        }
        None => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// What is asked for.
fn body(args: &ExecArgs) -> Result<Map<String, Value>> {
    let (path, content) = request::program(args.code.as_deref(), args.file.as_deref())?;
    let language = match (&args.language, args.mode) {
        (Some(name), _) => Some(name.clone()),
        (None, ExecMode::Shell) => None,
        (None, _) => Some(request::guess(&path, &content, &Catalogue::default())?),
    };
    let code = String::from_utf8(content).map_err(|_| {
        EngineError::invalid("file", "the program is not valid UTF-8")
            .with_hint("send it with `session files put`, and run it with `--mode shell`")
    })?;
    if args.event.is_some() && args.mode != ExecMode::Handler {
        return Err(EngineError::invalid("event", "only a handler has one")
            .with_hint("add `--mode handler`")
            .into());
    }
    let event = match &args.event {
        Some(text) => Some(request::parsed("event", text.as_bytes())?),
        None => (args.mode == ExecMode::Handler).then(|| object!({})),
    };
    let mut files = Vec::new();
    for file in &args.files {
        request::add(file, &mut files)?;
    }
    Ok(facts::given([
        ("code", Some(code.into())),
        ("language", language.map(Value::from)),
        ("mode", Some(object!(args.mode))),
        ("event", event),
        ("filename", (!path.is_empty()).then(|| path.into())),
        ("files", facts::object(files.iter().map(beside).collect())),
        ("args", facts::some(&args.args)),
        ("env", facts::pairs(&args.env)?),
        ("stdin", input(args)?.map(Value::from)),
        ("limits", facts::object(facts::limits(&args.limits))),
    ]))
}

/// A file beside the program, whatever is in it.
fn beside(file: &SourceFile) -> (String, Value) {
    let content = match std::str::from_utf8(&file.content) {
        Ok(text) => object!({"text": text, "executable": file.executable}),
        Err(_) => object!({"base64": STANDARD.encode(&file.content), "executable": file.executable}),
    };
    (file.path.clone(), content)
}

fn input(args: &ExecArgs) -> Result<Option<String>> {
    let Some(text) = args.stdin.as_deref() else { return Ok(None) };
    let bytes = match text.strip_prefix('@') {
        Some(path) => request::read_file("stdin", Path::new(path))?,
        None if text == "-" && args.code.is_none() && args.file.as_deref() == Some(Path::new("-")) => {
            return Err(EngineError::invalid("stdin", "standard input is the program already")
                .with_hint("pass the program as a file or with `-c`")
                .into());
        }
        None if text == "-" => request::read("stdin", &mut std::io::stdin().lock(), "standard input")?,
        None => text.as_bytes().to_vec(),
    };
    let text = String::from_utf8(bytes).map_err(|_| {
        EngineError::invalid("stdin", "it is not valid UTF-8")
            .with_hint("send it with `session files put`, and have the program read that file")
    })?;
    Ok(Some(text))
}

/// Passes output on until the program is over. Its record, and whether its output ended in the middle of a line; none
/// when nobody reads that output any more.
async fn follow(events: &mut Events, args: &ExecArgs) -> Result<Option<(Value, bool)>> {
    let mut writer = None;
    let mut mid_line = false;
    while let Some(event) = events.next().await? {
        match event.name.as_str() {
            "finished" => {
                if let Some(writer) = writer {
                    Writer::finish(writer).await;
                }
                return Ok(Some((event.data, mid_line)));
            }
            _ if args.json => {}
            "preparing" if !args.quiet => {
                eprintln!("preparing the language, which is done once and takes a while");
            }
            "missing" => report::warn("some of the output came too fast, and is missing here"),
            name @ ("stdout" | "stderr") => {
                let (is_error, bytes) = (name == "stderr", event.bytes());
                if !is_error {
                    mid_line = bytes.last().is_some_and(|byte| *byte != b'\n');
                }
                let writer = writer.get_or_insert_with(Writer::start);
                if writer.pieces.send((is_error, bytes)).await.is_err() {
                    return Ok(None);
                }
            }
            _ => {}
        }
    }
    Err(RemoteError::new("the server ended the connection before the program was over").into())
}

/// A thread that writes: a reader who does not read must not keep us from hearing signals.
struct Writer {
    pieces: mpsc::Sender<(bool, Vec<u8>)>,
    done: oneshot::Receiver<()>,
}

impl Writer {
    fn start() -> Writer {
        let (pieces, mut waiting) = mpsc::channel::<(bool, Vec<u8>)>(1);
        let (tell, done) = oneshot::channel();
        std::thread::spawn(move || {
            while let Some((is_error, bytes)) = waiting.blocking_recv() {
                let written = match is_error {
                    true => std::io::stderr().write_all(&bytes),
                    false => {
                        let mut out = std::io::stdout();
                        out.write_all(&bytes).and_then(|()| out.flush())
                    }
                };
                // Nobody reads our output any more, so nobody wants the program's.
                if written.is_err() {
                    break;
                }
            }
            let _ = tell.send(());
        });
        Writer { pieces, done }
    }

    /// Waits until everything is written.
    async fn finish(self) {
        drop(self.pieces);
        let _ = self.done.await;
    }
}

/// Signals that ask us to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Over when it is time to go: the first signal ends the program, and gives it a moment to say so; the second does not.
async fn told_to_stop(client: &Client, id: Option<&str>, signals: &mut Signals) {
    signals.next().await;
    let cancel = async {
        if let Some(id) = id {
            // Where that fails, the program ends because nobody follows it.
            drop(client.post(&["api", "v1", "executions", id, "cancel"], &Value::Null).await);
        }
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        () = cancel => {}
        () = signals.next() => {}
    }
}

/// What is worth saying after the program's own output, and its exit code.
fn tell(record: &Value, mid_line: bool, args: &ExecArgs) -> Result<ExitCode> {
    let status: Option<Status> = serde_json::from_value(record["status"].clone()).ok();
    if args.json {
        show::print_json(record)?;
    } else {
        if record["return_value_set"] == true {
            if mid_line {
                show::print("")?;
            }
            show::print_json(&record["return_value"])?;
        }
        if !args.quiet {
            epilogue(record, status, args);
        }
    }
    let number = |name: &str| record[name].as_i64().and_then(|number| i32::try_from(number).ok());
    let code = status.map(|status| ending::exit_code(status, number("exit_code"), number("signal")));
    Ok(ExitCode::from(code.unwrap_or(OURS)))
}

fn epilogue(record: &Value, status: Option<Status>, args: &ExecArgs) {
    // A program that says by its exit code that it failed has said enough; one that was run for a value has not.
    let said = status == Some(Status::Failed) && matches!(args.mode, ExecMode::Script | ExecMode::Shell);
    let worth_it = status != Some(Status::Success) && !said;
    if let (true, Some(message)) = (worth_it, record["error"]["message"].as_str()) {
        report::complain(message, status.and_then(ending::hint));
    }
    for name in ["stdout", "stderr"] {
        if record[format!("{name}_truncated")] == true {
            eprintln!("{name} was cut; `--output` keeps more of it");
        }
    }
}
