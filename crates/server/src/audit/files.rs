//! The files of the log: `audit.jsonl` is written to, and `audit-<number of its last line>.jsonl` are full.

use super::chain::{self, LONGEST_LINE, Line};
use super::{AuditError, writer};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The file that is written to.
pub(super) fn current(directory: &Path) -> PathBuf {
    directory.join("audit.jsonl")
}

/// The name of a full one, by the number of its last line.
pub(super) fn full(directory: &Path, last: u64) -> PathBuf {
    directory.join(format!("audit-{last:020}.jsonl"))
}

/// The full ones, the oldest first, with the numbers of their last lines.
pub(super) fn all_full(directory: &Path) -> std::io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("audit-")?.strip_suffix(".jsonl"));
        if let Some(last) = number.and_then(|number| number.parse().ok()) {
            found.push((last, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Up to `limit` lines behind this number.
pub(super) fn read(
    directory: &Path,
    after: u64,
    tenant: Option<&str>,
    limit: usize,
) -> Result<Vec<Line>, AuditError> {
    let listed = all_full(directory).map_err(|error| writer::failed(directory, error))?;
    let older = listed.into_iter().filter(|(last, _)| *last > after).map(|(_, path)| path);
    let mut lines = Vec::new();
    for path in older.chain([current(directory)]) {
        let file = match File::open(&path) {
            Ok(file) => file,
            // It was put aside just now, or is too old to be kept.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(writer::failed(&path, error)),
        };
        let mut reader = BufReader::new(file);
        while lines.len() < limit {
            let mut text = String::new();
            let read = (&mut reader).take(LONGEST_LINE).read_line(&mut text);
            if read.map_err(|error| writer::failed(&path, error))? == 0 {
                break;
            }
            // The end of a line may still be on its way.
            let Some(text) = text.strip_suffix('\n') else { break };
            if number(text).is_some_and(|seq| seq <= after) {
                continue;
            }
            let line = chain::read(text).map_err(|why| AuditError::Damaged {
                path: path.clone(),
                line: number(text).unwrap_or(0),
                why,
            })?;
            if lines.last().is_none_or(|last: &Line| last.seq < line.seq)
                && tenant.is_none_or(|tenant| tenant == line.tenant)
            {
                lines.push(line);
            }
        }
    }
    Ok(lines)
}

/// The number of a line, without reading all of it.
fn number(text: &str) -> Option<u64> {
    text.strip_prefix("{\"seq\":")?.split(',').next()?.parse().ok()
}
