//! Files on their way to a session, and back: in pieces, however long they are.

use super::client::Client;
use crate::report;
use anyhow::{Context, Result};
use engine::EngineError;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Method, Response};
use serde_json::Value;
use std::fs::{File, Permissions};
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::sync::mpsc;

/// Bytes that are sent together.
const PIECE: usize = 64 << 10;

/// Fetches a file to a file, which is there when all of it is, or to standard output.
pub(super) async fn fetch(client: &Client, path: &[&str], to: Option<&Path>) -> Result<ExitCode> {
    let name = path.last().copied().unwrap_or_default();
    let target = match to {
        None => PathBuf::from(name),
        Some(to) if to.is_dir() => to.join(name),
        Some(to) => to.to_owned(),
    };
    let response = client.send(client.request(Method::GET, path, &[])?).await?;
    if target == Path::new("-") {
        return match receive(client, response, &mut std::io::stdout()).await {
            // A reader that has seen enough is no failure.
            Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
            done => done.map(|_| ExitCode::SUCCESS),
        };
    }
    let unusable = || target.display().to_string();
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    // As others would make it: what the user's mask leaves.
    let mut draft = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .with_context(unusable)?;
    let length = receive(client, response, &mut draft).await?;
    draft.persist(&target).map_err(|failed| failed.error).with_context(unusable)?;
    eprintln!("fetched {}, {}", report::one_line(&unusable()), crate::show::size(length));
    Ok(ExitCode::SUCCESS)
}

async fn receive(client: &Client, mut response: Response, to: &mut impl Write) -> Result<u64> {
    let (bar, mut length) = (progress(response.content_length()), 0);
    while let Some(bytes) = response.chunk().await.map_err(|error| client.failed(error))? {
        to.write_all(&bytes)?;
        length += bytes.len() as u64;
        bar.set_position(length);
    }
    to.flush()?;
    bar.finish_and_clear();
    Ok(length)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Where a file goes: what was said, in a directory by its own name, or by that name.
pub(super) fn target(from: &Path, to: Option<&str>) -> Result<String> {
    if let Some(to) = to.filter(|to| !to.is_empty() && !to.ends_with('/')) {
        return Ok(to.to_owned());
    }
    let name = from.file_name().and_then(|name| name.to_str()).filter(|name| *name != "-");
    let name = name.ok_or_else(|| {
        EngineError::invalid("to", "what is sent has no name of its own").with_hint("say what to call it")
    })?;
    Ok(to.unwrap_or_default().to_owned() + name)
}

/// Sends a file, or standard input.
pub(super) async fn send(client: &Client, from: &Path, path: &[&str]) -> Result<ExitCode> {
    let request = client.request(Method::PUT, path, &[])?.header(CONTENT_TYPE, "application/octet-stream");
    let (bar, request) = if from == Path::new("-") {
        let bar = progress(None);
        (bar.clone(), request.body(pieces(std::io::stdin(), bar)))
    } else {
        let unusable = |error: std::io::Error| {
            EngineError::invalid("from", format!("`{}`: {error}", from.display()))
                .with_hint("name a file that you can read")
        };
        let file = File::open(from).map_err(unusable)?;
        let meta = file.metadata().map_err(unusable)?;
        if meta.is_dir() {
            return Err(EngineError::invalid("from", format!("`{}` is a directory", from.display()))
                .with_hint("send its files one by one")
                .into());
        }
        let mode = if meta.permissions().mode() & 0o100 != 0 { "0755" } else { "0644" };
        let request = request.header("x-file-mode", mode);
        let bar = progress(meta.is_file().then_some(meta.len()));
        let request = match meta.is_file() {
            true => request.header(CONTENT_LENGTH, meta.len()),
            false => request,
        };
        (bar.clone(), request.body(pieces(file, bar)))
    };
    let response = client.send(request).await?;
    let answer = response.bytes().await.map_err(|error| client.failed(error))?;
    bar.finish_and_clear();
    let answer: Value = serde_json::from_slice(&answer).map_err(|_| client.odd())?;
    let (path, length) = (answer["file_path"].as_str(), answer["size"].as_u64());
    eprintln!(
        "sent {}, {}",
        report::one_line(path.unwrap_or_default()),
        crate::show::size(length.unwrap_or_default())
    );
    Ok(ExitCode::SUCCESS)
}

/// A body that is read while it is sent, by a thread that may wait for it.
fn pieces(mut from: impl Read + Send + 'static, bar: ProgressBar) -> Body {
    let (fill, pieces) = mpsc::channel(4);
    std::thread::spawn(move || {
        loop {
            let mut piece = vec![0; PIECE];
            let next = match from.read(&mut piece) {
                Ok(0) => return,
                Ok(length) => {
                    piece.truncate(length);
                    bar.inc(length as u64);
                    Ok(piece)
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = next.is_err();
            if fill.blocking_send(next).is_err() || failed {
                return;
            }
        }
    });
    Body::wrap_stream(futures_util::stream::unfold(pieces, |mut pieces| async move {
        pieces.recv().await.map(|piece| (piece, pieces))
    }))
}

/// How far it is, for somebody who looks on.
fn progress(length: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = match length {
        Some(_) => "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go",
        None => "{spinner} {bytes}, {bytes_per_sec}",
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = length.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    bar.with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_by_its_own_name_unless_it_is_given_one() {
        let target = |from: &str, to: Option<&str>| target(Path::new(from), to).ok();
        assert_eq!(target("/x/a.csv", None).as_deref(), Some("a.csv"));
        assert_eq!(target("/x/a.csv", Some("raw/")).as_deref(), Some("raw/a.csv"));
        assert_eq!(target("/x/a.csv", Some("raw/b")).as_deref(), Some("raw/b"));
        assert_eq!(target("-", Some("b")).as_deref(), Some("b"));
        assert_eq!((target("-", None), target("..", Some("raw/"))), (None, None));
    }
}
