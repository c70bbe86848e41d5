//! A state directory for as long as one program lives. What killed ones have left is removed by the next.

use anyhow::Result;
use server::StateDir;
use std::path::{Path, PathBuf};

/// A directory that is nobody else's.
pub(super) struct Private {
    directory: PathBuf,
    _lock: StateDir,
}

impl Private {
    /// Makes one below a state directory.
    pub(super) fn take(state: &Path) -> Result<Private> {
        let parent = state.join("mcp");
        tidy(&parent);
        let directory = parent.join(uuid::Uuid::new_v4().simple().to_string());
        let lock = StateDir::take(&directory)?;
        Ok(Private { directory, _lock: lock })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn remove(self) {
        // What cannot be removed now is by the next one.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Removes directories that nobody holds any more.
fn tidy(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let directory = entry.path();
        // Taking one that is in use fails, and so does one that was just made by somebody who has not taken it yet: it is
        // empty.
        let is_empty = std::fs::read_dir(&directory).is_ok_and(|mut inside| inside.next().is_none());
        if !is_empty && StateDir::take(&directory).is_ok() {
            let _ = std::fs::remove_dir_all(&directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_removed_and_what_is_in_use_is_not() {
        let state = tempfile::tempdir().unwrap();
        let living = Private::take(state.path()).unwrap();
        let left = state.path().join("mcp/left");
        drop(StateDir::take(&left).unwrap());
        std::fs::write(left.join("file"), "x").unwrap();
        let second = Private::take(state.path()).unwrap();
        assert!(living.directory().exists() && second.directory().exists() && !left.exists());
        let gone = second.directory().to_owned();
        second.remove();
        assert!(!gone.exists());
    }
}
