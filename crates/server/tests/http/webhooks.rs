//! Webhooks: events that are really sent, to a receiver that does not always want them.

use crate::events::key;
use crate::world::World;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use engine::storage::{Json, Webhook};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use server::Options;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(15);

/// Somebody who is told.
struct Receiver {
    address: SocketAddr,
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Inner {
    got: Mutex<Vec<Got>>,
    /// What it answers, the last one for ever; nothing means 200.
    answers: Mutex<Vec<u16>>,
    delay: Mutex<Duration>,
}

#[derive(Clone, Debug)]
struct Got {
    path: String,
    signature: String,
    body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn subject(&self) -> String {
        self.json()["subject"].as_str().unwrap().to_owned()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    async fn start(answers: &[u16]) -> Receiver {
        let inner = Arc::new(Inner { answers: Mutex::new(answers.to_vec()), ..Inner::default() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().fallback(receive).with_state(inner.clone());
        let task = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Receiver { address, inner, task }
    }

    fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    fn answer(&self, answers: &[u16]) {
        *self.inner.answers.lock().unwrap() = answers.to_vec();
    }

    fn got(&self) -> Vec<Got> {
        self.inner.got.lock().unwrap().clone()
    }

    async fn until(&self, count: usize) -> Vec<Got> {
        let began = Instant::now();
        while self.got().len() < count {
            assert!(began.elapsed() < PATIENCE, "only {:?}", self.got());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.got()
    }
}

async fn receive(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let signature = request.headers()["x-sandboxd-signature"].to_str().unwrap().to_owned();
    assert_eq!(request.headers()["content-type"], "application/json");
    let path = request.uri().path().to_owned();
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    inner.got.lock().unwrap().push(Got { path, signature, body });
    let delay = *inner.delay.lock().unwrap();
    tokio::time::sleep(delay).await;
    let mut answers = inner.answers.lock().unwrap();
    let status = match answers.len() {
        0 => 200,
        1 => answers[0],
        _ => answers.remove(0),
    };
    let status = StatusCode::from_u16(status).unwrap();
    match status.is_redirection() {
        true => (status, [("location", "/elsewhere")]).into_response(),
        false => (status, "x".repeat(100_000)).into_response(),
    }
}

fn quick(options: &mut Options) {
    options.webhooks_allow_private = true;
    options.webhook_attempts = 3;
    options.webhook_retry_base = Duration::from_millis(20);
    options.webhook_retry_max = Duration::from_millis(100);
}

/// Makes a webhook for keys; its id and its secret.
async fn hook(world: &World, token: &str, url: &str, more: Value) -> (String, String) {
    let mut wanted = json!({"url": url, "kinds": ["key.created"]});
    wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let reply = world.json("POST /api/v1/webhooks", token, &wanted).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let made = reply.json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    assert_eq!(reply.header("location"), Some(format!("/api/v1/webhooks/{}", text("id")).as_str()));
    (text("id"), text("secret"))
}

async fn shown(world: &World, id: &str) -> Value {
    let reply = world.call(&format!("GET /api/v1/webhooks/{id}"), "", "").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// Waits until a webhook is in this state.
async fn until(world: &World, id: &str, status: &str) -> Value {
    let began = Instant::now();
    loop {
        let now = shown(world, id).await;
        if now["status"] == status {
            return now;
        }
        assert!(began.elapsed() < PATIENCE, "not {status}: {now}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn signed(secret: &str, got: &Got) {
    let (at, given) = got.signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let age = jiff::Timestamp::now().as_second() - at.parse::<i64>().unwrap();
    assert!((0..60).contains(&age), "{}", got.signature);
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{at}.{}", got.body).as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, given);
}

#[tokio::test]
async fn events_arrive_in_their_order_and_signed() {
    let receiver = Receiver::start(&[]).await;
    let world = World::with(quick).await;
    key(&world, "before", &["run"]).await;
    let (id, secret) = hook(&world, &world.token, &receiver.url(), json!({"tenant": "*"})).await;
    let chosen = json!({"secret": "0123456789abcdef", "tenant": "acme"});
    let other = Receiver::start(&[]).await;
    hook(&world, &world.token, &other.url(), chosen).await;
    let mut ids = Vec::new();
    for tenant in ["acme", "other", "acme"] {
        ids.push(key(&world, tenant, &["run"]).await.0);
    }
    let revoked = world.call(&format!("DELETE /api/v1/keys/{}", ids[0]), "", "").await;
    assert_eq!(revoked.status, 204);
    let got = receiver.until(3).await;
    assert_eq!(got.iter().map(Got::subject).collect::<Vec<_>>(), ids);
    for one in &got {
        signed(&secret, one);
        assert_eq!((one.path.as_str(), &one.json()["kind"]), ("/hook", &json!("key.created")));
    }
    let theirs = other.until(2).await;
    assert_eq!(theirs.iter().map(Got::subject).collect::<Vec<_>>(), [ids[0].clone(), ids[2].clone()]);
    theirs.iter().for_each(|one| signed("0123456789abcdef", one));
    let now = shown(&world, &id).await;
    assert_eq!(
        (&now["status"], &now["failures"], &now["last_error"]),
        (&"active".into(), &0.into(), &Value::Null)
    );
    assert!(now.get("secret").is_none() && !now.to_string().contains(&secret));

    assert_eq!(world.call(&format!("DELETE /api/v1/webhooks/{id}"), "", "").await.status, 204);
    key(&world, "acme", &["run"]).await;
    other.until(3).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(receiver.got().len(), 3, "it was removed");
}

#[tokio::test]
async fn what_did_not_arrive_is_sent_again() {
    let receiver = Receiver::start(&[500, 503, 200]).await;
    let world = World::with(quick).await;
    let (id, secret) = hook(&world, &world.token, &receiver.url(), json!({"tenant": "*"})).await;
    let (first, _) = key(&world, "acme", &["run"]).await;
    let (second, _) = key(&world, "acme", &["run"]).await;
    let got = receiver.until(4).await;
    let subjects: Vec<_> = got.iter().map(Got::subject).collect();
    assert_eq!(subjects, [first.clone(), first.clone(), first, second], "none overtakes another");
    got.iter().for_each(|one| signed(&secret, one));
    assert_eq!(until(&world, &id, "active").await["last_error"], Value::Null);
}

#[tokio::test]
async fn a_webhook_is_given_up_and_resumed() {
    let receiver = Receiver::start(&[500]).await;
    let world = World::with(quick).await;
    let (id, _) = hook(&world, &world.token, &receiver.url(), json!({"tenant": "*"})).await;
    let (first, _) = key(&world, "acme", &["run"]).await;
    let failing = until(&world, &id, "failing").await;
    assert_eq!((&failing["failures"], &failing["last_error"]), (&3.into(), &"the answer was 500".into()));
    let (second, _) = key(&world, "acme", &["run"]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(receiver.got().len(), 3);
    receiver.answer(&[]);
    let resumed = world.call(&format!("POST /api/v1/webhooks/{id}/resume"), "", "").await;
    assert_eq!((resumed.status, &resumed.json()["status"]), (200, &"active".into()));
    let got = receiver.until(5).await;
    assert_eq!([got[3].subject(), got[4].subject()], [first, second]);
}

#[tokio::test]
async fn an_event_survives_a_restart_in_the_middle() {
    let receiver = Receiver::start(&[500]).await;
    let patient = |options: &mut Options| {
        quick(options);
        options.webhook_attempts = 50;
        options.webhook_retry_max = Duration::from_secs(60);
    };
    let world = World::with(patient).await;
    let (id, _) = hook(&world, &world.token, &receiver.url(), json!({"tenant": "*"})).await;
    let (first, _) = key(&world, "acme", &["run"]).await;
    let (second, _) = key(&world, "acme", &["run"]).await;
    receiver.until(2).await;
    until(&world, &id, "retrying").await;
    let directory = world.end().await;
    let before = receiver.got().len();
    receiver.answer(&[]);
    let world = World::in_directory(directory, patient).await;
    let got = receiver.until(before + 2).await;
    assert_eq!([got[before].subject(), got[before + 1].subject()], [first, second]);
    until(&world, &id, "active").await;
    let (third, _) = key(&world, "acme", &["run"]).await;
    let got = receiver.until(before + 3).await;
    assert_eq!(got[before + 2].subject(), third);
    assert_eq!(got.len(), before + 3, "nothing that arrived is sent again");
}

#[tokio::test]
async fn private_addresses_are_not_called() {
    let receiver = Receiver::start(&[]).await;
    let world = World::with(|options| {
        quick(options);
        options.webhooks_allow_private = false;
    })
    .await;
    let port = receiver.address.port();
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "169.254.169.254"] {
        let wanted = json!({"url": format!("http://{host}:{port}/")});
        let said =
            world.json("POST /api/v1/webhooks", &world.token, &wanted).await.refused(422, "invalid_field");
        assert_eq!(said["field"], "url", "{said}");
    }
    // One that was made while they were allowed.
    let old = Webhook {
        id: "wh_old".into(),
        owner: "*".into(),
        url: receiver.url(),
        kinds: Json::of(&["key.*"]).unwrap(),
        secret: "secret".into(),
        active: true,
        delivered: world.store.latest_event().await.unwrap(),
        failures: 0,
        last_error: None,
        created_at: 1,
    };
    world.store.create_webhook(&old).await.unwrap();
    key(&world, "acme", &["run"]).await;
    let failing = until(&world, "wh_old", "failing").await;
    assert!(failing["last_error"].as_str().unwrap().contains("public internet"), "{failing}");
    assert!(receiver.got().is_empty());
}

#[tokio::test]
async fn redirects_are_not_followed_and_silence_is_a_failure() {
    let receiver = Receiver::start(&[302]).await;
    let silent = Receiver::start(&[]).await;
    *silent.inner.delay.lock().unwrap() = Duration::from_secs(30);
    let world = World::with(|options| {
        quick(options);
        options.webhook_timeout = Duration::from_millis(300);
    })
    .await;
    let (id, _) = hook(&world, &world.token, &receiver.url(), json!({"tenant": "*"})).await;
    let (slow, _) = hook(&world, &world.token, &silent.url(), json!({"tenant": "*"})).await;
    let (gone, _) =
        hook(&world, &world.token, "http://127.0.0.1:1/?token=hunter2", json!({"tenant": "*"})).await;
    key(&world, "acme", &["run"]).await;
    assert_eq!(until(&world, &id, "failing").await["last_error"], "the answer was 302");
    assert!(receiver.got().iter().all(|one| one.path == "/hook"));
    let why = until(&world, &slow, "failing").await["last_error"].as_str().unwrap().to_owned();
    assert!(why.starts_with("no answer in time"), "{why}");
    let why = until(&world, &gone, "failing").await["last_error"].as_str().unwrap().to_owned();
    assert!(why.starts_with("no connection") && !why.contains("hunter2"), "{why}");
}

#[tokio::test]
async fn webhooks_are_their_tenants_own() {
    let world = World::with(quick).await;
    let (_, acme) = key(&world, "acme", &["run", "admin"]).await;
    let (_, other) = key(&world, "other", &["run", "admin"]).await;
    let (_, runner) = key(&world, "acme", &["run"]).await;
    let (id, _) = hook(&world, &acme, "https://example.org/hook", json!({})).await;
    assert_eq!(shown(&world, &id).await["tenant"], "acme");
    for line in [format!("GET /api/v1/webhooks/{id}"), format!("DELETE /api/v1/webhooks/{id}")] {
        world.json(&line, &other, &json!({})).await.refused(404, "webhook_not_found");
        world.json(&line, &runner, &json!({})).await.refused(403, "missing_scope");
    }
    let list = |token: String| {
        let world = &world;
        async move {
            world.json("GET /api/v1/webhooks", &token, &json!({})).await.json()["items"]
                .as_array()
                .unwrap()
                .len()
        }
    };
    assert_eq!((list(acme.clone()).await, list(other).await, list(world.token.clone()).await), (1, 0, 1));
    let post = |wanted: Value| {
        let (world, acme) = (&world, &acme);
        async move { world.json("POST /api/v1/webhooks", acme, &wanted).await }
    };
    let url = "https://example.org/";
    for tenant in ["*", "other"] {
        post(json!({"url": url, "tenant": tenant})).await.refused(403, "other_tenant");
    }
    for (wanted, field) in [
        (json!({"url": "ftp://example.org/"}), "url"),
        (json!({"url": "https://a:b@example.org/"}), "url"),
        (json!({"url": url, "kinds": ["nothing.*"]}), "kinds"),
        (json!({"url": url, "secret": "short"}), "secret"),
    ] {
        assert_eq!(post(wanted).await.refused(422, "invalid_field")["field"], field);
    }
    for _ in 1..20 {
        assert_eq!(post(json!({"url": url})).await.status, 201);
    }
    post(json!({"url": url})).await.refused(409, "too_many_webhooks");
}
