//! Names of objects: ids, one below the other.

use crate::storage::bounds;
use crate::storage::error::StoreError;
use object_store::path::Path;
use std::fmt;
use std::str::FromStr;

/// The name of an object, or of everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectKey(Path);

impl ObjectKey {
    /// Of its segments, each of which is an id. So none is empty, `..`, or has a `/` in it.
    pub fn new(segments: &[&str]) -> Result<ObjectKey, StoreError> {
        if segments.is_empty() {
            return Err(StoreError::Invalid { field: "key", message: "is empty" });
        }
        for segment in segments {
            bounds::id("key", segment)?;
        }
        Ok(ObjectKey(segments.iter().copied().collect()))
    }

    /// One that the store gave us.
    pub(super) fn found(path: Path) -> ObjectKey {
        ObjectKey(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// One of its segments.
    pub(crate) fn segment(&self, index: usize) -> Option<&str> {
        self.0.as_ref().split('/').nth(index)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_ref())
    }
}

impl FromStr for ObjectKey {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<ObjectKey, StoreError> {
        ObjectKey::new(&text.split('/').collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        for text in ["", "/", "a//b", "../a", "a/..", "a/.b", "a b", "a/%2e%2e", "a\0", "ä"] {
            assert!(text.parse::<ObjectKey>().is_err(), "{text:?}");
        }
        let key: ObjectKey = "workspaces/alice/s1.tar".parse().unwrap();
        assert_eq!(key.to_string(), "workspaces/alice/s1.tar");
        assert_eq!((key.segment(1), key.segment(3)), (Some("alice"), None));
    }
}
