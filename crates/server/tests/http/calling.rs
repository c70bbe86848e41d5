//! By which name we are called, from which pages, and with which words.

use crate::world::World;

#[tokio::test]
async fn a_name_that_is_not_ours_gets_no_answer() {
    let world = World::with(|options| options.allowed_hosts = vec!["sandbox.example.org".into()]).await;
    let port = world.address.port();
    let get = |host: &str| format!("GET /health HTTP/1.1\r\n{host}\r\n");
    for host in ["evil.test", "localhost.evil.test", "127.0.0.1.evil.test", "evil.test:80", "127.0.0.2"] {
        let reply = world.raw(get(&format!("Host: {host}\r\n")).as_bytes()).await;
        reply.refused(421, "unknown_host");
    }
    for host in
        ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:9", "sandbox.example.org", "sandbox.example.org:443"]
    {
        let reply = world.raw(get(&format!("Host: {host}\r\n")).as_bytes()).await;
        assert_eq!(reply.status, 200, "{host}");
    }
    for head in [
        "Host: localhost\r\nHost: localhost\r\n",
        "Host: localhost\r\nHost: evil.test\r\n",
        "",
        "Host: a@localhost\r\n",
        "Host: local host\r\n",
        "Host: \r\n",
    ] {
        assert_eq!(world.raw(get(head).as_bytes()).await.status, 400, "{head:?}");
    }
    let absolute = |to: &str, host: &str| format!("GET http://{to}/health HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let ours = format!("localhost:{port}");
    assert_eq!(world.raw(absolute(&ours, &ours).as_bytes()).await.status, 200);
    assert_eq!(world.raw(absolute("evil.test", &ours).as_bytes()).await.status, 400);
    assert_eq!(world.raw(absolute(&ours, "evil.test").as_bytes()).await.status, 400);
    assert_eq!(world.raw(absolute("evil.test", "evil.test").as_bytes()).await.status, 421);
}

#[tokio::test]
async fn pages_of_others_do_not_get_to_call_us() {
    let world = World::new().await;
    for origin in ["https://evil.test", "null", "http://localhost", "http://127.0.0.1:1", "file://", ""] {
        for line in ["GET /health", "POST /api/v1/keys", "OPTIONS /api/v1/keys", "GET /docs", "GET /nothing"]
        {
            let headers = format!("Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\n");
            let reply = world.call(line, &headers, "").await;
            reply.refused(403, "origin_refused");
            assert!(reply.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{reply:?}");
        }
    }
    let own = format!("Origin: http://{}\r\n", world.address);
    assert_eq!(world.call("GET /api/v1/keys", &own, "").await.status, 200);
    let twice = format!("{own}Origin: https://evil.test\r\n");
    world.call("GET /api/v1/keys", &twice, "").await.refused(403, "origin_refused");
    let silent = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n";
    world.call("GET /api/v1/keys", silent, "").await.refused(403, "origin_refused");
}

#[tokio::test]
async fn pages_that_were_allowed_are_told_so() {
    let world =
        World::with(|options| options.allowed_origins = vec!["https://console.example.org".into()]).await;
    let from = "Origin: https://console.example.org\r\n";
    let asks = format!("{from}Access-Control-Request-Method: POST\r\n");
    let preflight = world.send("OPTIONS /api/v1/keys", &asks, "").await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://console.example.org"));
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("Authorization"));
    assert_eq!(preflight.header("access-control-allow-credentials"), None);
    let reply = world.call("GET /api/v1/keys", from, "").await;
    assert_eq!((reply.status, reply.header("vary")), (200, Some("Origin")));
    let other = "Origin: https://console.example.org.evil.test\r\n";
    world.call("GET /api/v1/keys", other, "").await.refused(403, "origin_refused");
}

#[tokio::test]
async fn bodies_that_a_page_can_send_without_asking_are_refused() {
    let world = World::new().await;
    let body = r#"{"name":"n","scopes":["run"]}"#;
    for kind in [
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n",
        "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
        "Content-Type: application/jsonx\r\n",
        "Content-Type: application/json; charset=utf-16\r\n",
        "",
    ] {
        world.call("POST /api/v1/keys", kind, body).await.refused(415, "unsupported_media_type");
    }
    for packed in ["gzip", "zstd", "br", "deflate"] {
        let headers = format!("Content-Type: application/json\r\nContent-Encoding: {packed}\r\n");
        world.call("POST /api/v1/keys", &headers, body).await.refused(415, "unsupported_media_type");
    }
    let plain = "Content-Type: application/json; charset=utf-8\r\nContent-Encoding: identity\r\n";
    assert_eq!(world.call("POST /api/v1/keys", plain, body).await.status, 201);
}

#[tokio::test]
async fn every_refusal_is_in_the_words_of_the_api_that_was_asked() {
    let world = World::new().await;
    world.call("GET /nothing", "", "").await.refused(404, "route_not_found");
    let wrong = world.call("PATCH /api/v1/keys", "", "").await;
    wrong.refused(405, "method_not_allowed");
    let allow = wrong.header("allow").unwrap();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");

    let envelope = world.call("GET /api/v1/sandboxes/x/files", "", "").await;
    assert_eq!((envelope.status, envelope.header("content-type")), (404, Some("application/json")));
    let error = &envelope.json()["error"];
    assert_eq!(
        (&error["code"], error["request_id"].as_str()),
        (&404.into(), envelope.header("x-request-id"))
    );

    let detail = world.call("POST /workspace/se/execute/x", "Content-Type: text/plain\r\n", "x").await;
    assert_eq!((detail.status, detail.header("content-type")), (415, Some("application/json")));
    assert_eq!(detail.json()["detail"]["error_code"], "Sandbox.InvalidParameter");
    let host = world.raw(b"GET /workspace/se/healthy HTTP/1.1\r\nHost: evil.test\r\n\r\n").await;
    assert_eq!(host.status, 421);
    assert!(host.json()["detail"]["solution"].as_str().unwrap().contains("allowed_hosts"));
}

#[tokio::test]
async fn a_request_has_a_name() {
    let world = World::new().await;
    let reply = world.send("GET /health", "X-Request-ID: my-id_1.2\r\n", "").await;
    assert_eq!(reply.header("x-request-id"), Some("my-id_1.2"));
    for odd in ["a b", "a\tb", &"x".repeat(129), "ä", "a\"b", "<script>"] {
        let made = world.send("GET /health", &format!("X-Request-ID: {odd}\r\n"), "").await;
        let id = made.header("x-request-id").unwrap();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    }
    assert!(world.call("GET /nothing", "", "").await.header("x-request-id").is_some());
}

#[tokio::test]
async fn heads_that_are_too_much_are_refused_and_the_next_client_is_served() {
    let world = World::new().await;
    let many: String = (0..10_000).map(|i| format!("X-{i}: y\r\n")).collect();
    let large = format!("X-Large: {}\r\n", "y".repeat(1 << 20));
    for head in [many, large] {
        let reply = world.send("GET /health", &head, "").await;
        assert!(matches!(reply.status, 431 | 400 | 0), "{}", reply.status);
    }
    for odd in ["X: a\r\n b\r\n", "X : a\r\n", "X\0: a\r\n", ": a\r\n"] {
        let reply = world.send("GET /health", odd, "").await;
        assert_eq!(reply.status, 400, "{odd:?}");
    }
    let length = world.send("GET /health", "Content-Length: 5\r\nContent-Length: 6\r\n", "").await;
    assert_eq!(length.status, 400);
    assert_eq!(world.send("GET /health", "", "").await.status, 200);
}

#[tokio::test]
async fn a_second_request_does_not_hide_in_the_first() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let world = World::new().await;
    let mut stream = world.connect().await;
    let hidden = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let text = format!(
        "POST /api/v1/keys HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        hidden.len() + 5
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answers = String::new();
    let ended = stream.read_to_string(&mut answers);
    let _ = tokio::time::timeout(std::time::Duration::from_secs(5), ended).await.expect("it is not closed");
    assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{answers}");
    assert!(!answers.contains("uptime"), "{answers}");
}
