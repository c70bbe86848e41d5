//! What a program leaves behind, saved by `--artifacts`.

use crate::stage::Stage;
use rustix::fs::getxattr;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Every entry below a directory: its name as bytes, and its content when it is a regular file.
pub(super) fn below(folder: &Path) -> Result<BTreeMap<Vec<u8>, Option<Vec<u8>>>, String> {
    let mut found = BTreeMap::new();
    let mut next = vec![folder.to_owned()];
    while let Some(dir) = next.pop() {
        for entry in std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?.flatten() {
            let path = entry.path();
            let kind = entry.file_type().map_err(|e| e.to_string())?;
            if kind.is_dir() {
                next.push(path);
                continue;
            }
            let content = kind.is_file().then(|| std::fs::read(&path)).transpose();
            let name = path.strip_prefix(folder).map_err(|e| e.to_string())?.as_os_str().as_bytes().to_vec();
            found.insert(name, content.map_err(|e| format!("{}: {e}", path.display()))?);
        }
    }
    Ok(found)
}

/// A program with every special bit is saved as an ordinary one.
pub(super) fn programs(stage: &Stage) -> Result<(), String> {
    let seen = stage.execute();
    stage.judge(&seen)?;
    let file = stage.folder().join("suid");
    let mode = std::fs::metadata(&file).map_err(|e| format!("{}: {e}", file.display()))?.permissions().mode();
    if mode & 0o7777 != 0o755 {
        return Err(format!("the saved program has mode {:o}", mode & 0o7777));
    }
    match getxattr(&file, "security.capability", &mut [0_u8; 64]) {
        Err(_) => Ok(()),
        Ok(length) => Err(format!("the saved program has {length} bytes of capabilities")),
    }
}

/// Links, pipes and sockets are not saved, and what is saved is what the program wrote.
pub(super) fn links(stage: &Stage) -> Result<(), String> {
    let seen = stage.execute();
    stage.judge(&seen)?;
    let wanted = [("dir/inner.txt", "inner\n"), ("honest.txt", "honest\n"), ("twin.txt", "honest\n")];
    let wanted = wanted.map(|(name, content)| (name.as_bytes().to_vec(), Some(content.as_bytes().to_vec())));
    let saved = below(&stage.folder().join("out"))?;
    if saved == BTreeMap::from(wanted) {
        return Ok(());
    }
    let names: Vec<_> = saved.keys().map(|name| String::from_utf8_lossy(name)).collect();
    Err(format!("saved was {names:?}"))
}

/// The directory that files are saved to has links in it, left there by an earlier program.
pub(super) fn over_links(stage: &Stage) -> Result<(), String> {
    let io = |e: std::io::Error| e.to_string();
    let (out, outside) = (stage.folder().join("out"), stage.folder().join("outside"));
    for dir in [&out, &outside] {
        std::fs::create_dir(dir).map_err(io)?;
        stage.person.give(dir);
    }
    let victims = ["honest.txt", "twin.txt", "inner.txt"].map(|name| outside.join(name));
    for victim in &victims {
        stage.person.write(victim, "untouched");
    }
    // By absolute path, by relative path, and a directory.
    symlink(&victims[0], out.join("honest.txt")).map_err(io)?;
    symlink("../outside/twin.txt", out.join("twin.txt")).map_err(io)?;
    symlink(&outside, out.join("dir")).map_err(io)?;
    // Whether it complains of the directory or replaces it is up to it: nothing may go through.
    let said = stage.command().out();
    said.never_panics();
    stage.show(&said.stdout);
    stage.show(&said.stderr);
    for victim in &victims {
        let now = std::fs::read_to_string(victim).map_err(io)?;
        if now != "untouched" {
            return Err(format!("{} was written through a link: {now:?}", victim.display()));
        }
    }
    let count = std::fs::read_dir(&outside).map_err(io)?.count();
    if count != victims.len() {
        return Err(format!("{count} files lie outside, not {}", victims.len()));
    }
    // So that saving was tried at all.
    let honest = std::fs::symlink_metadata(out.join("honest.txt")).map_err(io)?;
    let complained = !said.stderr.is_empty();
    if honest.is_file() || complained {
        Ok(())
    } else {
        Err("nothing was saved, and nobody complained".into())
    }
}
