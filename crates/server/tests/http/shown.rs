//! What the server shows of itself, and to whom.

use crate::world::World;
use serde_json::json;

#[tokio::test]
async fn without_a_token_there_is_nothing_to_learn_but_that_it_is_up() {
    let world = World::new().await;
    let state = world.state().display().to_string();
    for path in [
        "/",
        "/health",
        "/health/live",
        "/health/ready",
        "/api/v1/health",
        "/info",
        "/openapi.json",
        "/api/openapi.json",
        "/docs",
        "/api/docs",
    ] {
        let reply = world.send(&format!("GET {path}"), "", "").await;
        assert_eq!(reply.status, 200, "{path}");
        let text = format!("{:?} {}", reply.headers, reply.text());
        for secret in [state.as_str(), "executor", "/home", "/root", &world.token] {
            assert!(!text.contains(secret), "{path} says {secret}");
        }
    }
    for path in ["/metrics", "/health/detailed", "/api/v1/keys", "/api/v1/audit"] {
        world.send(&format!("GET {path}"), "", "").await.refused(401, "unauthorized");
    }
    world.send("GET /debug", "", "").await.refused(404, "route_not_found");
}

#[tokio::test]
async fn health_has_what_every_founding_api_had_in_it() {
    let world = World::new().await;
    let health = world.send("GET /health", "", "").await.json();
    assert_eq!(health["status"], "ok");
    assert!(health["uptime"].is_number() && health["timestamp"].is_string() && health["version"].is_string());
    let root = world.send("GET /", "", "").await.json();
    assert_eq!((&root["name"], &root["documentation"]["docs"]), (&json!("sandboxd"), &json!("/docs")));
    let info = world.send("GET /info", "", "").await.json();
    assert_eq!(info["config"]["cors_enabled"], false);
}

#[tokio::test]
async fn detailed_health_tries_everything_and_says_what_is_missing() {
    let world = World::new().await;
    let reply = world.call("GET /health/detailed", "", "").await;
    let found = reply.json();
    for part in ["database", "storage", "disk"] {
        assert!(found["dependencies"][part]["status"] != "unhealthy", "{found}");
    }
    // The engine of these tests has no executor.
    assert_eq!((reply.status, &found["status"]), (503, &json!("unhealthy")));
    assert!(found["dependencies"]["isolation"]["detail"].as_str().unwrap().contains("executor"));
    world.store.close().await;
    let found = world.call("GET /health/detailed", "", "").await.json();
    assert_eq!(found["dependencies"]["database"]["status"], "unhealthy");
}

#[tokio::test]
async fn ready_means_that_storage_answers() {
    let world = World::new().await;
    assert_eq!(world.send("GET /health/ready", "", "").await.status, 200);
    world.store.close().await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    world.send("GET /health/ready", "", "").await.refused(503, "unavailable");
    assert_eq!(world.send("GET /health/live", "", "").await.status, 200);
}

#[tokio::test]
async fn numbers_are_counted_by_pattern_and_not_by_what_clients_write() {
    let world = World::new().await;
    for path in ["/api/v1/keys/one", "/api/v1/keys/two", "/nothing/one", "/nothing/two"] {
        world.call(&format!("GET {path}"), "", "").await;
    }
    world.raw(b"BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let reply = world.call("GET /metrics", "", "").await;
    assert!(reply.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = reply.text();
    for line in [
        r#"http_requests_total{method="GET",endpoint="/api/v1/keys/{id}",status_code="404"} 2"#,
        r#"http_requests_total{method="GET",endpoint="unmatched",status_code="404"} 2"#,
        r#"http_requests_total{method="other",endpoint="/health",status_code="405"} 1"#,
        r#"http_request_duration_seconds_bucket{le="0.005",method="GET",endpoint="unmatched"}"#,
        "sandbox_isolation_grade ",
        "sandboxd_build_info{version=",
        "active_connections{type=\"http\"} 1",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let json = world.call("GET /metrics", "Accept: application/json\r\n", "").await.json();
    assert_eq!((&json["requests_total"], &json["errors_total"]), (&json!(6), &json!(5)));
    for name in [
        "average_duration_us",
        "active_connections",
        "websocket_connections",
        "bytes_served",
        "compression_ratio",
        "timestamp",
    ] {
        assert!(!json[name].is_null(), "{name}");
    }
    let prometheus = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5,application/json;q=0.1,*/*;q=0.1\r\n";
    assert!(world.call("GET /metrics", prometheus, "").await.text().ends_with("# EOF\n"));
}

#[tokio::test]
async fn numbers_can_be_for_everybody() {
    let world = World::with(|options| options.metrics_public = true).await;
    assert_eq!(world.send("GET /metrics", "", "").await.status, 200);
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let world = World::new().await;
    let page = world.send("GET /docs", "", "").await;
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let html = page.text();
    assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("<style"), "{html}");
    assert!(!html.contains("onclick") && !html.contains("style="), "{html}");
    for (path, kind) in [("/docs/docs.js", "text/javascript"), ("/docs/docs.css", "text/css")] {
        assert!(html.contains(path));
        let file = world.send(&format!("GET {path}"), "", "").await;
        assert!(file.status == 200 && file.header("content-type").unwrap().starts_with(kind));
        assert!(!file.text().contains("://"), "{path} points elsewhere");
    }
}

#[tokio::test]
async fn answers_tell_browsers_what_not_to_do() {
    let world = World::new().await;
    for line in ["GET /health", "GET /nothing", "GET /api/v1/keys"] {
        let reply = world.send(line, "", "").await;
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_eq!(reply.header("x-frame-options"), Some("DENY"));
        assert!(reply.header("content-security-policy").unwrap().contains("default-src 'none'"));
        assert_eq!(reply.header("server"), None);
    }
}

/// `SANDBOXD_UPDATE=1 cargo test -p sandboxd-server --test http description` writes it anew.
#[tokio::test]
async fn the_committed_description_is_that_of_the_server() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi/v1.json");
    let world = World::new().await;
    let now = world.send("GET /openapi.json", "", "").await.text();
    if std::env::var_os("SANDBOXD_UPDATE").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == now,
        "openapi/v1.json is stale: run `SANDBOXD_UPDATE=1 cargo test -p sandboxd-server --test http description`"
    );
    assert_eq!(now, world.send("GET /api/openapi.json", "", "").await.text());
    let document: serde_json::Value = serde_json::from_str(&now).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut names = std::collections::HashSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        assert!(!path.contains('*'), "{path}");
        for (method, operation) in item.as_object().unwrap() {
            assert!(
                names.insert(operation["operationId"].as_str().unwrap()),
                "{method} {path}: a name twice"
            );
            let summary = operation["summary"].as_str().unwrap_or("");
            assert!(!summary.is_empty() && !summary.ends_with('.'), "{method} {path}: {summary}");
        }
    }
}
