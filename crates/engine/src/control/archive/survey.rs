//! Reading an archive that somebody sent. What is in it is hostile: names, kinds, sizes, and how much it unpacks to.

use super::{Archive, Piece, Unpacked, broken, pieces};
use crate::EngineError;
use crate::control::error::ControlError;
use flate2::read::GzDecoder;
use jail::beneath::PlainPath;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek};
use tokio::sync::mpsc;
use zip::{CompressionMethod, ZipArchive};

/// Most entries of an archive.
const MOST: usize = 10_000;
/// How many times larger than itself an archive may be once it is unpacked, where that is more than [`FREE`].
const RATIO: u64 = 200;
/// Bytes that may come out of any archive.
const FREE: u64 = 16 << 20;

/// What is known of an archive so far.
struct Survey {
    /// By path, whether it is a directory.
    seen: HashMap<String, bool>,
    found: Unpacked,
    most_bytes: u64,
}

/// Looks at every byte of an archive, and says what is wrong with it.
pub(super) fn survey(file: &File, format: Archive, most: u64) -> Result<Unpacked, ControlError> {
    let packed = file.metadata().map_err(broken)?.len();
    let most_bytes = most.min(packed.saturating_mul(RATIO).max(FREE));
    let mut survey = Survey { seen: HashMap::new(), found: Unpacked::default(), most_bytes };
    match format {
        Archive::TarGz => survey.tar(file)?,
        Archive::Zip => survey.zip(file)?,
    }
    Ok(survey.found)
}

impl Survey {
    fn tar(&mut self, file: &File) -> Result<(), ControlError> {
        let mut archive = tar::Archive::new(GzDecoder::new(from_start(file)?));
        for entry in archive.entries().map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path =
                String::from_utf8(entry.path_bytes().into_owned()).map_err(|_| wrong("a name is no text"))?;
            let is_directory = match entry.header().entry_type() {
                tar::EntryType::Directory => true,
                tar::EntryType::Regular => false,
                // What a whole archive says of itself.
                tar::EntryType::XGlobalHeader => continue,
                _ => return Err(wrong(format!("`{}` is neither a file nor a directory", shown(&path)))),
            };
            self.entry(&path, is_directory)?;
            self.content(entry)?;
        }
        Ok(())
    }

    fn zip(&mut self, file: &File) -> Result<(), ControlError> {
        let mut archive = ZipArchive::new(from_start(file)?).map_err(|e| unreadable(e.into()))?;
        if archive.len() > MOST {
            return Err(too_many());
        }
        for index in 0..archive.len() {
            let entry = archive.by_index(index).map_err(|e| unreadable(e.into()))?;
            let path =
                String::from_utf8(entry.name_raw().to_vec()).map_err(|_| wrong("a name is no text"))?;
            let known =
                matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated);
            if entry.encrypted() || !known {
                return Err(wrong(format!("`{}` is packed in a way that is not taken", shown(&path))));
            }
            let kind = entry.unix_mode().map_or(0, |mode| mode & 0o170_000);
            let is_directory = entry.is_dir();
            if !matches!((kind, is_directory), (0, _) | (0o100_000, false) | (0o040_000, true)) {
                return Err(wrong(format!("`{}` is neither a file nor a directory", shown(&path))));
            }
            self.entry(&path, is_directory)?;
            self.content(entry)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &str, is_directory: bool) -> Result<(), ControlError> {
        if self.seen.len() >= MOST {
            return Err(too_many());
        }
        let plain = plain(path)?;
        // What lies above it has to be a directory, also where the archive does not say so.
        for (at, _) in plain.match_indices('/') {
            if !*self.seen.entry(plain[..at].to_owned()).or_insert(true) {
                return Err(wrong(format!("`{}` is below a file", shown(path))));
            }
        }
        match self.seen.insert(plain, is_directory) {
            Some(before) if !(before && is_directory) => {
                Err(wrong(format!("`{}` is there twice", shown(path))))
            }
            _ => Ok(()),
        }?;
        self.found.files += u64::from(!is_directory);
        Ok(())
    }

    fn content(&mut self, content: impl Read) -> Result<(), ControlError> {
        let mut over = false;
        pieces(content, |piece| {
            self.found.bytes += piece.len() as u64;
            over = self.found.bytes > self.most_bytes;
            !over
        })
        .map_err(unreadable)?;
        match over {
            true => Err(ControlError::TooLarge { field: "archive", limit: self.most_bytes }),
            false => Ok(()),
        }
    }
}

