//! How a server ends, and that there is one for each directory.

use crate::world::{World, hung_up, open_store, options, plane, read};
use server::{Server, ServerError};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

fn half_a_request(world: &World) -> (String, &'static str) {
    let body = r#"{"name":"n","scopes":["run"]}"#;
    let head = format!(
        "POST /api/v1/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        world.token,
        body.len()
    );
    (head, body)
}

#[tokio::test]
async fn requests_in_flight_are_answered_and_nobody_new_is_let_in() {
    let mut world = World::new().await;
    let (head, body) = half_a_request(&world);
    let (mut busy, mut idle) = (world.connect().await, world.connect().await);
    busy.write_all(head.as_bytes()).await.unwrap();
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(read(&mut idle).await.status, 200);
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.tell();
    assert!(hung_up(&mut idle, Duration::from_secs(5)).await.is_some(), "who has nothing to do may go");
    for _ in 0..100 {
        match TcpStream::connect(world.address).await {
            Err(_) => break,
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    assert!(TcpStream::connect(world.address).await.is_err(), "somebody was let in");
    busy.write_all(body.as_bytes()).await.unwrap();
    let reply = read(&mut busy).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(reply.header("connection"), Some("close"));
    world.end().await;
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut() {
    let world = World::with(|options| options.shutdown_grace = Duration::from_millis(300)).await;
    let (head, _) = half_a_request(&world);
    let mut busy = world.connect().await;
    busy.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    world.end().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(hung_up(&mut busy, Duration::from_secs(1)).await.is_some());
}

#[tokio::test]
async fn a_directory_has_one_server() {
    let world = World::new().await;
    let state = world.state();
    let refused = Server::bind(options(&state), plane(open_store(&state).await).await).await.err().unwrap();
    assert!(matches!(refused, ServerError::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains(&std::process::id().to_string()), "{refused}");
    assert_eq!(world.send("GET /health", "", "").await.status, 200);
    let directory = world.end().await;
    World::in_directory(directory, |_| {}).await.end().await;
}
