//! What is kept between runs: prepared roots, prepared toolchains, compiled programs.
//!
//! Everything is named by a hash of what it was made from and appears whole or not at all, so several
//! engines can share it and it can be deleted at any time.

mod compiled;
mod prepared;

pub(crate) use compiled::{BuiltFile, Compiled};
pub(crate) use prepared::{Beginning, Draft, Prepared};

use crate::EngineError;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where it is: `SANDBOXD_CACHE_DIR`, else the user's cache directory, else one of the user's own in `/tmp`.
fn cache_directory() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let own = var("SANDBOXD_CACHE_DIR")
        .or_else(|| var("XDG_CACHE_HOME").and_then(absolute).map(|dir| dir.join("sandboxd")))
        .or_else(|| var("HOME").and_then(absolute).map(|home| home.join(".cache/sandboxd")));
    let in_tmp = || std::env::temp_dir().join(format!("sandboxd-{}", rustix::process::geteuid().as_raw()));
    match own {
        Some(dir) if make(&dir).is_ok() => dir,
        _ => in_tmp(),
    }
}

/// A shelf of it, made if need be.
pub(crate) fn directory(shelf: &str) -> Result<PathBuf, EngineError> {
    let base = cache_directory();
    let unusable = |e: &dyn std::fmt::Display| EngineError::Unavailable {
        what: format!("the cache directory `{}` cannot be used: {e}", base.display()),
        hint: Some("set `SANDBOXD_CACHE_DIR` to a directory of your own".into()),
    };
    make(&base).map_err(|e| unusable(&e))?;
    // In a shared place somebody else might have been there first.
    let owner = std::fs::metadata(&base).map_err(|e| unusable(&e))?;
    if owner.uid() != rustix::process::geteuid().as_raw() || owner.mode() & 0o022 != 0 {
        return Err(unusable(&"others can write to it"));
    }
    let dir = base.join(shelf);
    make(&dir).map_err(|e| unusable(&e))?;
    Ok(dir)
}

fn make(dir: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
