//! Workspaces of sessions that have no sandbox: saved as objects, and put back.
//!
//! The archive is written and read here, on the host; what is in it goes in and out through the executor, like any file.

use super::error::ControlError;
use super::files::refused;
use super::session::LiveSession;
use super::{ControlPlane, locked, now};
use crate::storage::{ObjectKey, Session, SessionMode, SessionStatus, StoreError};
use crate::{EngineError, FileEntry, FileKind, FileOp, FileOutcome, LONGEST_PIECE, MOST_ENTRIES, Sandbox};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rustix::io::Errno;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio_util::io::SyncIoBridge;

/// Compressed bytes are passed on when there are so many.
const CHUNK: usize = 64 << 10;

impl ControlPlane {
    /// Saves workspaces that changed, of sessions that are meant to last, when they have not been saved for a while.
    pub(super) async fn save_changed_workspaces(&self) {
        let every = self.settings.checkpoint_interval.as_millis() as i64;
        for live in self.all_live_sessions() {
            let due = live.has_changed() && now() - live.saved_at.load(Relaxed) >= every;
            if due && live.row().mode == SessionMode::Persistent {
                // What cannot be saved now can be the next time.
                let _ = self.save(&live).await;
            }
        }
    }

    /// Saves the workspace of a session.
    async fn save(&self, live: &LiveSession) -> Result<(), ControlError> {
        let row = live.row();
        live.take_change();
        // Another name each time, so that the one that is noted is always whole.
        let name = format!("{}.tar.gz", uuid::Uuid::new_v4().simple());
        let key = ObjectKey::new(&["sessions", &row.owner, &row.id, &name])?;
        let (ours, theirs) = tokio::io::duplex(CHUNK);
        let limit = live.sandbox.limits().disk_bytes.saturating_mul(2) + (1 << 20);
        let packed = async {
            let done = pack(&live.sandbox, ours).await;
            // Where packing broke, what was sent must not pass for the whole.
            done.map_err(|error| error.to_string())
        };
        let (packed, put) = tokio::join!(packed, self.store.objects().put(&key, theirs, limit));
        let old = row.workspace.clone();
        let saved = match (packed, put) {
            (Ok(()), Ok(_)) => self.store.keep_workspace(&row.owner, &row.id, Some(&key.to_string())).await,
            (Err(why), _) => Err(StoreError::Broken(why)),
            (_, Err(error)) => Err(error),
        };
        if let Err(error) = saved {
            live.change();
            let _ = self.store.objects().delete(&key).await;
            return Err(error.into());
        }
        live.saved_at.store(now(), Relaxed);
        locked(&live.row).workspace = Some(key.to_string());
        if let Some(old) = old {
            self.store.objects().delete(&old.parse()?).await?;
        }
        Ok(())
    }

    /// Puts a workspace that was saved into a sandbox.
    pub(super) async fn restore(&self, sandbox: &Sandbox, object: &str) -> Result<(), ControlError> {
        let content = self.store.objects().get(&object.parse()?, None).await?;
        unpack(sandbox, content.bytes).await
    }

    /// Forgets the workspace of a session.
    pub(super) async fn drop_workspace(&self, row: &Session) -> Result<(), ControlError> {
        if let Some(object) = &row.workspace {
            self.store.keep_workspace(&row.owner, &row.id, None).await?;
            self.store.objects().delete(&object.parse()?).await?;
        }
        Ok(())
    }

    /// Saves every session that is meant to last, and ends all of them.
    pub(super) async fn stop_all_sessions(self: &Arc<ControlPlane>, reason: &str) {
        for live in self.all_live_sessions() {
            let row = live.row();
            if row.mode == SessionMode::Ephemeral {
                let _ = self.terminate(&row.owner, &row.id, Some(reason)).await;
                continue;
            }
            let saved = if live.has_changed() { self.save(&live).await.is_ok() } else { true };
            self.close(&live).await;
            let row = live.row();
            let why = if saved { reason } else { "its workspace could not be saved" };
            if self.store.move_session(&row, SessionStatus::Stopping, now(), Some(why)).await.is_ok() {
                let row = Session { status: SessionStatus::Stopping, ..row };
                let _ = self.store.move_session(&row, SessionStatus::Stopped, now(), None).await;
            }
        }
    }
}

