//! Keys, what they may do, and the record of it.

use crate::world::World;
use serde_json::{Value, json};
use server::audit;
use std::time::Duration;

/// Makes a key with this token; its id and its own token.
async fn make(world: &World, token: &str, wanted: Value) -> (String, String) {
    let reply = world.json("POST /api/v1/keys", token, &wanted).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let made = reply.json();
    assert_eq!(
        reply.header("location"),
        Some(format!("/api/v1/keys/{}", made["id"].as_str().unwrap()).as_str())
    );
    (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
}

async fn list(world: &World, token: &str) -> Vec<Value> {
    let reply = world.json("GET /api/v1/keys", token, &json!({})).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_key_works_until_it_is_revoked_and_its_secret_is_shown_once() {
    let world = World::new().await;
    let wanted =
        json!({"name": "ci", "tenant": "acme", "scopes": ["run", "admin"], "limits": {"sessions": 3}});
    let (id, token) = make(&world, &world.token, wanted).await;
    let (_, secret) = token.rsplit_once('_').unwrap();
    let keys = list(&world, &token).await;
    assert_eq!(
        (&keys[0]["id"], &keys[0]["tenant"], &keys[0]["limits"]),
        (&json!(id), &json!("acme"), &json!({"sessions": 3}))
    );
    let one = world.call(&format!("GET /api/v1/keys/{id}"), "", "").await;
    assert_eq!(one.status, 200);
    let files: Vec<_> =
        std::fs::read_dir(world.state()).unwrap().map(|entry| entry.unwrap().path()).collect();
    for file in files.iter().filter(|path| path.is_file()) {
        let content = std::fs::read(file).unwrap();
        let found = content.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "the secret is in {}", file.display());
    }
    assert!(!one.text().contains(secret) && !serde_json::to_string(&keys).unwrap().contains("sha256"));

    assert_eq!(world.call(&format!("DELETE /api/v1/keys/{id}"), "", "").await.status, 204);
    world.json("GET /api/v1/keys", &token, &json!({})).await.refused(401, "unauthorized");
    assert_eq!(world.call(&format!("DELETE /api/v1/keys/{id}"), "", "").await.status, 204);
    assert!(list(&world, &world.token).await[0]["revoked_at"].is_string());
}

#[tokio::test]
async fn a_key_that_is_known_needs_no_database() {
    let world = World::new().await;
    let (_, token) = make(&world, &world.token, json!({"name": "n", "scopes": ["run"]})).await;
    assert_eq!(world.json("GET /metrics", &token, &json!({})).await.status, 200);
    world.store.close().await;
    assert_eq!(world.json("GET /metrics", &token, &json!({})).await.status, 200);
    let unknown = "sbx_aaaaaaaaaa_bbbbbbbbbbbb";
    assert_eq!(world.json("GET /metrics", unknown, &json!({})).await.status, 503);
}

#[tokio::test]
async fn keys_outlive_the_server_and_end_when_they_should() {
    let world = World::new().await;
    let (_, lasting) = make(&world, &world.token, json!({"name": "a", "scopes": ["run"]})).await;
    let end = jiff::Timestamp::now() + Duration::from_millis(1500);
    let (_, brief) =
        make(&world, &world.token, json!({"name": "b", "scopes": ["run"], "expires_at": end.to_string()}))
            .await;
    assert_eq!(world.json("GET /metrics", &brief, &json!({})).await.status, 200);
    let directory = world.end().await;
    let world = World::in_directory(directory, |_| {}).await;
    assert_eq!(world.json("GET /metrics", &lasting, &json!({})).await.status, 200);
    tokio::time::sleep(Duration::from_millis(1600)).await;
    world.json("GET /metrics", &brief, &json!({})).await.refused(401, "unauthorized");
}

#[tokio::test]
async fn nobody_hands_out_more_than_they_have() {
    let world = World::new().await;
    let (_, runner) =
        make(&world, &world.token, json!({"name": "r", "tenant": "acme", "scopes": ["run"]})).await;
    for line in ["GET /api/v1/keys", "GET /api/v1/audit", "GET /api/v1/keys/x", "DELETE /api/v1/keys/x"] {
        let said = world.json(line, &runner, &json!({})).await.refused(403, "missing_scope");
        assert!(said["detail"].as_str().unwrap().contains("`admin`"));
    }
    let (_, admin) =
        make(&world, &world.token, json!({"name": "a", "tenant": "acme", "scopes": ["run", "admin"]})).await;
    let post = |wanted: Value| world_post(&world, &admin, wanted);
    post(json!({"name": "x", "scopes": ["files"]})).await.refused(403, "missing_scope");
    post(json!({"name": "x", "scopes": ["run"], "tenant": "other"})).await.refused(403, "other_tenant");
    let more = post(json!({"name": "x", "scopes": ["run"], "limits": {"concurrency": 17}})).await;
    assert_eq!(more.refused(422, "invalid_field")["field"], "limits.concurrency");
    let (_, child) =
        make(&world, &admin, json!({"name": "c", "scopes": ["run"], "limits": {"concurrency": 1}})).await;
    assert_eq!(world.json("GET /metrics", &child, &json!({})).await.status, 200);
}

async fn world_post(world: &World, token: &str, wanted: Value) -> crate::world::Reply {
    world.json("POST /api/v1/keys", token, &wanted).await
}

#[tokio::test]
async fn a_tenant_sees_its_own_and_nothing_else() {
    let world = World::new().await;
    let admin = |tenant: &str| json!({"name": tenant, "tenant": tenant, "scopes": ["admin"]});
    let (a, token_a) = make(&world, &world.token, admin("a")).await;
    let (b, token_b) = make(&world, &world.token, admin("b")).await;
    assert_eq!(list(&world, &world.token).await.len(), 2);
    for (token, own, other) in [(&token_a, &a, &b), (&token_b, &b, &a)] {
        let keys = list(&world, token).await;
        assert_eq!(keys.iter().map(|key| key["id"].as_str().unwrap()).collect::<Vec<_>>(), [own]);
        let asked = world.json("GET /api/v1/keys?tenant=a", token, &json!({})).await.json();
        assert_eq!(asked["items"].as_array().unwrap().len(), usize::from(own == &a));
        for method in ["GET", "DELETE"] {
            let theirs = world.json(&format!("{method} /api/v1/keys/{other}"), token, &json!({})).await;
            let nobodys = world.json(&format!("{method} /api/v1/keys/nobody"), token, &json!({})).await;
            let (mut theirs, mut nobodys) = (theirs.refused(404, "api_key_not_found"), nobodys.json());
            theirs["request_id"] = Value::Null;
            nobodys["request_id"] = Value::Null;
            assert_eq!(theirs, nobodys);
        }
        let seen = world.json("GET /api/v1/audit", token, &json!({})).await.json();
        let tenants: Vec<_> =
            seen["items"].as_array().unwrap().iter().map(|line| line["subject"].clone()).collect();
        assert_eq!(tenants, [json!(own)]);
    }
}

#[tokio::test]
async fn a_key_asks_only_as_often_as_it_may() {
    let world = World::new().await;
    let limits = json!({"requests_per_minute": 60, "burst": 3});
    let (_, token) =
        make(&world, &world.token, json!({"name": "n", "scopes": ["run"], "limits": limits})).await;
    for left in ["2", "1", "0"] {
        let reply = world.json("GET /metrics", &token, &json!({})).await;
        assert_eq!((reply.status, reply.header("ratelimit-remaining")), (200, Some(left)));
        assert_eq!(reply.header("ratelimit-limit"), Some("3"));
    }
    let reply = world.json("GET /metrics", &token, &json!({})).await;
    reply.refused(429, "rate_limited");
    assert_eq!((reply.header("retry-after"), reply.header("ratelimit-remaining")), (Some("1"), Some("0")));
    assert_eq!(world.call("GET /metrics", "", "").await.status, 200, "others are not held up");
}

#[tokio::test]
async fn what_was_done_and_refused_is_on_record_and_holds_together() {
    let world = World::new().await;
    let (id, _) = make(&world, &world.token, json!({"name": "n", "tenant": "acme", "scopes": ["run"]})).await;
    let odd = "GET /api/v1/keys/x%0a%7b HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: wrong-1\r\n\
               Authorization: Bearer sbx_aaaa_bbbb\r\n\r\n";
    assert_eq!(world.raw(odd.as_bytes()).await.status, 401);
    assert_eq!(
        world.call(&format!("DELETE /api/v1/keys/{id}"), "X-Request-ID: gone-1\r\n", "").await.status,
        204
    );
    let read = world.call("GET /api/v1/audit", "", "").await.json();
    let lines = read["items"].as_array().unwrap();
    let seen: Vec<_> = lines
        .iter()
        .map(|line| (line["action"].as_str().unwrap(), line["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [("key.create", "done"), ("authenticate", "refused"), ("key.revoke", "done")]);
    assert_eq!((&lines[0]["key_id"], &lines[0]["subject"]), (&json!("operator"), &json!(id)));
    assert_eq!((&lines[1]["request_id"], &lines[2]["request_id"]), (&json!("wrong-1"), &json!("gone-1")));
    let later = world.call("GET /api/v1/audit?after=2&limit=1", "", "").await.json();
    assert_eq!((&later["items"][0]["seq"], &later["next"]), (&json!(3), &json!(3)));

    let path = world.state().join("audit.jsonl");
    let directory = world.end().await;
    assert_eq!(audit::verify(&path).unwrap().lines, 3);
    let world = World::in_directory(directory, |_| {}).await;
    make(&world, &world.token, json!({"name": "m", "scopes": ["run"]})).await;
    let directory = world.end().await;
    assert_eq!(audit::verify(&path).unwrap().last, 4);

    let changed = std::fs::read_to_string(&path).unwrap().replace("operator", "somebody");
    std::fs::write(&path, changed).unwrap();
    assert!(audit::verify(&path).is_err());
    let state = directory.path().join("state");
    let store = crate::world::open_store(&state).await;
    let refused = server::Server::bind(crate::world::options(&state), crate::world::plane(store).await).await;
    assert!(refused.err().unwrap().to_string().contains("damaged"));
}

#[tokio::test]
async fn the_record_cannot_be_flooded_with_refusals() {
    let world = World::with(|options| options.wrong_tokens_per_minute = 10_000).await;
    for _ in 0..150 {
        world
            .send("GET /metrics", "Authorization: Bearer nothing-that-works\r\n", "")
            .await
            .refused(401, "unauthorized");
    }
    let lines = world.call("GET /api/v1/audit?limit=1000", "", "").await.json();
    let count = lines["items"].as_array().unwrap().len();
    assert!((60..=70).contains(&count), "{count}");
}

#[tokio::test]
async fn guessing_ids_is_as_slow_as_the_key() {
    let world = World::new().await;
    let limits = json!({"requests_per_minute": 6, "burst": 5});
    let (_, token) = make(
        &world,
        &world.token,
        json!({"name": "g", "tenant": "g", "scopes": ["run", "files"], "limits": limits}),
    )
    .await;
    let guesses = [
        "executions/exec_0123456789ab0000000000000000400080000000deadbeef",
        "sessions/sess_guess",
        "sandboxes/00000000-0000-4000-8000-000000000000",
        "executions/exec_0123456789ab0000000000000000400080000000deadbeee/stream",
        "sessions/sess_guess/files",
    ];
    for guess in guesses {
        let reply = world.json(&format!("GET /api/v1/{guess}"), &token, &json!({})).await;
        assert_eq!(reply.status, 404, "{guess}: {}", reply.text());
    }
    for guess in guesses {
        let reply = world.json(&format!("GET /api/v1/{guess}"), &token, &json!({})).await;
        assert_eq!(reply.status, 429, "{guess}: {}", reply.text());
        let wait: u64 = reply.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=10).contains(&wait), "{wait}");
    }
    let other = world.json("GET /api/v1/sessions/sess_guess", &world.token, &json!({})).await;
    assert_eq!(other.status, 404, "nobody else waits for it");
}
