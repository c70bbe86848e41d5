//! The prepared root: everything of `/` that is the same in every sandbox, made once and kept.
//!
//! A directory in the cache, named by a hash of all that went into it, so that a change of the policy, of the
//! host's `/etc` or of the mount points makes a new one. It is made beside its place and moved there whole,
//! so that nobody ever sees half of one.

use crate::rootfs::{page, policy};
use crate::runtime::plan::{DRIVERS, LIBRARY};
use crate::{EngineError, Network, cache};
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// What makes interpreters wait, by name.
const PARK: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/drivers.rs"));
/// Raised when the same policy is laid out differently.
const SHAPE: u32 = 3;
/// Nothing larger is copied from the host.
const LARGEST_COPY: u64 = 8 << 20;

/// The prepared root with these mount points, and in it the library that leaves keepers, where there is one.
pub(super) fn prepare(targets: &[PathBuf], network: Network, library: &Path) -> Result<PathBuf, EngineError> {
    let shelf = cache::directory("root")?;
    let place = shelf.join(fingerprint(targets, network, library));
    if place.exists() {
        return Ok(place);
    }
    let draft = shelf.join(format!(".draft-{}-{}", std::process::id(), uuid::Uuid::now_v7().simple()));
    let made = make(&draft, targets, network, library);
    let made = made.map_err(|e| EngineError::Broken(format!("the prepared root: {e}")));
    let moved = made.and_then(|()| match std::fs::rename(&draft, &place) {
        Ok(()) => Ok(()),
        // Somebody else was quicker; theirs is as good as ours.
        Err(_) if place.exists() => Ok(()),
        Err(e) => Err(EngineError::Broken(format!("the prepared root: {e}"))),
    });
    if draft.exists() {
        let _ = std::fs::remove_dir_all(&draft);
    }
    moved.map(|()| place)
}

fn make(draft: &Path, targets: &[PathBuf], network: Network, library: &Path) -> std::io::Result<()> {
    let root = draft.to_owned();
    make_dir(&root)?;
    let at = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let policy = policy();
    for tree in &policy.host {
        if let Ok(link) = std::fs::read_link(&tree.path) {
            symlink(link, at(&tree.path))?;
        }
    }
    let own = ["/proc", "/dev", "/etc", "/root", "/var"].map(PathBuf::from);
    for path in own.iter().chain(targets).chain(policy.scratch.iter().map(|dir| &dir.path)) {
        make_dirs(&root, &at(path))?;
    }
    for copied in &policy.copy {
        for path in matching(&copied.path) {
            let to = at(&path);
            if let Some(parent) = to.parent().filter(|_| path.exists()) {
                make_dirs(&root, parent)?;
            }
            // The host lacking one of these is a matter of the programs that want it.
            let _ = copy(&path, &to);
        }
    }
    for file in &policy.file {
        let content = file.content.strip_prefix('\n').unwrap_or(&file.content);
        make_file(&at(&file.path), content)?;
    }
    for (name, text) in PARK {
        let path = at(Path::new(DRIVERS)).join(name);
        make_dirs(&root, path.parent().unwrap_or(&root))?;
        make_file(&path, text)?;
    }
    // Without it, nobody's memory is kept.
    let _ = copy(library, &at(Path::new(DRIVERS)).join(LIBRARY));
    if network == Network::Host {
        // With the host's network come its name servers.
        for name in ["/etc/resolv.conf", "/etc/hosts"] {
            if let Ok(content) = std::fs::read_to_string(name) {
                make_file(&at(Path::new(name)), &content)?;
            }
        }
    }
    for device in &policy.device {
        make_file(&root.join("dev").join(&device.name), "")?;
    }
    for link in &policy.link {
        symlink(&link.target, at(&link.path))?;
    }
    Ok(())
}

/// Copies a file, a link or a tree. Only what everybody may read is copied.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let meta = std::fs::symlink_metadata(from)?;
    if meta.is_symlink() {
        let target = std::fs::read_link(from)?;
        // A link within what the sandbox sees stays one; any other becomes what it leads to.
        if target.is_absolute() && (policy().shows(&target) || target.starts_with("/etc/alternatives")) {
            return symlink(target, to);
        }
        if target.is_relative() && target.components().count() == 1 {
            return symlink(target, to);
        }
        let real = from.canonicalize()?;
        return if policy().shows(&real) { symlink(real, to) } else { copy(&real, to) };
    }
    if meta.is_dir() {
        if meta.mode() & 0o005 != 0o005 {
            return Ok(());
        }
        make_dir(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            let _ = copy(&entry.path(), &to.join(entry.file_name()));
        }
        return Ok(());
    }
    if meta.is_file() && meta.mode() & 0o004 != 0 && meta.len() <= LARGEST_COPY {
        std::fs::copy(from, to)?;
        std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

fn make_dirs(root: &Path, path: &Path) -> std::io::Result<()> {
    if path == root || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_dirs(root, parent)?;
    }
    make_dir(path)
}

/// Permissions are set, not asked for: the caller's umask must not decide what a sandbox can read.
fn make_dir(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

fn make_file(path: &Path, content: &str) -> std::io::Result<()> {
    std::fs::write(path, content)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))
}

/// What the last part of a path with one `*` stands for.
fn matching(path: &str) -> Vec<PathBuf> {
    let Some((before, after)) = path.split_once('*') else { return vec![PathBuf::from(path)] };
    let (folder, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let mut found: Vec<PathBuf> = std::fs::read_dir(format!("{folder}/"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(prefix) && name.ends_with(after)
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// A name for all that goes into it. It guards against change, not against malice: the shelf is private.
fn fingerprint(targets: &[PathBuf], network: Network, library: &Path) -> String {
    let mut hash = std::hash::DefaultHasher::new();
    (SHAPE, page(), PARK, targets, network == Network::Host).hash(&mut hash);
    let library = std::fs::metadata(library).ok();
    library.map(|meta| (meta.len(), meta.mtime(), meta.mtime_nsec())).hash(&mut hash);
    let policy = policy();
    let sources = policy.copy.iter().flat_map(|copied| matching(&copied.path));
    let watched = sources.chain(["/etc/resolv.conf", "/etc/hosts"].map(PathBuf::from));
    for path in watched.chain(policy.host.iter().map(|tree| tree.path.clone())) {
        let meta = std::fs::symlink_metadata(&path).ok();
        let kind = meta.as_ref().map(|meta| (meta.is_symlink(), meta.is_dir()));
        // The host's trees count by their kind only: what is in them is not copied.
        let changed = meta.filter(|_| !policy.shows(&path)).map(|meta| (meta.mtime(), meta.mtime_nsec()));
        (path, kind, changed).hash(&mut hash);
    }
    format!("{:016x}", hash.finish())
}
