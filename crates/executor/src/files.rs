//! Files of the workspace, while a program runs or while none does: one small thing at a time, so that the program that
//! is watched need not wait for it.

use jail::beneath::{DEEPEST, PlainPath, Tree};
use protocol::{ASIDE, FileEntry, FileKind, FileOp, FileOutcome, Frame, FromExecutor, Kind};
use protocol::{LONGEST_PIECE, MOST_ENTRIES};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::os::unix::fs::FileExt;

/// Most directories one list looks into.
const MOST_DIRECTORIES: usize = 10_000;
/// Most bytes of all paths of one list, so that it fits a frame however its characters are written.
const MOST_PATH_BYTES: usize = 128 << 10;

/// The workspace, and what is to be written to it next.
pub(crate) struct Files {
    workspace: Tree,
    /// What was announced; its content is the next frame.
    announced: Option<(u32, FileOp)>,
}

impl Files {
    pub(crate) fn of(workspace: Tree) -> Files {
        Files { workspace, announced: None }
    }

    /// Notes an order. Its answer, unless something has to come first.
    pub(crate) fn take(&mut self, id: u32, op: FileOp) -> Option<Vec<Frame>> {
        match op {
            FileOp::Write { .. } => {
                self.announced = Some((id, op));
                None
            }
            FileOp::Read { path, offset, length } => Some(self.read(id, &path, offset, length)),
            op => Some(vec![told(id, self.perform(&op))]),
        }
    }

    /// The content that was announced.
    pub(crate) fn content(&mut self, stream: u32, content: &[u8]) -> Option<Frame> {
        let (id, op) = self.announced.take_if(|(id, _)| ASIDE | *id == stream)?;
        let FileOp::Write { path, offset, mode } = &op else { return None };
        let written = self.write(path, *offset, *mode, content);
        Some(told(id, written.map(|()| FileOutcome::Done)))
    }

    fn perform(&self, op: &FileOp) -> Result<FileOutcome, Errno> {
        let tree = &self.workspace;
        match op {
            FileOp::List { path, recursive, after, most } => {
                return self.list(path, *recursive, after.as_deref(), *most);
            }
            FileOp::Stat { path } => {
                let path = plain(path)?;
                return Ok(FileOutcome::Found { entry: entry(path.as_str().to_owned(), &tree.stat(&path)?) });
            }
            FileOp::Mkdir { path } => tree.make_directory(&plain(path)?)?,
            FileOp::Move { from, to, replace } => tree.rename(&plain(from)?, &plain(to)?, *replace)?,
            FileOp::Remove { path, recursive } => {
                let path = plain(path)?;
                match kind(&tree.stat(&path)?) {
                    FileKind::Directory => tree.remove_directory(&path, *recursive)?,
                    _ => tree.remove(&path)?,
                }
            }
            FileOp::Read { .. } | FileOp::Write { .. } => return Err(Errno::INVAL),
        }
        Ok(FileOutcome::Done)
    }

    fn read(&self, id: u32, path: &str, offset: u64, length: u32) -> Vec<Frame> {
        let piece = || {
            let file = self.workspace.read(&plain(path)?)?;
            let mut body = vec![0; (length as usize).min(LONGEST_PIECE)];
            let mut filled = 0;
            while filled < body.len() {
                let at = offset.checked_add(filled as u64).ok_or(Errno::OVERFLOW)?;
                match file.read_at(&mut body[filled..], at) {
                    Ok(0) => break,
                    Ok(more) => filled += more,
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(Errno::from_io_error(&e).unwrap_or(Errno::IO)),
                }
            }
            body.truncate(filled);
            let stat = rustix::fs::fstat(&file)?;
            Ok((body, FileOutcome::Found { entry: entry(path.to_owned(), &stat) }))
        };
        match piece() {
            Ok((body, found)) => {
                vec![Frame { kind: Kind::FileOut, stream: ASIDE | id, body }, told(id, Ok(found))]
            }
            Err(errno) => vec![told(id, Err(errno))],
        }
    }

    fn write(&self, path: &str, offset: u64, mode: u32, content: &[u8]) -> Result<(), Errno> {
        let path = plain(path)?;
        let file = match self.workspace.create(&path, mode & 0o777) {
            Err(Errno::EXIST) if offset == 0 => {
                let file = self.workspace.write(&path)?;
                file.set_len(0).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
                file
            }
            Err(Errno::EXIST) => self.workspace.write(&path)?,
            other => other?,
        };
        file.write_all_at(content, offset).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
    }

    fn list(
        &self,
        path: &str,
        recursive: bool,
        after: Option<&str>,
        most: u32,
    ) -> Result<FileOutcome, Errno> {
        let root = if path.is_empty() { String::new() } else { plain(path)?.as_str().to_owned() };
        let mut walk = Walk {
            tree: &self.workspace,
            recursive,
            after,
            most: most.min(MOST_ENTRIES) as usize,
            directories: 0,
            path_bytes: 0,
            entries: Vec::new(),
            more: false,
        };
        walk.directory(&root, DEEPEST)?;
        Ok(FileOutcome::Listed { entries: walk.entries, more: walk.more })
    }
}

/// A list in the making, in the order of its paths: a directory comes right before what is in it.
struct Walk<'a> {
    tree: &'a Tree,
    recursive: bool,
    after: Option<&'a str>,
    most: usize,
    directories: usize,
    path_bytes: usize,
    entries: Vec<FileEntry>,
    more: bool,
}

impl Walk<'_> {
    fn directory(&mut self, path: &str, depth: usize) -> Result<(), Errno> {
        self.directories += 1;
        for (name, stat) in self.tree.list(path)? {
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            let is_directory = kind(&stat) == FileKind::Directory;
            if self.after.is_none_or(|after| comes_after(&path, after)) {
                if self.entries.len() == self.most || self.path_bytes + path.len() > MOST_PATH_BYTES {
                    self.more = true;
                    return Ok(());
                }
                self.path_bytes += path.len();
                self.entries.push(entry(path.clone(), &stat));
            }
            let passed = self.after.is_some_and(|after| {
                !comes_after(&path, after)
                    && !after.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            if is_directory && self.recursive && !passed && depth > 1 && self.directories < MOST_DIRECTORIES {
                // What cannot be looked into, or is gone by now, is not in the way of the rest.
                let _ = self.directory(&path, depth - 1);
            }
            if self.more {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Whether a path comes later in the order of a walk.
fn comes_after(path: &str, other: &str) -> bool {
    path.split('/').cmp(other.split('/')).is_gt()
}

fn plain(path: &str) -> Result<PlainPath, Errno> {
    PlainPath::parse(path).map_err(|_| Errno::INVAL)
}

fn kind(stat: &Stat) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        _ => FileKind::Other,
    }
}

fn entry(path: String, stat: &Stat) -> FileEntry {
    FileEntry {
        path,
        kind: kind(stat),
        size: stat.st_size as u64,
        // What would let somebody become somebody else is nobody's business outside.
        mode: stat.st_mode & 0o777,
        modified_ms: stat.st_mtime * 1000 + stat.st_mtime_nsec as i64 / 1_000_000,
    }
}

fn told(id: u32, outcome: Result<FileOutcome, Errno>) -> Frame {
    let outcome = outcome.unwrap_or_else(|errno| FileOutcome::Failed { errno: errno.raw_os_error() });
    Frame::control(&FromExecutor::File { id, outcome })
}
