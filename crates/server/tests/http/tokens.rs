//! Who gets in.

use crate::world::{World, open_store, options, plane};
use server::{Secret, Server, ServerError};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn nobody_gets_in_without_a_token_that_works() {
    let world = World::new().await;
    let none = world.send("GET /api/v1/keys", "", "").await;
    none.refused(401, "unauthorized");
    assert!(none.header("www-authenticate").unwrap().starts_with("Bearer"));
    let token = world.token.clone();
    let shorter = &token[..token.len() - 1];
    let longer = format!("{token}a");
    let other = format!("sbx_{}_{}", "a".repeat(26), "b".repeat(52));
    for wrong in [shorter, &longer, &other, "x", &token.to_uppercase(), &"x".repeat(8000)] {
        let headers = format!("Authorization: Bearer {wrong}\r\n");
        world.send("GET /api/v1/keys", &headers, "").await.refused(401, "unauthorized");
    }
    let basic = format!("Authorization: Basic {token}\r\n");
    world.send("GET /api/v1/keys", &basic, "").await.refused(401, "unauthorized");
    assert_eq!(world.call("GET /api/v1/keys", "", "").await.status, 200);
    let header = format!("X-API-Key: {token}\r\n");
    assert_eq!(world.send("GET /api/v1/keys", &header, "").await.status, 200);
}

#[tokio::test]
async fn a_token_in_the_url_is_refused_even_a_right_one() {
    let world = World::new().await;
    for name in ["token", "access_token", "api_key"] {
        let line = format!("GET /api/v1/keys?{name}={}", world.token);
        let said = world.send(&line, "", "").await.refused(400, "token_in_query");
        assert!(said["hint"].as_str().unwrap().contains("Authorization"));
        world.call(&line, "", "").await.refused(400, "token_in_query");
    }
}

#[tokio::test]
async fn guessing_is_slowed_down_and_does_not_lock_out_those_who_know() {
    let world = World::with(|options| options.wrong_tokens_per_minute = 5).await;
    let guess = "Authorization: Bearer sbx_aaaa_bbbb\r\n";
    let mut statuses = Vec::new();
    for _ in 0..12 {
        statuses.push(world.send("GET /api/v1/keys", guess, "").await.status);
    }
    assert_eq!(statuses[0], 401);
    assert_eq!(statuses[11], 429, "{statuses:?}");
    let limited = world.send("GET /api/v1/keys", guess, "").await;
    let said = limited.refused(429, "too_many_wrong_tokens");
    assert_eq!(limited.header("retry-after"), said["retry_after"].as_u64().map(|n| n.to_string()).as_deref());
    assert_eq!(world.call("GET /api/v1/keys", "", "").await.status, 200);
}

#[tokio::test]
async fn the_token_is_made_once_for_us_alone_and_outlives_the_server() {
    let world = World::new().await;
    let path = world.state().join("token");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(world.state()).unwrap().permissions().mode() & 0o777, 0o700);
    let token = world.token.clone();
    assert!(token.starts_with("sbx_"));
    let directory = world.end().await;
    let again = World::in_directory(directory, |_| {}).await;
    assert_eq!(again.token, token);
    assert_eq!(again.call("GET /api/v1/keys", "", "").await.status, 200);
}

#[tokio::test]
async fn other_machines_are_let_in_only_by_somebody_who_said_so_twice() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let store = open_store(&state).await;
    let token = || Some(Secret::new("a token of my own, or nearly".replace(' ', "-")));
    for (allow_remote, token) in [(false, None), (true, None), (false, token())] {
        let mut options = options(&state);
        options.address = SocketAddr::from(([0, 0, 0, 0], 0));
        (options.allow_remote, options.token) = (allow_remote, token);
        let refused = Server::bind(options, plane(store.clone()).await).await.err().unwrap();
        assert!(matches!(refused, ServerError::Remote { .. }), "{refused}");
        assert!(refused.hint().is_some_and(|hint| hint.contains("token")));
    }
    let mut options = options(&state);
    options.address = SocketAddr::from(([0, 0, 0, 0], 0));
    (options.allow_remote, options.token) = (true, token());
    Server::bind(options, plane(store.clone()).await).await.unwrap();
    assert!(server::Options::default().address.ip().is_loopback());
}

#[tokio::test]
async fn a_token_that_could_be_guessed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let store = open_store(&state).await;
    for weak in ["", "secret", "has spaces in it all over"] {
        let mut options = options(&state);
        options.token = Some(Secret::new(weak));
        let refused = Server::bind(options, plane(store.clone()).await).await.err().unwrap();
        assert!(matches!(refused, ServerError::Token(_)), "{refused}");
    }
}

#[tokio::test]
async fn a_socket_in_the_file_system_is_for_us_alone() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let path = folder.path().join("door.sock");
    // One that nobody listens on any more is in nobody's way.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut options = options(&state);
    options.unix_socket = Some(path.clone());
    let server = Server::bind(options.clone(), plane(open_store(&state).await).await).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (stop, told) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(server.run(told));
    let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    stop.send(()).unwrap();
    task.await.unwrap().unwrap();
    assert!(!path.exists());
    // A file is not taken for one.
    std::fs::write(&path, "mine").unwrap();
    let refused = Server::bind(options, plane(open_store(&state).await).await).await.err().unwrap();
    assert!(matches!(refused, ServerError::Bind { .. }), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}
