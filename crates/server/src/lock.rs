//! The state directory: for this user alone, and for one server at a time.

use crate::ServerError;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// A state directory that is ours until this is dropped, or the process ends.
#[derive(Debug)]
pub struct StateDir {
    _lock: File,
}

impl StateDir {
    /// Makes the directory if need be, and takes it.
    pub fn take(directory: &Path) -> Result<StateDir, ServerError> {
        let failed = |e: std::io::Error| ServerError::file(directory, &e);
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)).map_err(failed)?;
        let path = directory.join("lock");
        let failed = |e: std::io::Error| ServerError::file(&path, &e);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // It may not have written yet.
                let _ = file.read_to_string(&mut holder);
                return Err(ServerError::InUse {
                    directory: directory.to_owned(),
                    pid: holder.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(StateDir { _lock: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("state");
        let first = StateDir::take(&directory).unwrap();
        let refused = StateDir::take(&directory).unwrap_err().to_string();
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        drop(first);
        StateDir::take(&directory).unwrap();
        assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