/// Hands on everything of an archive that was looked at before.
pub(super) fn read(file: &File, format: Archive, send: &mpsc::Sender<Piece>) -> Result<(), ControlError> {
    match format {
        Archive::TarGz => read_tar(GzDecoder::new(from_start(file)?), send),
        Archive::Zip => {
            let mut archive = ZipArchive::new(from_start(file)?).map_err(|e| unreadable(e.into()))?;
            for index in 0..archive.len() {
                let entry = archive.by_index(index).map_err(|e| unreadable(e.into()))?;
                let path = plain(&String::from_utf8_lossy(entry.name_raw()))?;
                let mode = entry.unix_mode().unwrap_or(0o644) & 0o777;
                if !hand_on(path, entry.is_dir(), mode, entry, send)? {
                    return Ok(());
                }
            }
            Ok(())
        }
    }
}

pub(super) fn read_tar(from: impl Read, send: &mpsc::Sender<Piece>) -> Result<(), ControlError> {
    let mut archive = tar::Archive::new(from);
    for entry in archive.entries().map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let kind = entry.header().entry_type();
        if !matches!(kind, tar::EntryType::Directory | tar::EntryType::Regular) {
            continue;
        }
        let path = plain(&String::from_utf8_lossy(&entry.path_bytes()))?;
        let mode = entry.header().mode().map_err(unreadable)? & 0o777;
        if !hand_on(path, kind == tar::EntryType::Directory, mode, entry, send)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether anybody wants more.
fn hand_on(
    path: String,
    is_directory: bool,
    mode: u32,
    content: impl Read,
    send: &mpsc::Sender<Piece>,
) -> Result<bool, ControlError> {
    let first = if is_directory { Piece::Directory(path) } else { Piece::File { path, mode } };
    let mut wanted = send.blocking_send(first).is_ok();
    if wanted && !is_directory {
        let hand = |piece| {
            wanted = send.blocking_send(Piece::Content(piece)).is_ok();
            wanted
        };
        pieces(content, hand).map_err(unreadable)?;
    }
    Ok(wanted)
}

/// The path of an entry, if it is one beneath a directory.
fn plain(path: &str) -> Result<String, ControlError> {
    let odd = path.contains('\\') || path.split('/').any(|name| name == ".");
    let named = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/');
    match PlainPath::parse(named) {
        Ok(plain) if !odd || path.starts_with("./") && !path.contains('\\') => Ok(plain.as_str().to_owned()),
        Ok(_) => Err(wrong(format!("`{}` is no plain path", shown(path)))),
        Err(why) => Err(wrong(format!("`{}`: {why}", shown(path)))),
    }
}

fn from_start(file: &File) -> Result<std::io::BufReader<File>, ControlError> {
    let mut file = file.try_clone().map_err(broken)?;
    file.rewind().map_err(broken)?;
    Ok(std::io::BufReader::new(file))
}

/// The beginning of a name, on one line.
fn shown(path: &str) -> String {
    path.chars().take(80).flat_map(char::escape_debug).collect()
}

fn wrong(what: impl Into<String>) -> ControlError {
    EngineError::invalid("archive", what)
        .with_hint("nothing of it was taken; it may hold files and directories with plain relative names")
        .into()
}

fn unreadable(error: std::io::Error) -> ControlError {
    wrong(format!("it cannot be read: {error}"))
}

fn too_many() -> ControlError {
    wrong(format!("it has more than {MOST} entries"))
}
