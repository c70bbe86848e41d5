//! Clients that keep us waiting, and more of them than there is room for.

use crate::world::{World, hung_up, read};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

fn strict(options: &mut server::Options) {
    options.header_timeout = Duration::from_millis(600);
    options.body_timeout = Duration::from_millis(600);
    options.idle_timeout = Duration::from_millis(1500);
}

/// Sends a byte now and then, for as long as somebody listens.
async fn trickle(stream: &mut TcpStream, byte: &[u8]) {
    while stream.write_all(byte).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn slow_heads_are_cut_and_others_are_served_meanwhile() {
    let world = World::with(strict).await;
    let mut slow = tokio::task::JoinSet::new();
    for number in 0..200 {
        let mut stream = world.connect().await;
        slow.spawn(async move {
            // Some say nothing at all, some begin a word, some a head, and some of those go on, slowly.
            let begun = ["", "G", "PRI * HTTP/2", "GET /health HTTP/1.1\r\nX: "][number % 4];
            stream.write_all(begun.as_bytes()).await.unwrap();
            if number % 8 == 7 {
                let cut = tokio::time::timeout(Duration::from_secs(10), trickle(&mut stream, b"y")).await;
                return cut.is_ok();
            }
            hung_up(&mut stream, Duration::from_secs(10)).await.is_some()
        });
    }
    for _ in 0..10 {
        let began = Instant::now();
        assert_eq!(world.send("GET /health", "", "").await.status, 200);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
    let cut = slow.join_all().await.into_iter().filter(|cut| *cut).count();
    assert_eq!(cut, 200, "some may take forever");
}

#[tokio::test]
async fn whatever_a_client_begins_it_has_to_finish() {
    let world = World::with(strict).await;
    for begun in ["", "G", "PRI * HTTP/2", "GET /health HTTP/1.1\r\nX: y"] {
        let mut stream = world.connect().await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        let took = hung_up(&mut stream, Duration::from_secs(10)).await;
        let took = took.unwrap_or_else(|| panic!("{begun:?} was not cut"));
        assert!(took >= Duration::from_millis(400), "{begun:?}: {took:?}");
    }
    // One byte after the other does not help.
    let mut stream = world.connect().await;
    stream.write_all(b"GET /health HTTP/1.1\r\nX: ").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(10), trickle(&mut stream, b"y")).await;
    assert!(ended.is_ok(), "a head may take forever");
}

#[tokio::test]
async fn a_body_has_to_come() {
    let world = World::with(strict).await;
    let head = format!(
        "POST /api/v1/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n",
        world.token
    );
    let mut stream = world.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    read(&mut stream).await.refused(408, "body_timeout");

    let mut stream = world.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let drip = tokio::spawn(async move {
        while writing.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut said = Vec::new();
    let heard = tokio::io::AsyncReadExt::read_to_end(&mut reading, &mut said);
    let _ = tokio::time::timeout(Duration::from_secs(10), heard).await.expect("a body may take forever");
    assert!(
        String::from_utf8_lossy(&said).starts_with("HTTP/1.1 408 "),
        "{}",
        String::from_utf8_lossy(&said)
    );
    drip.abort();
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_does_not_lie_idle_forever() {
    let world = World::with(strict).await;
    let mut stream = world.connect().await;
    for _ in 0..3 {
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        assert_eq!(read(&mut stream).await.status, 200);
        // Longer than a head may take: a pause is no head.
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
    let took = hung_up(&mut stream, Duration::from_secs(10)).await.expect("it may lie idle forever");
    assert!(took >= Duration::from_millis(300), "{took:?}");
}

#[tokio::test]
async fn there_is_room_for_so_many_and_others_are_told() {
    let world = World::with(|options| options.max_connections = 3).await;
    let mut inside = Vec::new();
    for _ in 0..3 {
        let mut stream = world.connect().await;
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        assert_eq!(read(&mut stream).await.status, 200);
        inside.push(stream);
    }
    let outside = world.send("GET /health", "", "").await;
    assert_eq!((outside.status, outside.header("retry-after")), (503, Some("1")));
    assert_eq!(outside.json()["code"], "too_many_connections");
    drop(inside);
    for _ in 0..50 {
        if world.send("GET /health", "", "").await.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("those who have left still take up room");
}

#[tokio::test]
async fn http_2_is_spoken_to_those_who_begin_with_it() {
    let world = World::new().await;
    let mut stream = world.connect().await;
    // The preface, an empty SETTINGS frame, and HEADERS for `GET /health` with the name of the host.
    let mut block = vec![0x82, 0x86, 0x04, 7];
    block.extend(b"/health");
    block.extend([0x01, 9]);
    block.extend(b"localhost");
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    bytes.extend([0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]);
    bytes.extend(block);
    stream.write_all(&bytes).await.unwrap();
    let mut heard = Vec::new();
    let wanted = b"uptime";
    let answer = async {
        while !heard.windows(wanted.len()).any(|part| part == wanted) {
            let read = tokio::io::AsyncReadExt::read_buf(&mut stream, &mut heard).await.unwrap();
            assert!(read > 0, "it hung up: {}", String::from_utf8_lossy(&heard));
        }
    };
    tokio::time::timeout(Duration::from_secs(5), answer).await.expect("no answer");
}
