//! One line of the log, and how lines hold together.

use super::{AuditError, Note, Outcome};
use crate::clock;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use utoipa::ToSchema;

/// What the first line follows.
pub(super) const ORIGIN: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Longest text of a field, in bytes.
const LONGEST: usize = 1024;
/// What stands between a line and its hash.
const SEAM: &str = ",\"hash\":\"";
/// Longest line that is read: all fields at their longest, escaped.
pub(super) const LONGEST_LINE: u64 = 64 * 1024;

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditLine)]
pub struct Line {
    /// Its number; the first is 1.
    pub seq: u64,
    /// When, RFC 3339.
    pub at: String,
    /// Whose things it was about.
    pub tenant: String,
    /// Who did it: the id of a key, `operator`, or nobody.
    pub key_id: String,
    /// What was done, such as `key.create`.
    pub action: String,
    /// What it was done to.
    pub subject: String,
    /// Of the request.
    pub request_id: String,
    /// What came of it: `done`, `refused` or `failed`.
    pub outcome: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Hash of the line before it.
    pub prev: String,
    /// SHA-256 of this line, as it is written, without this field.
    pub hash: String,
}

/// What a log is like that holds together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How many lines it has.
    pub lines: u64,
    /// Number of the first one; 0 where there is none.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
    /// Hash of the last one, which the next file goes on from.
    pub hash: String,
}

/// The same, without a hash.
#[derive(Serialize)]
struct Body<'a> {
    seq: u64,
    at: String,
    tenant: &'a str,
    key_id: &'a str,
    action: &'a str,
    subject: &'a str,
    request_id: &'a str,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    prev: &'a str,
}

/// The line for a note, and its hash.
pub(super) fn line(note: &Note, seq: u64, prev: &str) -> Result<(String, String), serde_json::Error> {
    let body = Body {
        seq,
        at: clock::now(),
        tenant: &note.tenant,
        key_id: &note.key_id,
        action: note.action,
        subject: &note.subject,
        request_id: &note.request_id,
        outcome: match note.outcome {
            Outcome::Done => "done",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
        },
        detail: note.detail.as_deref(),
        prev,
    };
    let mut text = serde_json::to_string(&body)?;
    text.pop();
    let hash = hash(&text);
    text.push_str(&format!("{SEAM}{hash}\"}}\n"));
    Ok((text, hash))
}

/// A line that is what was written, if it is.
pub(super) fn read(text: &str) -> Result<Line, &'static str> {
    let line: Line = serde_json::from_str(text).map_err(|_| "it is no line of an audit log")?;
    let (body, _) = text.rsplit_once(SEAM).ok_or("it has no hash")?;
    if hash(body) != line.hash {
        return Err("its hash is not that of its content");
    }
    Ok(line)
}

/// Reads a file of the log and says whether its lines are what was written, in that order.
pub fn verify(path: &Path) -> Result<Verified, AuditError> {
    let file = File::open(path).map_err(|error| AuditError::File { path: path.to_owned(), error })?;
    let mut verified = Verified { lines: 0, first: 0, last: 0, hash: ORIGIN.to_owned() };
    for text in BufReader::new(file).lines() {
        let damaged = |why| AuditError::Damaged { path: path.to_owned(), line: verified.lines + 1, why };
        let line = text.map_err(|_| "it is no text").and_then(|text| read(&text)).map_err(damaged)?;
        // A file that goes on from another begins anywhere.
        if verified.lines > 0 || line.seq == 1 {
            if line.prev != verified.hash {
                return Err(damaged("it does not follow the line before it"));
            }
            if line.seq != verified.last + 1 {
                return Err(damaged("lines before it are missing"));
            }
        }
        if verified.lines == 0 {
            verified.first = line.seq;
        }
        verified = Verified { lines: verified.lines + 1, last: line.seq, hash: line.hash, ..verified };
    }
    Ok(verified)
}

/// Text of a caller's, no longer than a line should be.
pub(super) fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST)].to_owned()
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(subject: &str) -> Note {
        Note {
            tenant: "t".into(),
            key_id: "k".into(),
            action: "key.create",
            subject: cut(subject),
            request_id: "r".into(),
            outcome: Outcome::Done,
            detail: None,
        }
    }

    #[test]
    fn a_changed_line_a_missing_one_and_two_in_the_wrong_order_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let (mut prev, mut lines) = (ORIGIN.to_owned(), Vec::new());
        for (seq, subject) in (1..).zip(["a", "b\n{\"seq\":9}", ",\"hash\":\"x\"}", &"\u{1}é".repeat(5000)])
        {
            let (line, hash) = line(&note(subject), seq, &prev).unwrap();
            assert_eq!(line.matches('\n').count(), 1, "one line, whatever is in it");
            assert!((line.len() as u64) < LONGEST_LINE);
            lines.push(line);
            prev = hash;
        }
        let check = |lines: &[&str]| {
            std::fs::write(&path, lines.concat()).unwrap();
            verify(&path)
        };
        let all: Vec<&str> = lines.iter().map(String::as_str).collect();
        let good = check(&all).unwrap();
        assert_eq!((good.lines, good.first, good.last, good.hash), (4, 1, 4, prev));
        check(&all[1..]).unwrap();
        for (bad, at) in [
            (vec![all[0], all[2]], 2),
            (vec![all[1], all[0]], 2),
            (vec![all[0], &all[1].replace("key.create", "key.revoke")], 2),
            (vec!["{}\n"], 1),
        ] {
            let error = check(&bad).unwrap_err();
            assert!(matches!(error, AuditError::Damaged { line, .. } if line == at), "{error}");
        }
    }
}
