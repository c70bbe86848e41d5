//! A configuration file of somebody else: read as it is, replaced in one step, and a copy kept.

use super::Refusal;
use rustix::fs::{Gid, Uid, fchown};
use std::fs::{Metadata, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// A file, or the place where one can be made.
#[derive(Debug)]
pub(super) struct File {
    /// Past all links.
    pub(super) path: PathBuf,
    /// What is in it, if it is there.
    pub(super) text: Option<String>,
    meta: Option<Metadata>,
}

impl File {
    pub(super) fn read(path: &Path) -> Result<File, Refusal> {
        let cannot = |error| Refusal::new(format!("`{}` cannot be read: {error}", path.display()));
        match path.symlink_metadata() {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(File { path: path.into(), text: None, meta: None });
            }
            Err(error) => return Err(cannot(error)),
        }
        let real = match path.canonicalize() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let what = format!("`{}` is a link that leads nowhere", path.display());
                return Err(Refusal::new(what).with_hint("remove it, or make the file it leads to"));
            }
            real => real.map_err(cannot)?,
        };
        let meta = real.metadata().map_err(cannot)?;
        if !meta.is_file() {
            return Err(Refusal::new(format!("`{}` is not a file", real.display())));
        }
        let text = std::fs::read_to_string(&real).map_err(cannot)?;
        Ok(File { path: real, text: Some(text), meta: Some(meta) })
    }

    /// Puts another text in its place, and says where the one before is kept. A file that is made gets `mode`, less
    /// what the umask takes away.
    pub(super) fn replace(&self, text: &str, mode: u32) -> Result<Option<PathBuf>, Refusal> {
        let cannot = |error| {
            Refusal::new(format!("`{}` cannot be written: {error}", self.path.display()))
                .with_hint("`--print` shows what to add by hand")
        };
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(dir).map_err(cannot)?;
        let new = self.beside(dir, text, mode).map_err(cannot)?;
        // Agents write their files too, and somebody may have thought about it for long.
        if File::read(&self.path)?.text != self.text {
            let what = format!("`{}` was changed by somebody else meanwhile", self.path.display());
            return Err(Refusal::new(what).with_hint("run it again"));
        }
        let Some(old) = &self.text else {
            return new.persist_noclobber(&self.path).map(|_| None).map_err(|failed| cannot(failed.error));
        };
        let backup = self.backup(dir, old).map_err(cannot)?;
        new.persist(&self.path).map_err(|failed| cannot(failed.error))?;
        Ok(Some(backup))
    }

    fn backup(&self, dir: &Path, old: &str) -> std::io::Result<PathBuf> {
        let now = jiff::Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let mut copy = self.beside(dir, old, 0o600)?;
        let mut path = dir.join(format!("{name}.bak-{now}"));
        for more in 2.. {
            match copy.persist_noclobber(&path) {
                Err(failed) if failed.error.kind() == ErrorKind::AlreadyExists => copy = failed.file,
                Err(failed) => return Err(failed.error),
                Ok(_) => break,
            }
            path = dir.join(format!("{name}.bak-{now}-{more}"));
        }
        Ok(path)
    }

    /// A text in a new file without a name that matters, with the owner and mode of this one.
    fn beside(&self, dir: &Path, text: &str, mode: u32) -> std::io::Result<NamedTempFile> {
        let mode = if self.meta.is_some() { 0o600 } else { mode };
        let permissions = Permissions::from_mode(mode);
        let mut file = Builder::new().prefix(".sandboxd-").permissions(permissions).tempfile_in(dir)?;
        file.write_all(text.as_bytes())?;
        if let Some(meta) = &self.meta {
            let mine = file.as_file().metadata()?;
            if (mine.uid(), mine.gid()) != (meta.uid(), meta.gid()) {
                let owner = (Uid::from_raw(meta.uid()), Gid::from_raw(meta.gid()));
                fchown(file.as_file(), Some(owner.0), Some(owner.1))?;
            }
            file.as_file().set_permissions(Permissions::from_mode(meta.mode() & 0o7777))?;
        }
        file.as_file().sync_all()?;
        Ok(file)
    }
}
