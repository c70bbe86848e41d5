//! Writing an archive, while it is read by somebody else.

use super::{Archive, ask, broken};
use crate::control::error::ControlError;
use crate::{FileEntry, FileKind, FileOp, FileOutcome, LONGEST_PIECE, MOST_ENTRIES, Sandbox};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

/// Bytes are passed on when there are so many.
const CHUNK: usize = 64 << 10;

/// Writes everything below a directory of a workspace.
pub(in crate::control) async fn pack(
    sandbox: &Sandbox,
    below: &str,
    format: Archive,
    mut to: impl AsyncWrite + Unpin,
) -> Result<(), ControlError> {
    let mut packer = Packer::new(format);
    let mut after = None;
    loop {
        let op =
            FileOp::List { path: below.to_owned(), recursive: true, after: after.take(), most: MOST_ENTRIES };
        let FileOutcome::Listed { entries, more } = ask(sandbox, op, None).await?.0 else { break };
        for entry in &entries {
            let name = match below {
                "" => entry.path.as_str(),
                below => entry.path.strip_prefix(below).map_or("", |rest| rest.trim_start_matches('/')),
            };
            match entry.kind {
                FileKind::Directory => packer.directory(name, entry).map_err(broken)?,
                FileKind::File => add(sandbox, name, entry, &mut packer, &mut to).await?,
                // Links and the like are not followed, and not stored.
                FileKind::Other => {}
            }
            packer.pass_on(&mut to, CHUNK).await?;
        }
        after = entries.last().map(|entry| entry.path.clone());
        if !more || after.is_none() {
            break;
        }
    }
    let rest = packer.end().map_err(broken)?;
    to.write_all(&rest).await.map_err(broken)?;
    to.shutdown().await.map_err(broken)
}

async fn add(
    sandbox: &Sandbox,
    name: &str,
    entry: &FileEntry,
    packer: &mut Packer,
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<(), ControlError> {
    packer.file(name, entry).map_err(broken)?;
    let mut at = 0;
    while at < entry.size {
        let read = FileOp::Read { path: entry.path.clone(), offset: at, length: LONGEST_PIECE as u32 };
        let mut piece = match ask(sandbox, read, None).await {
            Ok((_, piece)) => piece,
            // It is gone, or something else by now. What was announced has to come all the same.
            Err(ControlError::NotFound { .. } | ControlError::Conflict { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        if piece.is_empty() {
            piece = vec![0; (entry.size - at).min(LONGEST_PIECE as u64) as usize];
        }
        piece.truncate((entry.size - at).min(piece.len() as u64) as usize);
        at += piece.len() as u64;
        packer.content(&piece).map_err(broken)?;
        packer.pass_on(to, CHUNK).await?;
    }
    packer.end_of_file(entry.size).map_err(broken)
}

/// Where a zip file is written, and read from while it is.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

enum Packer {
    Tar(GzEncoder<Vec<u8>>),
    Zip(Box<ZipWriter<StreamWriter<Shared>>>, Shared),
}

impl Packer {
    fn new(format: Archive) -> Packer {
        match format {
            Archive::TarGz => Packer::Tar(GzEncoder::new(Vec::new(), Compression::fast())),
            Archive::Zip => {
                let shared = Shared::default();
                Packer::Zip(Box::new(ZipWriter::new_stream(shared.clone())), shared)
            }
        }
    }

    fn directory(&mut self, name: &str, entry: &FileEntry) -> std::io::Result<()> {
        match self {
            Packer::Tar(archive) => archive.write_all(&header(name, entry, 0, tar::EntryType::Directory)?),
            Packer::Zip(archive, _) => Ok(archive.add_directory(name, options(entry))?),
        }
    }

    fn file(&mut self, name: &str, entry: &FileEntry) -> std::io::Result<()> {
        match self {
            Packer::Tar(archive) => {
                archive.write_all(&header(name, entry, entry.size, tar::EntryType::Regular)?)
            }
            Packer::Zip(archive, _) => Ok(archive.start_file(name, options(entry))?),
        }
    }

    fn content(&mut self, piece: &[u8]) -> std::io::Result<()> {
        match self {
            Packer::Tar(archive) => archive.write_all(piece),
            Packer::Zip(archive, _) => archive.write_all(piece),
        }
    }

    fn end_of_file(&mut self, size: u64) -> std::io::Result<()> {
        match self {
            Packer::Tar(archive) => {
                let padding = (512 - size % 512) % 512;
                archive.write_all(&[0; 512][..padding as usize])
            }
            Packer::Zip(..) => Ok(()),
        }
    }

    /// Sends what there is, when there is enough of it.
    async fn pass_on(
        &mut self,
        to: &mut (impl AsyncWrite + Unpin),
        enough: usize,
    ) -> Result<(), ControlError> {
        let ready = match self {
            Packer::Tar(archive) if archive.get_ref().len() >= enough => std::mem::take(archive.get_mut()),
            Packer::Zip(_, shared) if shared.len() >= enough => shared.take(),
            _ => return Ok(()),
        };
        to.write_all(&ready).await.map_err(broken)
    }

    /// The last bytes.
    fn end(self) -> std::io::Result<Vec<u8>> {
        match self {
            Packer::Tar(mut archive) => {
                // Two empty blocks are the end.
                archive.write_all(&[0; 1024])?;
                archive.finish()
            }
            Packer::Zip(archive, shared) => {
                archive.finish()?;
                Ok(shared.take())
            }
        }
    }
}

fn options(entry: &FileEntry) -> SimpleFileOptions {
    let large = entry.size >= u64::from(u32::MAX);
    SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .unix_permissions(entry.mode)
        .large_file(large)
}

/// The blocks before the content of an entry.
fn header(name: &str, entry: &FileEntry, size: u64, kind: tar::EntryType) -> std::io::Result<Vec<u8>> {
    let mut blocks = Vec::new();
    let mut builder = tar::Builder::new(&mut blocks);
    let mut head = tar::Header::new_gnu();
    head.set_size(size);
    head.set_mode(entry.mode);
    head.set_mtime((entry.modified_ms / 1000).max(0) as u64);
    head.set_entry_type(kind);
    builder.append_data(&mut head, name, std::io::empty())?;
    drop(builder);
    // The builder ends an archive when it is dropped.
    blocks.truncate(blocks.len().saturating_sub(1024));
    Ok(blocks)
}
