//! Compiled programs, by the content they were compiled from, each owner's apart from all others'.
//!
//! Only what the compile step left is kept, taken before the program ran. A program that was compiled by one
//! owner is never run for another, so nobody can prepare a surprise.

use super::{directory, hex};
use crate::EngineError;
use sha2::{Digest, Sha256};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Most programs kept of one owner.
const MOST: usize = 500;
/// Most bytes kept of one owner.
const MOST_BYTES: u64 = 1 << 30;

/// The place of one program.
#[derive(Debug)]
pub(crate) struct Compiled {
    shelf: PathBuf,
    key: String,
}

/// A file of a compiled program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuiltFile {
    pub(crate) path: String,
    pub(crate) content: Vec<u8>,
    pub(crate) executable: bool,
}

impl Compiled {
    /// The place of the program that these parts make, in this order.
    pub(crate) fn of<'a>(
        owner: &str,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Compiled, EngineError> {
        let mut hash = Sha256::new();
        for part in parts {
            // With lengths, so that no two lists of parts look the same.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let shelf = directory(&format!("compiled/{}", hex(&Sha256::digest(owner)[..16])))?;
        Ok(Compiled { shelf, key: hex(&hash.finalize()) })
    }

    /// The program, if it was compiled before.
    pub(crate) fn load(&self) -> Option<Vec<BuiltFile>> {
        let folder = self.shelf.join(&self.key);
        let mut files = Vec::new();
        read_below(&folder, &folder, &mut files).ok()?;
        // Marks it as used; not being able to is no reason not to use it.
        let _ = std::fs::File::open(&folder).and_then(|dir| dir.set_modified(std::time::SystemTime::now()));
        (!files.is_empty()).then_some(files)
    }

    /// Keeps a program. A failure to is only a lost chance.
    pub(crate) fn store(&self, files: &[BuiltFile]) {
        let draft =
            self.shelf.join(format!(".draft-{}-{}", std::process::id(), uuid::Uuid::now_v7().simple()));
        let written = files.iter().try_for_each(|file| {
            let path = draft.join(&file.path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&path, &file.content)?;
            let mode = if file.executable { 0o700 } else { 0o600 };
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))
        });
        if written.and_then(|()| std::fs::rename(&draft, self.shelf.join(&self.key))).is_err() {
            let _ = std::fs::remove_dir_all(&draft);
        }
        prune(&self.shelf);
    }
}

fn read_below(root: &Path, folder: &Path, files: &mut Vec<BuiltFile>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            read_below(root, &entry.path(), files)?;
            continue;
        }
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let executable = meta.permissions().mode() & 0o100 != 0;
        files.push(BuiltFile { path: name, content: std::fs::read(&path)?, executable });
    }
    Ok(())
}

/// Removes what was not used for longest, until the rest is within bounds.
fn prune(shelf: &Path) {
    let mut kept: Vec<(std::time::SystemTime, u64, PathBuf)> = std::fs::read_dir(shelf)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((entry.metadata().ok()?.modified().ok()?, size_of(&entry.path()), entry.path()))
        })
        .collect();
    kept.sort();
    let mut bytes: u64 = kept.iter().map(|(_, size, _)| size).sum();
    let mut number = kept.len();
    for (_, size, path) in kept {
        if number <= MOST && bytes <= MOST_BYTES {
            break;
        }
        let _ = std::fs::remove_dir_all(path);
        number -= 1;
        bytes -= size;
    }
}

fn size_of(path: &Path) -> u64 {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => {
            std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size_of(&entry.path())).sum()
        }
        Ok(meta) => meta.len(),
        Err(_) => 0,
    }
}
