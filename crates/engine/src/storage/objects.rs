//! Objects: what is too large for a row. Workspaces of stopped sessions, artifacts, long output.
//!
//! They live in a directory of the host or in an S3-compatible store, and go in and out as streams. An object appears
//! whole or not at all. Names are ours: nothing a user sent is part of one, but for ids that were checked.

mod key;
#[cfg(feature = "s3")]
mod s3;

pub use key::ObjectKey;
#[cfg(feature = "s3")]
pub use s3::S3Settings;

use super::connect::unusable;
use super::error::StoreError;
use crate::cache::hex;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::buffered::BufWriter;
use object_store::local::LocalFileSystem;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use sha2::{Digest, Sha256};
use std::fmt;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio_util::io::StreamReader;

/// Where objects are kept.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
}

/// What is known of an object when it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// In bytes.
    pub size: u64,
    /// Hash of its content, in hexadecimal.
    pub sha256: String,
}

/// What a list says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub key: ObjectKey,
    /// In bytes.
    pub size: u64,
}

/// The content of an object.
pub struct Content {
    /// Of the whole object, in bytes.
    pub size: u64,
    /// The bytes that were asked for.
    pub bytes: Box<dyn AsyncRead + Send + Unpin>,
}

/// As much is in memory of an object on its way in, up to three times: S3 takes no smaller parts.
const PART: usize = 5 * 1024 * 1024;
/// As much is read at once.
const CHUNK: usize = 64 * 1024;

impl Objects {
    /// In a directory, which is made if need be, and which only this user may look into.
    pub fn in_directory(directory: &Path) -> Result<Objects, StoreError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|e| unusable(directory, &e))?;
        let store = LocalFileSystem::new_with_prefix(directory)?.with_automatic_cleanup(true);
        Ok(Objects { store: Arc::new(store) })
    }

    /// Stores what is read, unless it is more than `limit` bytes.
    pub async fn put(
        &self,
        key: &ObjectKey,
        mut content: impl AsyncRead + Unpin,
        limit: u64,
    ) -> Result<Stored, StoreError> {
        let writer = BufWriter::with_capacity(self.store.clone(), key.path().clone(), PART);
        let mut writer = writer.with_max_concurrency(2);
        match copy(&mut content, &mut writer, limit).await {
            Ok(stored) => {
                writer.shutdown().await.map_err(broken_stream)?;
                Ok(stored)
            }
            Err(error) => {
                // The first error is the one to tell; what could not be cleaned up was never visible.
                drop(writer.abort().await);
                Err(error)
            }
        }
    }

    /// Stores bytes that are in memory already.
    pub async fn put_bytes(&self, key: &ObjectKey, content: Vec<u8>) -> Result<Stored, StoreError> {
        let stored = Stored { size: content.len() as u64, sha256: hex(&Sha256::digest(&content)) };
        self.store.put(key.path(), content.into()).await?;
        Ok(stored)
    }

    /// The content of an object, or a range of its bytes.
    pub async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Content, StoreError> {
        if range.as_ref().is_some_and(|range| range.is_empty()) {
            return Err(StoreError::Invalid { field: "range", message: "is empty" });
        }
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let found = self.store.get_opts(key.path(), options).await?;
        let size = found.meta.size;
        let bytes = StreamReader::new(found.into_stream().map_err(std::io::Error::other));
        Ok(Content { size, bytes: Box::new(bytes) })
    }

    /// Everything below a name, in no order. `a` is not below `ab`, nor `ab` below `a`.
    pub fn list(&self, prefix: &ObjectKey) -> BoxStream<'static, Result<Listed, StoreError>> {
        let listed = self.store.list(Some(prefix.path()));
        listed
            .map(|meta| {
                let meta = meta?;
                Ok(Listed { key: ObjectKey::found(meta.location), size: meta.size })
            })
            .boxed()
    }

    /// Removes an object. That there is none is no error.
    pub async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError> {
        match self.store.delete(key.path()).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes everything below a name. Returns how many there were.
    pub async fn delete_all(&self, prefix: &ObjectKey) -> Result<u64, StoreError> {
        let listed = self.store.list(Some(prefix.path())).map_ok(|meta| meta.location).boxed();
        let mut deleted = self.store.delete_stream(listed);
        let mut count = 0;
        while let Some(outcome) = deleted.next().await {
            match outcome {
                Ok(_) => count += 1,
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(count)
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only the name of the store: its settings have credentials in them.
        write!(f, "Objects({})", self.store)
    }
}

async fn copy(
    content: &mut (impl AsyncRead + Unpin),
    writer: &mut BufWriter,
    limit: u64,
) -> Result<Stored, StoreError> {
    let (mut hash, mut size) = (Sha256::new(), 0u64);
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = content.read(&mut chunk).await.map_err(|e| StoreError::Broken(e.to_string()))?;
        if read == 0 {
            return Ok(Stored { size, sha256: hex(&hash.finalize()) });
        }
        size += read as u64;
        if size > limit {
            return Err(StoreError::TooLong { field: "content", limit, unit: "bytes" });
        }
        hash.update(&chunk[..read]);
        writer.write_all(&chunk[..read]).await.map_err(broken_stream)?;
    }
}

/// The error inside of an error of a stream.
fn broken_stream(error: std::io::Error) -> StoreError {
    match error.downcast::<object_store::Error>() {
        Ok(error) => error.into(),
        Err(error) => StoreError::unavailable(error),
    }
}

impl From<object_store::Error> for StoreError {
    fn from(error: object_store::Error) -> StoreError {
        use object_store::Error;
        match error {
            Error::NotFound { .. } => StoreError::NotFound { what: "object" },
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => StoreError::Settings {
                message: "the object store refuses access".to_owned(),
                hint: "check bucket, region and credentials, or the rights of the directory",
            },
            Error::InvalidPath { .. } | Error::NotSupported { .. } | Error::NotImplemented { .. } => {
                StoreError::Broken(error.to_string())
            }
            _ => StoreError::unavailable(error),
        }
    }
}
