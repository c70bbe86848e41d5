//! Events: told with what they are about, or not at all; and who may send them on.

use crate::world::{World, json, on_every_database, outcome, session, submission};
use engine::storage::{
    ApiKey, EVERYBODY, Event, Json, SessionStatus, Store, StoreError, StoreSettings, Template, Webhook,
};
use serde_json::{Value, json as object};
use std::time::Duration;

on_every_database![
    what_happens_is_told_in_its_order,
    what_did_not_happen_is_not_told,
    nothing_is_told_that_nobody_wants_to_know,
    what_waits_is_written_when_storage_is_closed,
    only_one_sends_for_a_webhook,
];

async fn open(world: &World) -> Store {
    let settings = StoreSettings { events: true, ..StoreSettings::default() };
    Store::open(&world.address(), world.objects(), settings).await.unwrap()
}

fn template(id: &str) -> Template {
    Template { id: id.into(), name: id.into(), spec: json(&object!({})), created_at: 1, updated_at: 1 }
}

fn key(id: &str) -> ApiKey {
    ApiKey {
        id: id.into(),
        tenant: "alice".into(),
        name: "laptop".into(),
        secret_sha256: ApiKey::hash("secret"),
        scopes: json(&["run"]),
        limits: json(&object!({})),
        created_at: 1,
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    }
}

fn status(event: &Event) -> String {
    let body: Value = event.event.body.read().unwrap();
    format!("{} {}", event.event.kind, body["status"].as_str().unwrap_or("-"))
}

async fn what_happens_is_told_in_its_order(world: World) {
    let store = open(&world).await;
    let mut news = store.news();
    let made = session("alice", "s1");
    store.create_session(&made, None).await.unwrap();
    assert!(news.has_changed().unwrap());
    store.move_session(&made, SessionStatus::Ready, 20, Some(&"why ".repeat(200))).await.unwrap();
    let submitted = submission("alice");
    store.submit(&submitted, None).await.unwrap();
    store.begin(&submitted.id, "local", 30).await.unwrap();
    store.finish(&submitted, &outcome()).await.unwrap();
    store.create_template(&template("t1")).await.unwrap();
    store.update_template(&template("t1")).await.unwrap();
    store.delete_template("t1").await.unwrap();
    store.create_api_key(&key("k1")).await.unwrap();
    store.revoke_api_key("k1", 5).await.unwrap();
    store.revoke_api_key("k1", 6).await.unwrap();
    store.purge_session(&store.session("alice", "s1").await.unwrap()).await.unwrap();
    let told = store.events(None, 0, 100).await.unwrap();
    assert_eq!(
        told.iter().map(status).collect::<Vec<_>>(),
        [
            "session.created creating",
            "session.status ready",
            "execution.submitted pending",
            "execution.started running",
            "execution.finished completed",
            "template.created -",
            "template.changed -",
            "template.deleted -",
            "key.created -",
            "key.revoked -",
            "session.deleted -",
        ]
    );
    assert!(told.iter().zip(1..).all(|(event, number)| event.sequence == number), "{told:?}");
    for event in &told {
        let expected = if event.event.kind.starts_with("template") { EVERYBODY } else { "alice" };
        assert_eq!(event.event.owner, expected);
        // Neither what was run nor what it wrote, and reasons only in short.
        let text = event.event.body.as_str();
        assert!(!text.contains("print") && !text.contains("stdout") && text.len() < 300, "{text}");
    }
    assert_eq!((told[3].event.subject.as_str(), told[3].event.at), (submitted.id.as_str(), 30));

    // What is stored in one piece is told a moment later, and whoever waits hears of it.
    news.borrow_and_update();
    let at_once = submission("bob");
    store.record(&at_once, &outcome()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), news.changed()).await.unwrap().unwrap();
    let last = store.events(Some("bob"), 0, 100).await.unwrap();
    assert_eq!(last.iter().map(status).collect::<Vec<_>>(), ["execution.finished completed"]);
    assert_eq!((last[0].sequence, last[0].event.subject.as_str()), (12, at_once.id.as_str()));
}

async fn what_did_not_happen_is_not_told(world: World) {
    let store = open(&world).await;
    let made = session("alice", "s1");
    store.create_session(&made, None).await.unwrap();
    assert!(store.create_session(&made, None).await.is_err());
    store.move_session(&made, SessionStatus::Ready, 20, None).await.unwrap();
    assert!(store.move_session(&made, SessionStatus::Failed, 21, None).await.is_err());
    assert!(store.begin("exec_nobody", "local", 1).await.is_err());
    assert!(store.finish(&submission("alice"), &outcome()).await.is_err());
    assert_eq!(store.delete_template("t1").await, Err(StoreError::NotFound { what: "template" }));
    assert!(store.revoke_api_key("k1", 1).await.is_err());
    assert_eq!(store.latest_event().await.unwrap(), 2);
}

async fn nothing_is_told_that_nobody_wants_to_know(world: World) {
    let store = world.open().await;
    store.create_session(&session("alice", "s1"), None).await.unwrap();
    store.record(&submission("alice"), &outcome()).await.unwrap();
    store.close().await;
    assert_eq!(world.open().await.latest_event().await.unwrap(), 0);
}

async fn what_waits_is_written_when_storage_is_closed(world: World) {
    let store = open(&world).await;
    let mut ids = Vec::new();
    for _ in 0..300 {
        let one = submission("alice");
        store.record(&one, &outcome()).await.unwrap();
        ids.push(one.id);
    }
    store.close().await;
    let told = open(&world).await.events(Some("alice"), 0, 1000).await.unwrap();
    assert_eq!(told.iter().map(|event| event.event.subject.clone()).collect::<Vec<_>>(), ids);
    assert!(told.iter().zip(1..).all(|(event, number)| event.sequence == number));
}

async fn only_one_sends_for_a_webhook(world: World) {
    let store = open(&world).await;
    let webhook = Webhook {
        id: "w1".into(),
        owner: EVERYBODY.into(),
        url: "https://example.com/".into(),
        kinds: Json::of(&["*"]).unwrap(),
        secret: "secret".into(),
        active: true,
        delivered: 0,
        failures: 0,
        last_error: None,
        created_at: 1,
    };
    store.create_webhook(&webhook).await.unwrap();
    assert!(store.lease_webhook("w1", "a", 100, 200).await.unwrap());
    assert!(!store.lease_webhook("w1", "b", 150, 300).await.unwrap());
    assert!(store.lease_webhook("w1", "a", 150, 250).await.unwrap(), "whoever has it keeps it");
    assert!(store.lease_webhook("w1", "b", 251, 300).await.unwrap(), "its time was over");
    store.release_webhook("w1", "a").await.unwrap();
    assert!(!store.lease_webhook("w1", "a", 252, 300).await.unwrap());
    store.release_webhook("w1", "b").await.unwrap();
    assert!(store.lease_webhook("w1", "a", 252, 300).await.unwrap());
    store.webhook_progress("w1", 1, 3, false, Some("why")).await.unwrap();
    assert!(!store.lease_webhook("w1", "a", 260, 300).await.unwrap(), "it was given up");
    assert!(!store.lease_webhook("nobody", "a", 1, 2).await.unwrap());
}
