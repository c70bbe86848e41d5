//! Objects, in a directory and in an S3 server: whole or not at all, streamed, and only those asked for.

use engine::storage::{ObjectKey, Objects, StoreError};
use futures_util::TryStreamExt;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

/// Text that differs everywhere, and ends as it is told.
struct Source {
    left: usize,
    next: u8,
    fails: bool,
}

impl Source {
    fn of(left: usize) -> Source {
        Source { left, next: 0, fails: false }
    }
}

impl AsyncRead for Source {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.left == 0 && self.fails {
            return Poll::Ready(Err(std::io::Error::other("the source broke")));
        }
        // Odd pieces, so that none lines up with a part.
        let size = self.left.min(into.remaining()).min(4099);
        for _ in 0..size {
            into.put_slice(&[self.next]);
            self.next = self.next.wrapping_mul(31).wrapping_add(7);
        }
        self.left -= size;
        Poll::Ready(Ok(()))
    }
}

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

async fn names(objects: &Objects, prefix: &str) -> Vec<String> {
    let listed: Vec<_> = objects.list(&key(prefix)).try_collect().await.unwrap();
    let mut names: Vec<_> = listed.into_iter().map(|one| one.key.to_string()).collect();
    names.sort();
    names
}

async fn everything(objects: &Objects) {
    comes_back_as_it_was(objects).await;
    what_breaks_leaves_nothing(objects).await;
    only_what_is_below(objects).await;
}

async fn comes_back_as_it_was(objects: &Objects) {
    // Nothing, a little, and more than two parts of an upload.
    for size in [0, 1, 70_000, 12 << 20] {
        let stored = objects.put(&key("streams/one"), Source::of(size), u64::MAX).await.unwrap();
        let mut content = objects.get(&key("streams/one"), None).await.unwrap();
        assert_eq!((stored.size, content.size), (size as u64, size as u64));
        let (mut hash, mut read, mut chunk) = (Sha256::new(), 0, vec![0; 100_000]);
        loop {
            let count = content.bytes.read(&mut chunk).await.unwrap();
            if count == 0 {
                break;
            }
            hash.update(&chunk[..count]);
            read += count;
        }
        let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((read, hash), (size, stored.sha256));
    }
    let mut expected = vec![0; 100];
    Source::of(100).read_exact(&mut expected).await.unwrap();
    let mut range = objects.get(&key("streams/one"), Some(10..100)).await.unwrap();
    let mut read = Vec::new();
    range.bytes.read_to_end(&mut read).await.unwrap();
    assert_eq!((range.size, read), (12 << 20, expected[10..].to_vec()));
    let empty = objects.get(&key("streams/one"), Some(5..5)).await.err();
    assert!(matches!(empty, Some(StoreError::Invalid { field: "range", .. })), "{empty:?}");
    objects.delete_all(&key("streams")).await.unwrap();
}

async fn what_breaks_leaves_nothing(objects: &Objects) {
    for size in [1000, 11 << 20] {
        let broken = Source { left: size, next: 0, fails: true };
        let told = objects.put(&key("broken/one"), broken, u64::MAX).await;
        assert!(matches!(told, Err(StoreError::Broken(_))), "{told:?}");
        let told = objects.put(&key("broken/two"), Source::of(size), size as u64 - 1).await;
        assert!(matches!(told, Err(StoreError::TooLong { field: "content", .. })), "{told:?}");
        objects.put(&key("exact/one"), Source::of(size), size as u64).await.unwrap();
    }
    assert!(names(objects, "broken").await.is_empty());
    // What was there before stays.
    let broken = Source { left: 1000, next: 9, fails: true };
    objects.put(&key("exact/one"), broken, u64::MAX).await.unwrap_err();
    assert_eq!(objects.get(&key("exact/one"), None).await.unwrap().size, 11 << 20);
    objects.delete_all(&key("exact")).await.unwrap();
    let missing = objects.get(&key("broken/one"), None).await.err();
    assert_eq!(missing, Some(StoreError::NotFound { what: "object" }));
}

async fn only_what_is_below(objects: &Objects) {
    for name in ["sessions/a/1", "sessions/a/2/3", "sessions/ab/1", "sessions/a.b"] {
        objects.put_bytes(&key(name), name.as_bytes().to_vec()).await.unwrap();
    }
    assert_eq!(names(objects, "sessions/a").await, ["sessions/a/1", "sessions/a/2/3"]);
    assert_eq!(objects.delete_all(&key("sessions/a")).await.unwrap(), 2);
    assert_eq!(objects.delete_all(&key("sessions/a")).await.unwrap(), 0);
    assert_eq!(names(objects, "sessions").await, ["sessions/a.b", "sessions/ab/1"]);
    objects.delete(&key("sessions/ab/1")).await.unwrap();
    objects.delete(&key("sessions/ab/1")).await.unwrap();
    assert_eq!(names(objects, "sessions").await, ["sessions/a.b"]);
    assert!(names(objects, "nothing").await.is_empty());
    objects.delete_all(&key("sessions")).await.unwrap();
}

#[tokio::test]
async fn in_a_directory() {
    let directory = TempDir::new().unwrap();
    let place = directory.path().join("objects");
    everything(&Objects::in_directory(&place).unwrap()).await;
    // Not even the drafts of what broke, which are removed in the background.
    let files = || files_below(&place);
    for _ in 0..50 {
        if files().is_empty() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("left behind: {:?}", files());
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[cfg(feature = "s3")]
mod in_s3 {
    use super::{everything, key, names};
    use crate::world::server;
    use engine::storage::{Objects, S3Settings};

    fn s3(endpoint: &str, url: &str) -> Objects {
        let settings = S3Settings {
            url: url.into(),
            endpoint: Some(endpoint.into()),
            access_key_id: Some("S3RVER".into()),
            secret_access_key: Some("S3RVER".into()),
            ..S3Settings::default()
        };
        Objects::in_s3(&settings).unwrap()
    }

    #[tokio::test]
    async fn in_an_s3_server() {
        let Some(endpoint) = server("SANDBOXD_TEST_S3") else { return };
        let (one, other) = (s3(&endpoint, "s3://sandboxd/one/deep"), s3(&endpoint, "s3://sandboxd/on"));
        other.put_bytes(&key("sessions/x"), vec![1]).await.unwrap();
        everything(&one).await;
        assert_eq!(names(&other, "sessions").await, ["sessions/x"], "prefixes keep stores apart");
        other.delete(&key("sessions/x")).await.unwrap();
        let shown = format!("{one:?}");
        assert!(!shown.contains("S3RVER"), "{shown}");
    }

    #[tokio::test]
    async fn an_s3_server_that_is_away_can_be_tried_again() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let objects = s3(&format!("http://{nobody}"), "s3://sandboxd");
        let told = objects.put_bytes(&key("a"), vec![1]).await.unwrap_err();
        assert!(told.is_retryable(), "{told:?}");
    }
}