/// Writes everything in a workspace as an archive.
async fn pack(sandbox: &Sandbox, mut to: impl AsyncWrite + Unpin) -> Result<(), ControlError> {
    let mut archive = GzEncoder::new(Vec::new(), Compression::fast());
    let mut after = None;
    loop {
        let op =
            FileOp::List { path: String::new(), recursive: true, after: after.take(), most: MOST_ENTRIES };
        let FileOutcome::Listed { entries, more } = ask(sandbox, op, None).await?.0 else { break };
        for entry in &entries {
            add(sandbox, entry, &mut archive, &mut to).await?;
        }
        after = entries.last().map(|entry| entry.path.clone());
        if !more || after.is_none() {
            break;
        }
    }
    // Two empty blocks are the end.
    archive.write_all(&[0; 1024]).map_err(broken)?;
    let rest = archive.finish().map_err(broken)?;
    to.write_all(&rest).await.map_err(broken)?;
    to.shutdown().await.map_err(broken)
}

async fn add(
    sandbox: &Sandbox,
    entry: &FileEntry,
    archive: &mut GzEncoder<Vec<u8>>,
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<(), ControlError> {
    let is_file = match entry.kind {
        FileKind::File => true,
        FileKind::Directory => false,
        FileKind::Other => return Ok(()),
    };
    let size = if is_file { entry.size } else { 0 };
    let mut header = Vec::new();
    {
        let mut builder = tar::Builder::new(&mut header);
        let mut head = tar::Header::new_gnu();
        head.set_size(size);
        head.set_mode(entry.mode);
        head.set_mtime((entry.modified_ms / 1000).max(0) as u64);
        head.set_entry_type(if is_file { tar::EntryType::Regular } else { tar::EntryType::Directory });
        // Its content comes after it, in pieces: here only the blocks before it are wanted.
        builder.append_data(&mut head, &entry.path, std::io::empty()).map_err(broken)?;
        drop(builder);
    }
    // The builder ends an archive when it is dropped.
    header.truncate(header.len().saturating_sub(1024));
    archive.write_all(&header).map_err(broken)?;
    let mut at = 0;
    while at < size {
        let read = FileOp::Read { path: entry.path.clone(), offset: at, length: LONGEST_PIECE as u32 };
        let mut piece = match ask(sandbox, read, None).await {
            Ok((_, piece)) => piece,
            // It is gone, or something else by now. What was announced has to come all the same.
            Err(ControlError::NotFound { .. } | ControlError::Conflict { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        if piece.is_empty() {
            piece = vec![0; (size - at).min(LONGEST_PIECE as u64) as usize];
        }
        piece.truncate((size - at).min(piece.len() as u64) as usize);
        at += piece.len() as u64;
        archive.write_all(&piece).map_err(broken)?;
        if archive.get_ref().len() >= CHUNK {
            let ready = std::mem::take(archive.get_mut());
            to.write_all(&ready).await.map_err(broken)?;
        }
    }
    let padding = (512 - size % 512) % 512;
    archive.write_all(&[0; 512][..padding as usize]).map_err(broken)
}

/// A piece of an archive.
enum Piece {
    Directory(String),
    File { path: String, mode: u32 },
    Content(Vec<u8>),
}

/// Puts everything of an archive of ours into a workspace.
async fn unpack(
    sandbox: &Sandbox,
    from: Box<dyn tokio::io::AsyncRead + Send + Unpin>,
) -> Result<(), ControlError> {
    let (send, mut pieces) = tokio::sync::mpsc::channel(4);
    let reading = tokio::task::spawn_blocking(move || {
        let mut archive = tar::Archive::new(GzDecoder::new(SyncIoBridge::new(from)));
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.to_string_lossy().trim_end_matches('/').to_owned();
            let mode = entry.header().mode()? & 0o777;
            let first = match entry.header().entry_type() {
                tar::EntryType::Directory => Piece::Directory(path),
                tar::EntryType::Regular => Piece::File { path, mode },
                _ => continue,
            };
            if send.blocking_send(first).is_err() {
                return Ok(());
            }
            loop {
                let mut piece = Vec::new();
                if entry.by_ref().take(LONGEST_PIECE as u64).read_to_end(&mut piece)? == 0 {
                    break;
                }
                if send.blocking_send(Piece::Content(piece)).is_err() {
                    return Ok(());
                }
            }
        }
        Ok::<_, std::io::Error>(())
    });
    let mut current = None;
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Directory(path) => drop(ask(sandbox, FileOp::Mkdir { path }, None).await?),
            Piece::File { path, mode } => {
                let op = FileOp::Write { path: path.clone(), offset: 0, mode };
                ask(sandbox, op, Some(Vec::new())).await?;
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
    reading.await.map_err(|e| EngineError::Broken(e.to_string()))?.map_err(broken)
}

async fn ask(
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
    EngineError::Broken(format!("a workspace could not be packed or unpacked: {error}")).into()
}
