//! Files of a session: everything goes through the executor of its sandbox, beneath its workspace.

use super::error::ControlError;
use super::session::LiveSession;
use super::{Caller, ControlPlane};
use crate::{EngineError, FileEntry, FileKind, FileOp, FileOutcome, LONGEST_PIECE, MOST_ENTRIES};
use rustix::io::Errno;
use std::sync::Arc;

/// Some of what is in a directory.
#[derive(Clone, Debug, PartialEq)]
pub struct FileList {
    /// In the order of their paths.
    pub entries: Vec<FileEntry>,
    /// Behind which path there is more.
    pub next: Option<String>,
}

impl ControlPlane {
    /// What is in a directory of a session; the empty path is its workspace.
    pub async fn list_files(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: &str,
        path: &str,
        recursive: bool,
        after: Option<&str>,
        limit: usize,
    ) -> Result<FileList, ControlError> {
        let live = self.session_to_use(caller, session).await?;
        let path = directory(path)?;
        let limit = limit.clamp(1, 10_000);
        let mut list = FileList { entries: Vec::new(), next: after.map(str::to_owned) };
        loop {
            let most = (limit - list.entries.len()).min(MOST_ENTRIES as usize) as u32;
            let op = FileOp::List { path: path.clone(), recursive, after: list.next.take(), most };
            let FileOutcome::Listed { entries, more } = live.file(op, None).await?.0 else {
                return Err(confused());
            };
            let last = entries.last().map(|entry| entry.path.clone());
            list.entries.extend(entries);
            if !more || last.is_none() {
                return Ok(list);
            }
            list.next = last;
            if list.entries.len() >= limit {
                return Ok(list);
            }
        }
    }

    /// What something in a session is.
    pub async fn stat_file(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: &str,
        path: &str,
    ) -> Result<FileEntry, ControlError> {
        let live = self.session_to_use(caller, session).await?;
        live.stat(&file(path)?).await
    }

    /// Takes hold of a file of a session, to read it.
    pub async fn open_file(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: &str,
        path: &str,
    ) -> Result<OpenFile, ControlError> {
        let live = self.session_to_use(caller, session).await?;
        let path = file(path)?;
        let entry = live.stat(&path).await?;
        match entry.kind {
            FileKind::File => Ok(OpenFile { live, entry }),
            FileKind::Directory => Err(ControlError::conflict("file", "is a directory")),
            FileKind::Other => Err(ControlError::NotFound { what: "file" }),
        }
    }

    /// Begins to write a file of a session. It is there when all of it is.
    pub async fn upload_file(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: &str,
        path: &str,
        mode: u32,
        limit: u64,
    ) -> Result<Upload, ControlError> {
        let live = self.session_to_use(caller, session).await?;
        let path = file(path)?;
        let parent = path.rsplit_once('/').map(|(parent, _)| format!("{parent}/")).unwrap_or_default();
        let draft = format!("{parent}.upload-{}", uuid::Uuid::new_v4().simple());
        let upload = Upload { live, path, draft, mode, limit, size: 0, pending: Vec::new(), over: false };
        // Also where nothing follows.
        upload.write(0, Vec::new()).await?;
        Ok(upload)
    }

    /// Makes a directory in a session, and those above it.
    pub async fn make_directory(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: &str,
        path: &str,
    ) -> Result<(), ControlError> {
        let live = self.session_to_use(caller, session).await?;
        live.done(FileOp::Mkdir { path: file(path)? }).await
    }

    /// Gives something in a session another name.
    pub async fn move_file(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: &str,
        from: &str,
        to: &str,
        replace: bool,
    ) -> Result<(), ControlError> {
        let live = self.session_to_use(caller, session).await?;
        live.done(FileOp::Move { from: file(from)?, to: file(to)?, replace }).await
    }

    /// Removes something in a session.
    pub async fn remove_file(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: &str,
        path: &str,
        recursive: bool,
    ) -> Result<(), ControlError> {
        let live = self.session_to_use(caller, session).await?;
        live.done(FileOp::Remove { path: file(path)?, recursive }).await
    }
}

/// A file of a session that can be read.
#[derive(Debug)]
pub struct OpenFile {
    live: Arc<LiveSession>,
    /// What it is.
    pub entry: FileEntry,
}

impl OpenFile {
    /// A piece of it, from here on, of at most [`LONGEST_PIECE`] bytes; empty at its end.
    pub async fn read(&self, offset: u64) -> Result<Vec<u8>, ControlError> {
        self.live.read(&self.entry.path, offset).await
    }
}

/// A file of a session that is being written.
#[derive(Debug)]
pub struct Upload {
    live: Arc<LiveSession>,
    path: String,
    draft: String,
    mode: u32,
    limit: u64,
    size: u64,
    pending: Vec<u8>,
    over: bool,
}

