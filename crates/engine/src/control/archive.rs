//! Archives of what is in a workspace. They are written and read here, on the host; what is in them goes in and out
//! through the executor, like any file.
//!
//! An archive that comes from outside is taken whole or not at all: every entry of it is looked at, to its last byte,
//! before the first one is put anywhere.

mod pack;
mod survey;

pub(super) use pack::pack;

use super::error::ControlError;
use super::files::{directory, refused};
use super::{Caller, ControlPlane};
use crate::{EngineError, FileOp, FileOutcome, LONGEST_PIECE, Sandbox};
use flate2::read::GzDecoder;
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Seek};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::io::SyncIoBridge;

/// As much of an archive is on its way at once.
const CHUNK: usize = 64 << 10;

/// What an archive is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archive {
    /// A tar file, compressed by gzip.
    TarGz,
    /// A zip file.
    Zip,
}

/// What was taken out of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl ControlPlane {
    /// Everything below a directory of a session as an archive. Only files and directories are in it.
    pub async fn export_archive(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: &str,
        path: &str,
        format: Archive,
    ) -> Result<ArchiveStream, ControlError> {
        let live = self.session_to_use(caller, session).await?;
        live.touch();
        let below = directory(path)?;
        if !below.is_empty() {
            live.stat(&below).await?;
        }
        let (ours, theirs) = tokio::io::duplex(CHUNK);
        let packing = tokio::spawn(async move { pack(&live.sandbox, &below, format, ours).await });
        Ok(ArchiveStream { packed: theirs, packing: Some(packing) })
    }

    /// Puts everything of an archive below a directory of a session, or nothing, where anything is wrong with it.
    pub async fn import_archive(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: &str,
        path: &str,
        format: Archive,
        content: impl AsyncRead + Unpin,
        limit: u64,
    ) -> Result<Unpacked, ControlError> {
        let live = self.session_to_use(caller, session).await?;
        let below = directory(path)?;
        let spool = spooled(content, limit).await?;
        let most = live.sandbox.limits().disk_bytes;
        let (spool, found) = on_the_side(move || {
            let found = survey::survey(&spool, format, most)?;
            Ok((spool, found))
        })
        .await?;
        let (send, pieces) = mpsc::channel(4);
        let reading = tokio::task::spawn_blocking(move || survey::read(&spool, format, &send));
        live.change();
        put(&live.sandbox, &below, pieces).await?;
        live.change();
        reading.await.map_err(|e| broken(std::io::Error::other(e)))??;
        Ok(found)
    }
}

/// An archive in the making.
#[derive(Debug)]
pub struct ArchiveStream {
    packed: DuplexStream,
    packing: Option<JoinHandle<Result<(), ControlError>>>,
}

impl ArchiveStream {
    /// What comes next; nothing at its end, and an error where it broke off.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, ControlError>> {
        let mut piece = Vec::with_capacity(CHUNK);
        match self.packed.read_buf(&mut piece).await {
            Ok(0) => match self.packing.take()?.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(Err(error)),
                Err(error) => Some(Err(broken(std::io::Error::other(error)))),
            },
            Ok(_) => Some(Ok(piece)),
            Err(error) => Some(Err(broken(error))),
        }
    }
}

/// A piece of an archive.
#[derive(Debug)]
pub(super) enum Piece {
    Directory(String),
    File { path: String, mode: u32 },
    Content(Vec<u8>),
}

/// Puts pieces where they belong, below a directory.
pub(super) async fn put(
    sandbox: &Sandbox,
    below: &str,
    mut pieces: mpsc::Receiver<Piece>,
) -> Result<(), ControlError> {
    let at = |path: String| if below.is_empty() { path } else { format!("{below}/{path}") };
    let mut current = None;
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Directory(path) => drop(ask(sandbox, FileOp::Mkdir { path: at(path) }, None).await?),
            Piece::File { path, mode } => {
                let path = at(path);
                ask(sandbox, FileOp::Write { path: path.clone(), offset: 0, mode }, Some(Vec::new())).await?;
                current = Some((path, mode, 0));
            }
            Piece::Content(piece) => {
                let Some((path, mode, offset)) = &mut current else { continue };
                let length = piece.len() as u64;
                let op = FileOp::Write { path: path.clone(), offset: *offset, mode: *mode };
                ask(sandbox, op, Some(piece)).await?;
                *offset += length;
            }
        }
    }
    Ok(())
}

/// Puts everything of an archive of ours below a directory of a workspace.
pub(super) async fn unpack(
    sandbox: &Sandbox,
    below: &str,
    from: Box<dyn AsyncRead + Send + Unpin>,
) -> Result<(), ControlError> {
    let (send, pieces) = mpsc::channel(4);
    let reading =
        tokio::task::spawn_blocking(move || survey::read_tar(GzDecoder::new(SyncIoBridge::new(from)), &send));
    put(sandbox, below, pieces).await?;
    reading.await.map_err(|e| broken(std::io::Error::other(e)))?
}

/// Takes in all there is, in a file that nobody else can find.
async fn spooled(mut content: impl AsyncRead + Unpin, limit: u64) -> Result<File, ControlError> {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(CWD, std::env::temp_dir(), flags, Mode::from_raw_mode(0o600));
    let mut file = File::from(file.map_err(|e| broken(e.into()))?);
    let (mut buffer, mut size) = (vec![0; LONGEST_PIECE], 0);
    loop {
        let length = content.read(&mut buffer).await.map_err(broken)?;
        if length == 0 {
            file.rewind().map_err(broken)?;
            return Ok(file);
        }
        size += length as u64;
        if size > limit {
            return Err(ControlError::TooLarge { field: "archive", limit });
        }
        std::io::Write::write_all(&mut file, &buffer[..length]).map_err(broken)?;
    }
}

async fn on_the_side<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ControlError> + Send + 'static,
) -> Result<T, ControlError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| broken(std::io::Error::other(e)))?
}

pub(super) async fn ask(
    sandbox: &Sandbox,
    op: FileOp,
    content: Option<Vec<u8>>,
) -> Result<(FileOutcome, Vec<u8>), ControlError> {
    match sandbox.file(op, content).await? {
        (FileOutcome::Failed { errno }, _) => Err(refused(Errno::from_raw_os_error(errno))),
        done => Ok(done),
    }
}

fn broken(error: std::io::Error) -> ControlError {
    EngineError::Broken(format!("an archive could not be written or read: {error}")).into()
}

/// Reads on, a piece at a time.
fn pieces(mut content: impl Read, mut take: impl FnMut(Vec<u8>) -> bool) -> std::io::Result<()> {
    loop {
        let mut piece = Vec::new();
        if content.by_ref().take(LONGEST_PIECE as u64).read_to_end(&mut piece)? == 0 || !take(piece) {
            return Ok(());
        }
    }
}
