//! Secrets that lie where no program may look, and the search for them in what comes out.

use memchr::memmem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Places that hold a canary, in words for a failed case.
pub(crate) const FILE: usize = 0;
pub(crate) const ENVIRONMENT: usize = 1;
pub(crate) const TOKEN: usize = 2;
pub(crate) const TENANT: usize = 3;
pub(crate) const NEIGHBOUR: usize = 4;
const PLACES: [&str; 5] = [
    "a file of the host",
    "the environment of the command",
    "a private file of the user",
    "another sandbox",
    "a neighbour's sandbox",
];

/// One secret for each place. They begin alike, so that one search finds any of them.
pub(crate) struct Canaries {
    common: String,
}

impl Canaries {
    pub(crate) fn new() -> Canaries {
        let mut random = [0u8; 15];
        rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty()).unwrap();
        Canaries { common: random.iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    /// `CANARY-` and 32 hexadecimal digits.
    pub(crate) fn of(&self, place: usize) -> String {
        format!("CANARY-{}{place:02x}", self.common)
    }

    /// Where a canary in these bytes comes from.
    pub(crate) fn search(&self, bytes: &[u8]) -> Option<&'static str> {
        let at = memmem::find(bytes, self.common.as_bytes())? + self.common.len();
        let digits =
            bytes.get(at..at + 2).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or_default();
        let place = usize::from_str_radix(digits, 16).ok().and_then(|place| PLACES.get(place));
        Some(place.copied().unwrap_or("somewhere"))
    }

    /// The same for every file below a directory that changed since a moment, in seconds since 1970.
    pub(crate) fn search_below(&self, dir: &Path, since: i64) -> Vec<String> {
        let fresh = |path: &PathBuf| {
            let meta = std::fs::symlink_metadata(path);
            meta.is_ok_and(|meta| meta.is_file() && meta.ctime() >= since)
        };
        let found = |path: PathBuf| {
            let place = self.search(&std::fs::read(&path).ok()?)?;
            Some(format!("{} holds the canary of {place}", path.display()))
        };
        crate::traces::below(dir, &|_| true).into_iter().filter(fresh).filter_map(found).collect()
    }
}