impl Upload {
    /// Writes what comes next.
    pub async fn push(&mut self, mut bytes: &[u8]) -> Result<(), ControlError> {
        if self.size + self.pending.len() as u64 + bytes.len() as u64 > self.limit {
            return Err(ControlError::TooLarge { field: "file", limit: self.limit });
        }
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(LONGEST_PIECE - self.pending.len()));
            self.pending.extend(now);
            bytes = rest;
            if self.pending.len() == LONGEST_PIECE {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// That was all: the file is there, in place of the one that may have had its name. Its size.
    pub async fn finish(mut self) -> Result<u64, ControlError> {
        self.flush().await?;
        let op = FileOp::Move { from: self.draft.clone(), to: self.path.clone(), replace: true };
        self.live.done(op).await?;
        self.over = true;
        Ok(self.size)
    }

    async fn flush(&mut self) -> Result<(), ControlError> {
        let piece = std::mem::take(&mut self.pending);
        let length = piece.len() as u64;
        if length > 0 {
            self.write(self.size, piece).await?;
            self.size += length;
        }
        Ok(())
    }

    async fn write(&self, offset: u64, piece: Vec<u8>) -> Result<(), ControlError> {
        let op = FileOp::Write { path: self.draft.clone(), offset, mode: self.mode };
        match self.live.file(op, Some(piece)).await?.0 {
            FileOutcome::Done => Ok(()),
            _ => Err(confused()),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (live, path) = (self.live.clone(), std::mem::take(&mut self.draft));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { live.done(FileOp::Remove { path, recursive: false }).await });
        }
    }
}

impl LiveSession {
    /// Does something with its files.
    pub(super) async fn file(
        &self,
        op: FileOp,
        content: Option<Vec<u8>>,
    ) -> Result<(FileOutcome, Vec<u8>), ControlError> {
        let changes = !matches!(op, FileOp::List { .. } | FileOp::Stat { .. } | FileOp::Read { .. });
        let (outcome, content) = match self.sandbox.file(op, content).await {
            // Somebody ended it in the middle of this.
            Err(_) if self.is_over() => return Err(self.gone()),
            done => done?,
        };
        if changes {
            self.change();
        } else {
            self.touch();
        }
        match outcome {
            FileOutcome::Failed { errno } => Err(refused(Errno::from_raw_os_error(errno))),
            outcome => Ok((outcome, content)),
        }
    }

    pub(super) async fn stat(&self, path: &str) -> Result<FileEntry, ControlError> {
        match self.file(FileOp::Stat { path: path.to_owned() }, None).await?.0 {
            FileOutcome::Found { entry } => Ok(entry),
            _ => Err(confused()),
        }
    }

    pub(super) async fn read(&self, path: &str, offset: u64) -> Result<Vec<u8>, ControlError> {
        let op = FileOp::Read { path: path.to_owned(), offset, length: LONGEST_PIECE as u32 };
        Ok(self.file(op, None).await?.1)
    }

    pub(super) async fn done(&self, op: FileOp) -> Result<(), ControlError> {
        match self.file(op, None).await?.0 {
            FileOutcome::Done => Ok(()),
            _ => Err(confused()),
        }
    }
}

/// A path as people write it, `/workspace/x`, `x` or `./x`, as the executor wants it.
fn file(path: &str) -> Result<String, ControlError> {
    let below = path.strip_prefix("/workspace/").unwrap_or(path);
    match jail::beneath::PlainPath::parse(below) {
        Ok(path) => Ok(path.as_str().to_owned()),
        Err(why) => Err(EngineError::invalid("path", why.to_string())
            .with_hint("name it by its place in the workspace, such as `data/input.csv`")
            .into()),
    }
}

/// The same for a directory, which may be the workspace itself.
pub(super) fn directory(path: &str) -> Result<String, ControlError> {
    match path.trim_end_matches('/') {
        "" | "." | "/workspace" => Ok(String::new()),
        path => file(path),
    }
}

fn confused() -> ControlError {
    EngineError::Broken("the executor answered something else".into()).into()
}

/// What the kernel says, as what the caller can do about it.
pub(super) fn refused(errno: Errno) -> ControlError {
    match errno {
        Errno::NOENT => ControlError::NotFound { what: "file" },
        Errno::EXIST => ControlError::conflict("file", "is there already"),
        Errno::NOTEMPTY => ControlError::conflict("directory", "is not empty"),
        Errno::ISDIR => ControlError::conflict("file", "is a directory"),
        Errno::NOTDIR => ControlError::conflict("path", "leads through something that is no directory"),
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ControlError::Full,
        Errno::LOOP | Errno::XDEV | Errno::INVAL => {
            ControlError::invalid("path", "names no plain file of the workspace")
        }
        Errno::NAMETOOLONG => ControlError::invalid("path", "is too long"),
        Errno::ACCESS | Errno::PERM => ControlError::conflict("file", "does not allow it"),
        other => EngineError::Broken(format!("a file could not be reached: {other}")).into(),
    }
}
