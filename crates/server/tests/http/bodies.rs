//! Bodies: too long, too deep, not what they say.

use crate::world::World;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;

const JSON: &str = "Content-Type: application/json\r\n";

#[tokio::test]
async fn malformed_json_is_refused_quickly_and_says_what_is_wrong() {
    let world = World::new().await;
    let keys: String = (0..1_000_000).map(|i| format!("\"k{i}\":0,")).collect();
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("deep", "[".repeat(1_000_000).into()),
        ("deep objects", "{\"a\":".repeat(100_000).into()),
        ("many keys", format!("{{{keys}\"x\":0}}").into()),
        ("twice", br#"{"name":"a","name":"b","scopes":["run"]}"#.to_vec()),
        ("twice, escaped", br#"{"name":"a","n\u0061me":"b","scopes":["run"]}"#.to_vec()),
        ("number", br#"{"name":"a","scopes":["run"],"limits":{"burst":1e400}}"#.to_vec()),
        ("mark", b"\xef\xbb\xbf{\"name\":\"a\",\"scopes\":[\"run\"]}".to_vec()),
        ("utf-16", "{\"name\":\"a\"}".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("not utf-8", b"{\"name\":\"\xff\",\"scopes\":[\"run\"]}".to_vec()),
        ("behind it", br#"{"name":"a","scopes":["run"]} {}"#.to_vec()),
        ("open", br#"{"name":"a"#.to_vec()),
        ("no json", b"name=a".to_vec()),
    ];
    for (what, body) in bodies {
        let head = format!(
            "POST /api/v1/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{JSON}Content-Length: {}\r\n\r\n",
            world.token,
            body.len()
        );
        let began = Instant::now();
        let reply = world.raw(&[head.as_bytes(), &body].concat()).await;
        reply.refused(400, "invalid_json");
        // A debug build on a busy machine; what it guards against takes minutes or ends the process.
        assert!(began.elapsed() < Duration::from_secs(5), "{what}: {:?}", began.elapsed());
    }
    assert_eq!(world.send("GET /health", "", "").await.status, 200);
}

#[tokio::test]
async fn wrong_fields_are_named() {
    let world = World::new().await;
    for (body, field) in [
        (r#"{"scopes":["run"]}"#, "name"),
        (r#"{"name":"a","scopes":["fly"]}"#, "scopes[0]"),
        (r#"{"name":"a","scopes":[]}"#, "scopes"),
        (r#"{"name":"a","scopes":["run"],"admin":true}"#, "admin"),
        (r#"{"name":"a","scopes":["run"],"limits":{"burst":-1}}"#, "limits.burst"),
        (r#"{"name":"a","scopes":["run"],"limits":{"burst":0}}"#, "limits.burst"),
        (r#"{"name":"a","scopes":["run"],"limits":{"concurrency":4294967296}}"#, "limits.concurrency"),
        (r#"{"name":"a","scopes":["run"],"tenant":"../x"}"#, "tenant"),
        (r#"{"name":"a","scopes":["run"],"expires_at":"2001-01-01T00:00:00Z"}"#, "expires_at"),
        (r#"{"name":"a","scopes":["run"],"expires_at":"soon"}"#, "expires_at"),
        (r#"{"name":"\n","scopes":["run"]}"#, "name"),
    ] {
        let said = world.call("POST /api/v1/keys", JSON, body).await.refused(422, "invalid_field");
        assert_eq!(said["field"], field, "{body}: {said}");
    }
    world.call("GET /api/v1/keys?limit=0", "", "").await.refused(422, "invalid_field");
    world.call("GET /api/v1/keys?limit=x", "", "").await.refused(422, "invalid_query");
    world.call("GET /api/v1/keys?lmit=1", "", "").await.refused(422, "invalid_query");
}

#[tokio::test]
async fn a_body_is_taken_up_to_the_bound_whatever_it_says() {
    let world = World::with(|options| {
        options.max_body = 64 * 1024;
        options.max_json = 32 * 1024;
    })
    .await;
    let said = "Content-Type: application/json\r\nContent-Length: 10737418240\r\n";
    world.call("POST /api/v1/keys", said, "").await.refused(413, "payload_too_large");

    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(40_000));
    world.call("POST /api/v1/keys", JSON, &long).await.refused(413, "payload_too_large");

    // Pieces without an end: it is over long before ten gigabytes.
    let mut stream = world.connect().await;
    let head = format!(
        "POST /api/v1/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n",
        world.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
    let mut sent = 0;
    while sent < 10_000 && stream.write_all(piece.as_bytes()).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 10_000, "163 MB were taken");
    let reply = world.call("POST /workspace/se/create/x", said, "").await;
    assert_eq!(
        (reply.status, reply.json()["detail"]["error_code"].as_str()),
        (413, Some("Sandbox.InvalidParameter"))
    );
}

#[tokio::test]
async fn ids_are_plain_or_refused() {
    let world = World::new().await;
    let long = "x".repeat(10_000);
    for id in
        ["..%2fx", "%2e%2e", "a%2fb", "a%00", "%00", "%c3%a4", "%ff", "a.b", "-a", "a%20b", "a%0d%0ab", &long]
    {
        for method in ["GET", "DELETE"] {
            let reply = world.call(&format!("{method} /api/v1/keys/{id}"), "", "").await;
            reply.refused(400, "invalid_id");
        }
    }
    assert_eq!(world.call("GET /api/v1/keys/../keys", "", "").await.status, 404);
    world.call("GET /api/v1/keys/nobody", "", "").await.refused(404, "api_key_not_found");
}
