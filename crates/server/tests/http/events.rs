//! Events: who sees which, in pieces and as they happen.

use crate::world::{World, open_store};
use engine::storage::{Json, Template};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(10);

/// Makes a key; its id and its token.
pub(crate) async fn key(world: &World, tenant: &str, scopes: &[&str]) -> (String, String) {
    let wanted = json!({"name": "n", "tenant": tenant, "scopes": scopes});
    let reply = world.json("POST /api/v1/keys", &world.token, &wanted).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let made = reply.json();
    (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
}

async fn list(world: &World, token: &str, query: &str) -> Value {
    let reply = world
        .send(&format!("GET /api/v1/events{query}"), &format!("Authorization: Bearer {token}\r\n"), "")
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/json"));
    reply.json()
}

fn kinds(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn everybody_sees_their_own() {
    let world = World::new().await;
    let (id, runner) = key(&world, "acme", &["run"]).await;
    let (_, admin) = key(&world, "acme", &["run", "admin"]).await;
    let (_, other) = key(&world, "other", &["run", "admin"]).await;
    let all = list(&world, &world.token, "").await;
    let seeded = ["template.created"; 4];
    assert_eq!(kinds(&all), [&seeded[..], &["key.created"; 3]].concat());
    let fifth = &all["items"][4];
    assert_eq!((&fifth["subject"], &fifth["tenant"], &fifth["id"]), (&json!(id), &json!("acme"), &json!(5)));
    assert_eq!(all["items"][0]["tenant"], Value::Null);
    assert!(fifth["at"].as_str().unwrap().ends_with('Z'), "{fifth}");

    assert_eq!(kinds(&list(&world, &admin, "").await), ["key.created", "key.created"]);
    assert_eq!(kinds(&list(&world, &other, "").await), ["key.created"]);
    // What happens to keys is for those who may see keys.
    assert!(kinds(&list(&world, &runner, "").await).is_empty());
    let (_, files) = key(&world, "acme", &["files"]).await;
    world.json("GET /api/v1/events", &files, &json!({})).await.refused(403, "missing_scope");

    assert_eq!(kinds(&list(&world, &world.token, "?kinds=template.*").await), seeded);
    let first = list(&world, &world.token, "?limit=3").await;
    assert_eq!((kinds(&first).len(), &first["next"]), (3, &json!(3)));
    let rest = list(&world, &world.token, "?after=3&limit=1000").await;
    assert_eq!((kinds(&rest).len(), &rest["next"]), (5, &json!(8)));
    assert_eq!(list(&world, &world.token, "?after=8").await, json!({"items": [], "next": 8}));
    for wrong in ["kinds=sesion.*", "kinds=session", "limit=0", "limit=1001"] {
        let said = world.call(&format!("GET /api/v1/events?{wrong}"), "", "").await;
        said.refused(422, "invalid_field");
    }
    world.call("GET /api/v1/events?after=-1", "", "").await.refused(422, "invalid_query");
}

/// A stream, and what was read of it.
struct Reader {
    stream: TcpStream,
    seen: String,
}

impl Reader {
    async fn open(world: &World, query: &str, headers: &str) -> Reader {
        let mut stream = world.connect().await;
        let text = format!(
            "GET /api/v1/events{query} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
             Authorization: Bearer {}\r\n{headers}\r\n",
            world.token
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut reader = Reader { stream, seen: String::new() };
        reader.until("retry: 1000").await;
        assert!(reader.seen.starts_with("HTTP/1.1 200"), "{}", reader.seen);
        assert!(reader.seen.contains("content-type: text/event-stream"), "{}", reader.seen);
        reader
    }

    /// Reads until this has come.
    async fn until(&mut self, words: &str) {
        let wait = async {
            let mut bytes = [0; 4096];
            while !self.seen.contains(words) {
                let count = self.stream.read(&mut bytes).await.unwrap();
                assert!(count > 0, "it ended: {}", self.seen);
                self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        };
        let came = tokio::time::timeout(PATIENCE, wait).await.is_ok();
        assert!(came, "no `{words}` in {}", self.seen);
    }

    /// The numbers of the events that came.
    fn ids(&self) -> Vec<&str> {
        self.seen.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
    }
}

#[tokio::test]
async fn what_happens_comes_at_once_and_nothing_is_missed() {
    let world = World::new().await;
    let mut reader = Reader::open(&world, "?kinds=key.*", "").await;
    let began = Instant::now();
    let (id, _) = key(&world, "acme", &["run"]).await;
    reader.until(&id).await;
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    reader.until("\"tenant\":\"acme\"").await;
    assert!(reader.seen.contains("id: 5\nevent: key.created\ndata: {"), "{}", reader.seen);
    assert_eq!(reader.ids(), ["5"], "what was before is not told");
    drop(reader);

    for _ in 0..150 {
        key(&world, "acme", &["run"]).await;
    }
    // Further than one look, from where it was cut off.
    let mut reader = Reader::open(&world, "?kinds=key.*", "Last-Event-ID: 5\r\n").await;
    reader.until("id: 155\n").await;
    assert_eq!(reader.ids(), (6..=155).map(|id| id.to_string()).collect::<Vec<_>>());
    let mut reader = Reader::open(&world, "?after=153", "Last-Event-ID: 5\r\n").await;
    reader.until("id: 155\n").await;
    assert_eq!(reader.ids(), ["154", "155"]);

    // A stream does not hold up the end of the server.
    let began = Instant::now();
    world.end().await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_another_server_tells_comes_soon() {
    let world = World::new().await;
    let mut reader = Reader::open(&world, "", "").await;
    let other = open_store(&world.state()).await;
    let spec = Json::of(&json!({})).unwrap();
    let template =
        Template { id: "theirs".into(), name: "theirs".into(), spec, created_at: 1, updated_at: 1 };
    other.create_template(&template).await.unwrap();
    let began = Instant::now();
    reader.until("theirs").await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    other.close().await;
}

#[tokio::test]
async fn what_is_not_kept_any_more_is_told() {
    let world = World::new().await;
    let age = engine::storage::Retention {
        executions: None,
        sessions: None,
        claims: None,
        events: Some(Duration::ZERO),
    };
    let later = jiff::Timestamp::now().as_millisecond() + 1000;
    assert_eq!(world.store.prune(&age, later).await.unwrap().events, 4);
    key(&world, "acme", &["run"]).await;
    let mut reader = Reader::open(&world, "?after=2", "").await;
    reader.until("id: 5\n").await;
    assert!(reader.seen.contains("event: missing\ndata: {\"after\":2}"), "{}", reader.seen);
    let mut reader = Reader::open(&world, "?after=4", "").await;
    reader.until("id: 5\n").await;
    assert!(!reader.seen.contains("missing"), "{}", reader.seen);
}
