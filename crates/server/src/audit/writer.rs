//! Who writes the log: one thread, as long as the server is there.

use super::chain::{self, LONGEST_LINE, Line, ORIGIN};
use super::{AuditError, Note, Outcome, files};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};

pub(super) enum Order {
    /// Write this, and say when it is on disk, if somebody waits for that.
    Write(Note, Option<oneshot::Sender<Result<(), AuditError>>>),
    /// Stop.
    Close(oneshot::Sender<()>),
}

/// The end of the log.
pub(super) struct Writer {
    directory: PathBuf,
    path: PathBuf,
    file: File,
    size: u64,
    file_bytes: u64,
    keep: usize,
    seq: u64,
    hash: String,
    lost: Arc<AtomicU64>,
}

pub(super) fn failed(path: &Path, error: std::io::Error) -> AuditError {
    AuditError::File { path: path.to_owned(), error }
}

impl Writer {
    /// Goes on behind the last line.
    pub(super) fn open(
        directory: &Path,
        file_bytes: u64,
        keep: usize,
        lost: Arc<AtomicU64>,
    ) -> Result<Writer, AuditError> {
        let path = files::current(directory);
        let file = open(&path)?;
        let (end, torn) = end_of(&file, &path)?;
        let last = match end {
            Some(line) => Some(line),
            None => {
                let older = files::all_full(directory).map_err(|e| failed(directory, e))?.pop();
                let end = older.map(|(_, path)| end_of(&open(&path)?, &path)).transpose()?;
                end.and_then(|(line, _)| line)
            }
        };
        let size = file.metadata().map_err(|e| failed(&path, e))?.len() - torn;
        let (seq, hash) = last.map_or((0, ORIGIN.to_owned()), |line| (line.seq, line.hash));
        let directory = directory.to_owned();
        let mut writer = Writer { directory, path, file, size, file_bytes, keep, seq, hash, lost };
        if torn > 0 {
            // The server was killed while it wrote; nobody was told that this line is there.
            writer.file.set_len(size).map_err(|e| failed(&writer.path, e))?;
            writer.write(&own("audit.repair", format!("{torn} bytes of an unfinished line")))?;
        }
        Ok(writer)
    }

    /// Writes what comes, until it is told to stop or nobody is left who could.
    pub(super) fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        while let Some(order) = orders.blocking_recv() {
            match order {
                Order::Write(note, waits) => {
                    let lost = self.lost.swap(0, Ordering::Relaxed);
                    let mut outcome = Ok(());
                    if lost > 0 {
                        outcome = self.write(&own("audit.lost", format!("{lost} notes")));
                    }
                    outcome = outcome.and_then(|()| self.write(&note));
                    if waits.is_some() {
                        outcome =
                            outcome.and_then(|()| self.file.sync_data().map_err(|e| failed(&self.path, e)));
                    }
                    if let Err(error) = &outcome {
                        tracing::error!(%error, "something is missing in the audit log");
                    }
                    if let Some(waits) = waits {
                        let _ = waits.send(outcome);
                    }
                }
                Order::Close(done) => {
                    if let Err(error) = self.file.sync_data() {
                        tracing::error!(%error, "the audit log may lack its last lines");
                    }
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    fn write(&mut self, note: &Note) -> Result<(), AuditError> {
        let path = self.path.clone();
        if self.size >= self.file_bytes {
            self.turn()?;
        }
        let made = chain::line(note, self.seq + 1, &self.hash);
        let (line, hash) = made.map_err(|e| failed(&path, e.into()))?;
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // Half a line would be taken for damage.
            let _ = self.file.set_len(self.size);
            return Err(failed(&path, error));
        }
        self.size += line.len() as u64;
        self.seq += 1;
        self.hash = hash;
        Ok(())
    }

    /// Puts the full file aside, and removes what is too old.
    fn turn(&mut self) -> Result<(), AuditError> {
        let full = files::full(&self.directory, self.seq);
        self.file.sync_data().map_err(|e| failed(&self.path, e))?;
        std::fs::rename(&self.path, &full).map_err(|e| failed(&full, e))?;
        self.file = open(&self.path)?;
        self.size = 0;
        let old = files::all_full(&self.directory).map_err(|e| failed(&self.directory, e))?;
        for (_, path) in old.iter().take(old.len().saturating_sub(self.keep)) {
            std::fs::remove_file(path).map_err(|e| failed(path, e))?;
        }
        Ok(())
    }
}

/// Something the log says of itself.
fn own(action: &'static str, detail: String) -> Note {
    Note {
        tenant: String::new(),
        key_id: String::new(),
        action,
        subject: "audit".into(),
        request_id: String::new(),
        outcome: Outcome::Done,
        detail: Some(detail),
    }
}

fn open(path: &Path) -> Result<File, AuditError> {
    let opened = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
    opened.map_err(|error| failed(path, error))
}

/// The last line of a file, if it has one, and how many bytes behind it are of a line that was never finished.
fn end_of(mut file: &File, path: &Path) -> Result<(Option<Line>, u64), AuditError> {
    let size = file.seek(SeekFrom::End(0)).map_err(|e| failed(path, e))?;
    let start = size.saturating_sub(2 * LONGEST_LINE);
    file.seek(SeekFrom::Start(start)).map_err(|e| failed(path, e))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).map_err(|e| failed(path, e))?;
    let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else {
        return Ok((None, tail.len() as u64));
    };
    let torn = (tail.len() - end - 1) as u64;
    let begin = tail[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = std::str::from_utf8(&tail[begin..end]).map_err(|_| "it is no text").and_then(chain::read);
    match line {
        Ok(line) => Ok((Some(line), torn)),
        Err(why) => Err(AuditError::Damaged { path: path.to_owned(), line: 0, why }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::verify;

    fn writer(directory: &Path, file_bytes: u64) -> Result<Writer, AuditError> {
        Writer::open(directory, file_bytes, 2, Arc::default())
    }

    #[test]
    fn the_chain_goes_on_over_restarts_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        for round in 0..3 {
            let mut writer = writer(directory, 1000).unwrap();
            for number in 0..10 {
                writer.write(&own("test", format!("{round} {number}"))).unwrap();
            }
        }
        let full = files::all_full(directory).unwrap();
        assert_eq!(full.len(), 2, "what is older is gone");
        let mut before: Option<chain::Verified> = None;
        for path in full.into_iter().map(|(_, path)| path).chain([files::current(directory)]) {
            let good = verify(&path).unwrap();
            if let Some(before) = before.filter(|_| good.lines > 0) {
                assert_eq!(good.first, before.last + 1);
            }
            before = Some(good);
        }
        let lines = files::read(directory, 25, None, 100).unwrap();
        assert_eq!(lines.iter().map(|line| line.seq).collect::<Vec<_>>(), [26, 27, 28, 29, 30]);
        assert!(files::read(directory, 0, Some("t"), 100).unwrap().is_empty());
        assert_eq!(files::read(directory, 25, None, 2).unwrap().len(), 2);
    }

    #[test]
    fn half_a_line_is_mended_and_a_changed_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        writer(directory, 1 << 20).unwrap().write(&own("test", "one".into())).unwrap();
        let path = files::current(directory);
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}{{\"seq\":2,\"at")).unwrap();
        drop(writer(directory, 1 << 20).unwrap());
        assert_eq!(verify(&path).unwrap().lines, 2);
        assert_eq!(files::read(directory, 1, None, 9).unwrap()[0].action, "audit.repair");

        std::fs::write(&path, whole.replace("one", "two")).unwrap();
        assert!(matches!(writer(directory, 1 << 20), Err(AuditError::Damaged { .. })));
    }
}
