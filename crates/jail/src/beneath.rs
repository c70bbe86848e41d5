//! Files beneath one directory, and never anywhere else.
//!
//! Every path is resolved by the kernel relative to a descriptor of the directory, with symbolic links,
//! magic links and mount crossings refused, so that nothing user code plants or swaps can lead outside.
//! Only regular files are opened. There is no second way to reach a file of a workspace.

use crate::mutant::{Mutant, lacks};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, fstat, mkdirat, openat2,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fmt;
use std::fs::File;
use std::path::Path;

/// Longest path accepted, in bytes: the kernel's own bound, which counts the NUL at the end.
pub const LONGEST_PATH: usize = 4095;
/// Longest single name accepted, in bytes.
pub const LONGEST_NAME: usize = 255;
/// Deepest nesting accepted or walked.
pub const DEEPEST: usize = 64;

/// A path that names something beneath a directory: relative, plain, and free of surprises.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlainPath(String);

/// Why a path was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing is left of it.
    #[error("the path is empty")]
    Empty,
    /// It starts at the root of something.
    #[error("the path must be relative")]
    Absolute,
    /// It has a `..` in it.
    #[error("the path must not contain `..`")]
    Upward,
    /// It has a NUL byte in it.
    #[error("the path contains a NUL byte")]
    Nul,
    /// It, or one of its names, is too long.
    #[error("the path or one of its names is too long")]
    TooLong,
    /// It has too many names.
    #[error("the path is nested too deeply")]
    TooDeep,
    /// It ends in a slash, so it names a directory.
    #[error("the path names a directory")]
    Directory,
}

impl PlainPath {
    /// Accepts `a`, `a/b`, `./a`; refuses everything that is absolute, goes up or is out of bounds.
    pub fn parse(text: &str) -> Result<PlainPath, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.starts_with('/') {
            return Err(PathError::Absolute);
        }
        if text.contains('\0') {
            return Err(PathError::Nul);
        }
        if text.ends_with('/') || text.ends_with("/.") {
            return Err(PathError::Directory);
        }
        if text.len() > LONGEST_PATH {
            return Err(PathError::TooLong);
        }
        let mut names = Vec::new();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => return Err(PathError::Upward),
                _ if name.len() > LONGEST_NAME => return Err(PathError::TooLong),
                _ => names.push(name),
            }
        }
        match names.len() {
            0 => Err(PathError::Empty),
            n if n > DEEPEST => Err(PathError::TooDeep),
            _ => Ok(PlainPath(names.join("/"))),
        }
    }

    /// The path, with single slashes and no dots.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directory it is in, empty for the one it is beneath, and its name there.
    fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }
}

impl fmt::Display for PlainPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A directory and what lies beneath it.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
}

/// A regular file met on a walk.
#[derive(Debug)]
pub struct Entry {
    /// Its path beneath the directory.
    pub path: PlainPath,
    /// What the kernel says of it.
    pub stat: Stat,
}

/// How a file looked at one moment: whoever changes it afterwards cannot make it look so again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    inode: u64,
    size: i64,
    /// The change time, which cannot be set back by user code.
    changed: (i64, i64),
}

impl Mark {
    /// How it looks.
    pub fn of(stat: &Stat) -> Mark {
        Mark { inode: stat.st_ino, size: stat.st_size, changed: (stat.st_ctime, stat.st_ctime_nsec as i64) }
    }
}

const NO_ESCAPE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

