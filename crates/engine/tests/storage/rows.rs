//! Keys, webhooks and nodes: stored, found, listed, changed, removed.

use crate::world::{World, json, on_every_database};
use engine::storage::{ApiKey, Node, NodeStatus, StoreError, Webhook};

on_every_database![keys_work_until_they_are_revoked, webhooks_remember_how_far_they_got, nodes_are_heard_of];

fn api_key(id: &str, tenant: &str) -> ApiKey {
    ApiKey {
        id: id.into(),
        tenant: tenant.into(),
        name: "laptop 😀".into(),
        secret_sha256: ApiKey::hash("secret"),
        scopes: json(&["run", "files"]),
        limits: json(&serde_json::json!({ "sessions": 3 })),
        created_at: 1,
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    }
}

async fn keys_work_until_they_are_revoked(world: World) {
    let store = world.open().await;
    for (id, tenant) in [("k1", "alice"), ("k2", "bob"), ("k3", "alice")] {
        store.create_api_key(&api_key(id, tenant)).await.unwrap();
    }
    assert!(matches!(store.create_api_key(&api_key("k1", "bob")).await, Err(StoreError::Conflict { .. })));
    let key = store.api_key("k1").await.unwrap();
    assert_eq!(key, api_key("k1", "alice"));
    assert!(key.is_valid(5) && key.opens_with("secret"));
    assert_eq!(key.scopes.read::<Vec<String>>().unwrap(), ["run", "files"]);
    store.api_key_used("k1", 7).await.unwrap();
    store.revoke_api_key("k1", 8).await.unwrap();
    store.revoke_api_key("k1", 9).await.unwrap();
    let key = store.api_key("k1").await.unwrap();
    assert_eq!((key.last_used_at, key.revoked_at, key.is_valid(10)), (Some(7), Some(8), false));
    let first = store.api_keys(Some("alice"), None, 1).await.unwrap();
    let second = store.api_keys(Some("alice"), first.next.as_ref(), 1).await.unwrap();
    assert_eq!((first.items[0].id.as_str(), second.items[0].id.as_str(), second.next), ("k1", "k3", None));
    assert_eq!(store.api_keys(None, None, 10).await.unwrap().items.len(), 3);
    store.delete_api_key("k1").await.unwrap();
    let missing = StoreError::NotFound { what: "API key" };
    assert_eq!(store.api_key("k1").await.unwrap_err(), missing);
    assert_eq!(store.revoke_api_key("k1", 9).await.unwrap_err(), missing);
    assert_eq!(store.delete_api_key("k1").await.unwrap_err(), missing);
}

async fn webhooks_remember_how_far_they_got(world: World) {
    let store = world.open().await;
    let webhook = Webhook {
        id: "w1".into(),
        owner: "alice".into(),
        url: "https://example.com/hook?token=hunter2".into(),
        kinds: json(&["session.ready"]),
        secret: "hunter2".into(),
        active: true,
        delivered: 5,
        failures: 0,
        last_error: None,
        created_at: 1,
    };
    assert!(!format!("{webhook:?}").contains("hunter2"));
    store.create_webhook(&webhook).await.unwrap();
    assert_eq!(store.webhook(Some("alice"), "w1").await.unwrap(), webhook);
    let missing = StoreError::NotFound { what: "webhook" };
    assert_eq!(store.webhook(Some("bob"), "w1").await.unwrap_err(), missing);
    store.webhook_progress("w1", 9, 2, false, Some("no answer")).await.unwrap();
    let back = store.webhook_progress("w1", 8, 0, true, None).await;
    assert!(matches!(back, Err(StoreError::Conflict { .. })), "{back:?}");
    let found = store.webhooks(None, None, 10).await.unwrap().items;
    assert_eq!(
        found,
        [Webhook {
            delivered: 9,
            failures: 2,
            active: false,
            last_error: Some("no answer".into()),
            ..webhook.clone()
        }]
    );
    assert!(store.webhooks(Some("bob"), None, 10).await.unwrap().items.is_empty());
    assert_eq!(store.delete_webhook("bob", "w1").await.unwrap_err(), missing);
    store.delete_webhook("alice", "w1").await.unwrap();
    let long = Webhook { url: "x".repeat(3000), ..webhook };
    let told = store.create_webhook(&long).await;
    assert!(matches!(told, Err(StoreError::TooLong { field: "url", .. })), "{told:?}");
}

async fn nodes_are_heard_of(world: World) {
    let store = world.open().await;
    let node = Node {
        id: "local".into(),
        status: NodeStatus::Online,
        spec: json(&serde_json::json!({ "cpu": 8 })),
        load: json(&serde_json::json!({ "sandboxes": 0 })),
        heartbeat_at: 1,
        created_at: 1,
    };
    store.put_node(&node).await.unwrap();
    let drained = Node { status: NodeStatus::Draining, heartbeat_at: 5, created_at: 5, ..node.clone() };
    store.put_node(&drained).await.unwrap();
    let load = json(&serde_json::json!({ "sandboxes": 3 }));
    store.node_heartbeat("local", &load, 9).await.unwrap();
    let old = store.node_heartbeat("local", &load, 8).await;
    assert!(matches!(old, Err(StoreError::Conflict { .. })), "{old:?}");
    let found = store.nodes(None, 10).await.unwrap().items;
    assert_eq!(found, [Node { status: NodeStatus::Draining, load, heartbeat_at: 9, ..node }]);
    store.delete_node("local").await.unwrap();
    assert_eq!(store.delete_node("local").await, Err(StoreError::NotFound { what: "node" }));
}
