//! Saving what a program made.

use anyhow::{Context, Result};
use engine::{ArtifactRecord, EngineError};
use jail::beneath::{PlainPath, Tree};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A directory that files are saved to, and never beside.
pub(super) struct Folder {
    path: PathBuf,
    tree: Tree,
}

impl Folder {
    /// Makes it if need be, before anything runs.
    pub(super) fn open(path: &Path) -> Result<Folder> {
        let unusable = |e: &dyn std::fmt::Display| {
            EngineError::invalid("artifacts", format!("`{}`: {e}", path.display()))
                .with_hint("name a directory you can write to")
        };
        std::fs::create_dir_all(path).map_err(|e| unusable(&e))?;
        let tree = Tree::open(path).map_err(|e| unusable(&e))?;
        Ok(Folder { path: path.to_owned(), tree })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Saves everything that came with its content. Returns how many files that is.
    pub(super) fn save(&self, artifacts: &[ArtifactRecord]) -> Result<usize> {
        let mut saved = 0;
        for artifact in artifacts {
            let content = artifact.content.as_deref().unwrap_or_default();
            let path = PlainPath::parse(&artifact.path)?;
            let mode = if artifact.executable { 0o755 } else { 0o644 };
            let mut file = self
                .tree
                .replace(&path, mode)
                .with_context(|| self.path.join(&artifact.path).display().to_string())?;
            file.write_all(content).with_context(|| self.path.join(&artifact.path).display().to_string())?;
            saved += 1;
        }
        Ok(saved)
    }
}
