//! Work a toolchain needs done once, such as compiling its standard library.

use super::{directory, hex};
use crate::EngineError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};

/// How the name of one in the making ends.
const DRAFT: &str = "draft";

/// The place of one such result.
#[derive(Debug)]
pub(crate) struct Prepared {
    place: PathBuf,
}

/// What trying to begin came to.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// It is ours to make.
    Draft(Draft),
    /// Somebody finished it.
    Done(PathBuf),
    /// Somebody is making it.
    Busy,
}

/// A result in the making. While it lives, nobody else makes the same.
#[derive(Debug)]
pub(crate) struct Draft {
    folder: PathBuf,
    place: PathBuf,
    lock: File,
}

impl Prepared {
    /// The place of what these words make.
    pub(crate) fn of(words: &str) -> Result<Prepared, EngineError> {
        let name = hex(&Sha256::digest(words)[..16]);
        Ok(Prepared { place: directory("prepared")?.join(name) })
    }

    /// It, if it is there.
    pub(crate) fn ready(&self) -> Option<PathBuf> {
        self.place.is_dir().then(|| self.place.clone())
    }

    /// Begins it, unless somebody else has.
    pub(crate) fn begin(&self) -> Result<Beginning, EngineError> {
        let failed =
            |e: &dyn std::fmt::Display| EngineError::Broken(format!("`{}`: {e}", self.place.display()));
        let lock = File::create(self.place.with_extension("lock")).map_err(|e| failed(&e))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(Beginning::Busy),
            Err(errno) => return Err(failed(&errno)),
        }
        if let Some(ready) = self.ready() {
            return Ok(Beginning::Done(ready));
        }
        self.clear_away();
        let folder = self.place.with_extension(format!("{}.{DRAFT}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir(&folder).map_err(|e| failed(&e))?;
        // The sandbox that fills it has a uid of its own. Nobody else gets this far: the shelf is private.
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).map_err(|e| failed(&e))?;
        Ok(Beginning::Draft(Draft { folder, place: self.place.clone(), lock }))
    }

    /// Removes what somebody left who was interrupted. A sandbox may be about to end that still writes there: what
    /// cannot be removed now is so the next time.
    fn clear_away(&self) {
        let Some(shelf) = self.place.parent() else { return };
        for entry in std::fs::read_dir(shelf).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == DRAFT)
                && path.file_name().map(Path::new).and_then(Path::file_prefix) == self.place.file_name()
            {
                let _ = std::fs::remove_dir_all(path);
            }
        }
    }
}

impl Draft {
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps it: as ours, readable and, in the copy each sandbox gets, writable for everybody.
    pub(crate) fn finish(self) -> Result<PathBuf, EngineError> {
        let failed = |e: std::io::Error| EngineError::Broken(format!("`{}`: {e}", self.place.display()));
        adopt(&self.folder).map_err(failed)?;
        std::fs::rename(&self.folder, &self.place).map_err(failed)?;
        drop(self.lock);
        Ok(self.place)
    }

    /// Keeps that there is nothing.
    pub(crate) fn finish_empty(self) -> Result<PathBuf, EngineError> {
        std::fs::remove_dir_all(&self.folder)
            .and_then(|()| std::fs::create_dir(&self.folder))
            .map_err(|e| EngineError::Broken(format!("`{}`: {e}", self.place.display())))?;
        self.finish()
    }

    /// Forgets it.
    pub(crate) fn discard(self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn adopt(path: &Path) -> std::io::Result<()> {
    let meta = std::fs::symlink_metadata(path)?;
    if rustix::process::geteuid().is_root() {
        lchown(path, Some(0), Some(0))?;
    }
    if meta.is_symlink() {
        return Ok(());
    }
    if meta.is_dir() {
        for entry in std::fs::read_dir(path)? {
            adopt(&entry?.path())?;
        }
        return std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777));
    }
    let executable = meta.permissions().mode() & 0o111;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666 | executable))
}