fn no_escape() -> ResolveFlags {
    if lacks(Mutant::NoFollow) { ResolveFlags::empty() } else { NO_ESCAPE }
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Tree {
    /// Takes hold of a directory that is trusted to be what it is named.
    pub fn open(path: &Path) -> Result<Tree, Errno> {
        Ok(Tree { root: rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())? })
    }

    /// Takes hold of a directory somebody else took hold of.
    pub fn of(root: OwnedFd) -> Tree {
        Tree { root }
    }

    /// The directory itself, to be handed on.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Opens an existing file for writing from its beginning, in place.
    pub fn overwrite(&self, path: &PlainPath) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        openat2(&self.root, path.as_str(), flags, Mode::empty(), no_escape()).map(File::from)
    }

    /// Makes a new file, and the directories it needs. An existing file is an error.
    pub fn create(&self, path: &PlainPath, mode: u32) -> Result<File, Errno> {
        let (parents, name) = path.split();
        let at = self.make_directories(parents)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        Ok(File::from(openat2(&at, name, flags, Mode::from_raw_mode(mode & 0o777), no_escape())?))
    }

    /// Makes a directory, and those it needs. One that is there already is fine.
    pub fn make_directory(&self, path: &PlainPath) -> Result<(), Errno> {
        self.make_directories(path.as_str()).map(drop)
    }

    fn make_directories(&self, path: &str) -> Result<OwnedFd, Errno> {
        let mut at = openat2(&self.root, ".", DIRECTORY, Mode::empty(), no_escape())?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            at = openat2(&at, name, DIRECTORY, Mode::empty(), no_escape())?;
        }
        Ok(at)
    }

    /// The directory something is in, and its name there.
    fn parent<'p>(&self, path: &'p PlainPath) -> Result<(OwnedFd, &'p str), Errno> {
        let (parents, name) = path.split();
        let parents = if parents.is_empty() { "." } else { parents };
        Ok((openat2(&self.root, parents, DIRECTORY, Mode::empty(), no_escape())?, name))
    }

    /// Removes a file, or a link.
    pub fn remove(&self, path: &PlainPath) -> Result<(), Errno> {
        let (at, name) = self.parent(path)?;
        unlinkat(&at, name, AtFlags::empty())
    }

    /// Removes a directory: an empty one, or with all that is in it.
    pub fn remove_directory(&self, path: &PlainPath, recursive: bool) -> Result<(), Errno> {
        let (at, name) = self.parent(path)?;
        if recursive {
            remove_contents(&at, name, DEEPEST)?;
        }
        unlinkat(&at, name, AtFlags::REMOVEDIR)
    }

    /// Removes everything beneath.
    pub fn clear(&self) -> Result<(), Errno> {
        remove_contents(&self.root, ".", DEEPEST)
    }

    /// What the kernel says of something. Of a link, that it is one.
    pub fn stat(&self, path: &PlainPath) -> Result<Stat, Errno> {
        let (at, name) = self.parent(path)?;
        statat(&at, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Gives something another name. Whether a file that has it already is replaced is up to the caller.
    pub fn rename(&self, from: &PlainPath, to: &PlainPath, replace: bool) -> Result<(), Errno> {
        let ((from_at, from), (to_at, to)) = (self.parent(from)?, self.parent(to)?);
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        renameat_with(&from_at, from, &to_at, to, flags)
    }

    /// Opens a regular file for writing, wherever in it.
    pub fn write(&self, path: &PlainPath) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        regular(openat2(&self.root, path.as_str(), flags, Mode::empty(), no_escape())?)
    }

    /// Names in a directory and what they stand for, in their order. The empty path is this directory itself. Those whose
    /// names are not text are left out.
    pub fn list(&self, path: &str) -> Result<Vec<(String, Stat)>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let at = if path.is_empty() { "." } else { path };
        let fd = openat2(&self.root, at, flags, Mode::empty(), no_escape())?;
        let mut found = Vec::new();
        for item in Dir::read_from(&fd)? {
            let item = item?;
            let Ok(name) = item.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            // Somebody may have removed it meanwhile.
            if let Ok(stat) = statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                found.push((name.to_owned(), stat));
            }
        }
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// Opens a regular file for reading. A link, a device or a pipe is refused.
    pub fn read(&self, path: &PlainPath) -> Result<File, Errno> {
        // Non-blocking, so that a pipe somebody planted cannot hold us.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        regular(openat2(&self.root, path.as_str(), flags, Mode::empty(), no_escape())?)
    }

    /// Makes a file, in place of the file or link that may be there.
    pub fn replace(&self, path: &PlainPath, mode: u32) -> Result<File, Errno> {
        match self.create(path, mode) {
            Err(Errno::EXIST) => {
                self.remove(path)?;
                self.create(path, mode)
            }
            other => other,
        }
    }

    /// Visits every regular file whose name is text, in no order, until `visit` says stop by `false`.
    /// Returns `false` when something was passed over: a name that is not text, nesting too deep, or an end
    /// called by `visit`.
    pub fn walk(&self, visit: &mut dyn FnMut(Entry) -> bool) -> bool {
        let mut stopped = false;
        self.walk_below("", DEEPEST, visit, &mut stopped)
    }

    fn walk_below(
        &self,
        below: &str,
        depth: usize,
        visit: &mut dyn FnMut(Entry) -> bool,
        stopped: &mut bool,
    ) -> bool {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let at = if below.is_empty() { "." } else { below };
        let Ok(fd) = openat2(&self.root, at, flags, Mode::empty(), no_escape()) else { return false };
        let Ok(mut names) = Dir::new(fd) else { return false };
        let mut complete = true;
        while let Some(item) = names.read() {
            let Ok(item) = item else { return false };
            let name: CString = item.file_name().to_owned();
            if matches!(name.as_bytes(), b"." | b"..") {
                continue;
            }
            let follow = if lacks(Mutant::NoFollow) { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
            let Ok(stat) = names.fd().and_then(|fd| statat(fd, name.as_c_str(), follow)) else { continue };
            let kind = FileType::from_raw_mode(stat.st_mode);
            if !matches!(kind, FileType::RegularFile | FileType::Directory) {
                continue;
            }
            let path = name.to_str().ok().map(|name| match below {
                "" => name.to_owned(),
                _ => format!("{below}/{name}"),
            });
            let Some(path) = path.and_then(|path| PlainPath::parse(&path).ok()) else {
                complete = false;
                continue;
            };
            if kind == FileType::Directory {
                complete &= depth > 1 && self.walk_below(path.as_str(), depth - 1, visit, stopped);
                if *stopped {
                    return false;
                }
            } else if !visit(Entry { path, stat }) {
                *stopped = true;
                return false;
            }
        }
        complete
    }

    /// Bytes in use on the file system beneath, where it is one of memory.
    pub fn used(&self) -> u64 {
        const TMPFS: i64 = 0x0102_1994;
        let in_memory = rustix::fs::fstatfs(&self.root).is_ok_and(|fs| fs.f_type == TMPFS);
        let used = |fs: rustix::fs::StatVfs| (fs.f_blocks - fs.f_bfree) * fs.f_frsize;
        if in_memory { rustix::fs::fstatvfs(&self.root).map_or(0, used) } else { 0 }
    }

    /// Whether a device number is that of the file system beneath.
    pub fn holds(&self, device: u64) -> bool {
        fstat(&self.root).is_ok_and(|stat| stat.st_dev == device)
    }

    /// Free bytes and free inodes of the file system beneath.
    pub fn free(&self) -> Result<(u64, u64), Errno> {
        let fs = rustix::fs::fstatvfs(&self.root)?;
        Ok((fs.f_bavail * fs.f_frsize, fs.f_favail))
    }
}

/// A descriptor, if it is of a regular file.
fn regular(fd: OwnedFd) -> Result<File, Errno> {
    match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
        FileType::RegularFile => Ok(File::from(fd)),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

/// Removes all that is in a directory.
fn remove_contents(at: &OwnedFd, name: &str, depth: usize) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = openat2(at, name, flags, Mode::empty(), no_escape())?;
    // All at once: what a directory says while it is changed is up to its file system.
    let names: Vec<CString> =
        Dir::read_from(&fd)?.filter_map(|item| Some(item.ok()?.file_name().to_owned())).collect();
    for name in names.iter().filter(|name| !matches!(name.as_bytes(), b"." | b"..")) {
        match unlinkat(&fd, name.as_c_str(), AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) if depth > 1 => {
                let below = openat2(&fd, name.as_c_str(), flags, Mode::empty(), no_escape())?;
                remove_contents(&below, ".", depth - 1)?;
                unlinkat(&fd, name.as_c_str(), AtFlags::REMOVEDIR)?;
            }
            // Somebody else was faster.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
