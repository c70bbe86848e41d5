//! Files that came to be: found by walking, proven by their hash, sent on request.
//!
//! Runs when no process of the job is left, so nothing changes under its feet; still every file is opened
//! beneath its directory and everything is bounded, because names, sizes and numbers are user code's choice.

use crate::control::Control;
use jail::beneath::{Mark, PlainPath, Tree};
use protocol::{Artifact, Collect, Frame, Kind};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io::Read;
use std::time::{Duration, Instant};

/// Longest time spent on reading files.
const PATIENCE: Duration = Duration::from_secs(10);
const CHUNK: usize = 256 << 10;
/// Most bytes of all paths together, so that the list fits a frame however its characters are written.
const MOST_PATH_BYTES: usize = 128 << 10;

/// How files looked when they were made.
pub(crate) type Known = HashMap<String, Mark>;

/// Lists what is new or changed below `tree`, and sends contents with stream numbers from `first` on.
/// The flag says that something is missing from the list.
pub(crate) fn collect(
    tree: &Tree,
    known: &Known,
    bounds: &Collect,
    send: Option<(&mut Control, u32)>,
) -> (Vec<Artifact>, bool) {
    let mut found = Vec::new();
    let mut path_bytes = 0;
    let complete = tree.walk(&mut |entry| {
        if known.get(entry.path.as_str()) != Some(&Mark::of(&entry.stat)) {
            path_bytes += entry.path.as_str().len();
            found.push((entry.path, entry.stat));
        }
        // One more than asked for tells that there are more.
        found.len() <= bounds.most_files as usize && path_bytes <= MOST_PATH_BYTES
    });
    let mut truncated = !complete || found.len() > bounds.most_files as usize;
    found.truncate(bounds.most_files as usize);
    found.sort_by(|a, b| a.0.cmp(&b.0));

    let mut sender = send;
    let mut left = bounds.most_bytes;
    let deadline = Instant::now() + PATIENCE;
    let mut artifacts = Vec::new();
    for (path, stat) in found {
        let size = stat.st_size as u64;
        if size > left || Instant::now() > deadline {
            truncated = true;
            continue;
        }
        left -= size;
        let stream = artifacts.len() as u32;
        let out = sender.as_mut().map(|(control, first)| (&mut **control, *first + stream));
        match read(tree, &path, size, out) {
            Some((size, sha256)) => {
                let executable = stat.st_mode & 0o100 != 0;
                artifacts.push(Artifact { path: path.as_str().to_owned(), size, sha256, executable });
            }
            None => truncated = true,
        }
    }
    (artifacts, truncated)
}

fn read(
    tree: &Tree,
    path: &PlainPath,
    size: u64,
    mut out: Option<(&mut Control, u32)>,
) -> Option<(u64, String)> {
    let mut file = tree.read(path).ok()?.take(size);
    let mut hash = Sha256::new();
    let mut total = 0;
    let mut buffer = vec![0; CHUNK.min(size as usize + 1)];
    loop {
        let length = file.read(&mut buffer).ok()?;
        if length == 0 {
            return Some((total, hex(&hash.finalize())));
        }
        total += length as u64;
        hash.update(&buffer[..length]);
        if let Some((control, stream)) = out.as_mut() {
            control.send(&Frame { kind: Kind::FileOut, stream: *stream, body: buffer[..length].to_vec() });
            control.drain();
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
