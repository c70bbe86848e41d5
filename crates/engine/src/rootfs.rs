//! What a native sandbox sees, read from `policies/rootfs.toml`.

use crate::EngineError;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The page, understood.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    pub(crate) host: Vec<Host>,
    pub(crate) scratch: Vec<Scratch>,
    pub(crate) file: Vec<MadeFile>,
    pub(crate) copy: Vec<Copied>,
    pub(crate) device: Vec<Device>,
    pub(crate) link: Vec<Link>,
    pub(crate) proc: Proc,
}

/// A tree of the host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    pub(crate) path: PathBuf,
    #[serde(rename = "reason")]
    _reason: String,
}

/// A writable place.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
    pub(crate) mode: u32,
    pub(crate) exec: bool,
    #[serde(rename = "reason")]
    _reason: String,
}

/// A file made for the sandbox.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MadeFile {
    pub(crate) path: PathBuf,
    pub(crate) content: String,
    #[serde(rename = "reason")]
    _reason: String,
}

/// A part of the host's `/etc`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Copied {
    pub(crate) path: String,
    #[serde(rename = "reason")]
    _reason: String,
}

/// A device node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Device {
    pub(crate) name: String,
    #[serde(rename = "reason")]
    _reason: String,
}

/// A symbolic link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    pub(crate) path: PathBuf,
    pub(crate) target: PathBuf,
    #[serde(rename = "reason")]
    _reason: String,
}

/// Parts of `/proc`, each with its reason.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Proc {
    pub(crate) read_only: Vec<[String; 2]>,
    pub(crate) masked: Vec<[String; 2]>,
}

/// The page, as `build.rs` left it.
const PAGE: &str = include_str!(concat!(env!("OUT_DIR"), "/rootfs.json"));

static POLICY: LazyLock<Result<Policy, String>> =
    LazyLock::new(|| serde_json::from_str(PAGE).map_err(|e| e.to_string()));
static EMPTY: LazyLock<Policy> = LazyLock::new(Policy::default);

/// The policy. A test proves that the page can be read; were it not so, [`check`] refuses to go on.
pub(crate) fn policy() -> &'static Policy {
    POLICY.as_ref().unwrap_or(&EMPTY)
}

/// Whether the page could be read.
pub(crate) fn check() -> Result<(), EngineError> {
    POLICY.as_ref().map(drop).map_err(|e| EngineError::Broken(format!("policies/rootfs.toml: {e}")))
}

/// The page itself, for telling one version from another.
pub(crate) fn page() -> &'static str {
    PAGE
}

impl Policy {
    /// Whether every sandbox sees this path of the host.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        self.host.iter().any(|tree| path.starts_with(&tree.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_can_be_read() {
        check().unwrap();
        assert!(policy().shows(Path::new("/usr/bin/env")));
        assert!(!policy().shows(Path::new("/home")));
    }
}
