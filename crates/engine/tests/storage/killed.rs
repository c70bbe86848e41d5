//! An acknowledged result survives `kill -9` of whoever stored it.

use crate::world::{Kind, World, outcome, submission};
use engine::storage::{Attachment, ObjectKey, Outcome, Store, StoreSettings};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio::io::AsyncReadExt;

/// Set for the child: the directory of its world.
const CHILD: &str = "SANDBOXD_TEST_CHILD";
/// What comes before the id of a row that the child was told is stored.
const STORED: &str = "stored ";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_there() {
    if let Ok(url) = std::env::var(CHILD) {
        return store_until_killed(&url).await;
    }
    let world = World::new(Kind::Sqlite).await.unwrap();
    let place = format!("{}\n{}", world.url, world.directory.path().join("objects").display());
    let mut acknowledged = Vec::new();
    for round in 1..=5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::what_was_acknowledged_is_there", "--exact", "--nocapture"])
            .env(CHILD, &place)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).split(b'\n');
        let read = |line: Vec<u8>| String::from_utf8(line).unwrap().strip_prefix(STORED).map(str::to_owned);
        let mut ids: Vec<_> =
            lines.by_ref().filter_map(|line| read(line.unwrap())).take(100 * round).collect();
        assert_eq!(ids.len(), 100 * round, "the child ended by itself");
        // SIGKILL, in the middle of whatever it does.
        child.kill().unwrap();
        child.wait().unwrap();
        ids.extend(lines.filter_map(|line| read(line.unwrap())));
        acknowledged.extend(ids);
    }
    let store = world.open().await;
    let mut objects = 0;
    for id in &acknowledged {
        let found = store.execution("alice", id).await.unwrap_or_else(|error| panic!("{id}: {error}"));
        let key = ObjectKey::new(&["executions", &found.submission.id, "stdout"]).unwrap();
        if let Ok(mut content) = store.objects().get(&key, None).await {
            let mut read = String::new();
            content.bytes.read_to_string(&mut read).await.unwrap();
            assert_eq!(read, *id);
            objects += 1;
        }
    }
    eprintln!("{} rows and {objects} objects were acknowledged, and found after 5 kills", acknowledged.len());
    assert!(objects > 0);
}

async fn store_until_killed(place: &str) {
    let (url, objects) = place.split_once('\n').unwrap();
    let objects = engine::storage::Objects::in_directory(objects.as_ref()).unwrap();
    let store = Store::open(&url.parse().unwrap(), objects, StoreSettings::default()).await.unwrap();
    let store = Arc::new(store);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..16 {
        let store = store.clone();
        writers.spawn(async move {
            loop {
                let one = submission("alice");
                let content = Arc::new(one.id.clone().into_bytes());
                let objects = match writer {
                    0 => vec![Attachment { name: "stdout".into(), content }],
                    _ => Vec::new(),
                };
                match writer {
                    1 => {
                        store.submit(&one, None).await.unwrap();
                        store.begin(&one.id, "local", 1).await.unwrap();
                        store.finish(&one, &outcome()).await.unwrap();
                    }
                    _ => store.record(&one, &Outcome { objects, ..outcome() }).await.unwrap(),
                }
                // One write of a whole line, so that what arrives was really acknowledged.
                std::io::stdout().write_all(format!("{STORED}{}\n", one.id).as_bytes()).unwrap();
            }
        });
    }
    writers.join_all().await;
}
