//! HTTP/2 by clients that know its frames too well (AP-10): requests that are taken back at once, heads without an end.

use crate::world::World;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinSet;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PATIENCE: Duration = Duration::from_secs(20);

/// Kinds of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// "The peer does too much of this."
const ENHANCE_YOUR_CALM: u32 = 11;

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(body);
    bytes
}

/// `GET /health`, as the table of every client writes it.
fn head() -> Vec<u8> {
    let text = |index: u8, text: &str| [&[index, text.len() as u8], text.as_bytes()].concat();
    [vec![0x82, 0x86], text(4, "/health"), text(1, "localhost")].concat()
}

fn request(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &head())
}

/// A connection that has begun well.
async fn begin(world: &World) -> (OwnedReadHalf, OwnedWriteHalf) {
    let mut stream: TcpStream = world.connect().await;
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    stream.into_split()
}

/// The next frame: kind, flags, stream and body. Nothing when the connection has ended.
async fn next(read: &mut OwnedReadHalf) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    read.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut body = vec![0; length as usize];
    read.read_exact(&mut body).await.ok()?;
    Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), body))
}

/// Reads until the connection ends: what the server said it was for, and whether it did end.
async fn goodbye(mut read: OwnedReadHalf) -> Option<u32> {
    let mut reason = None;
    let all = async {
        while let Some((kind, _, _, body)) = next(&mut read).await {
            if kind == GOAWAY {
                reason = Some(u32::from_be_bytes(body[4..8].try_into().unwrap()));
            }
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("the connection does not end");
    reason
}

/// Writes this again and again, until nobody takes it; how many bytes were taken.
async fn flood(mut write: OwnedWriteHalf, most: usize, mut piece: impl FnMut(u32) -> Vec<u8>) -> usize {
    let mut sent = 0;
    for number in 0.. {
        let bytes = piece(number);
        let written = tokio::time::timeout(PATIENCE, write.write_all(&bytes)).await;
        if !matches!(written, Ok(Ok(()))) || sent >= most {
            break;
        }
        sent += bytes.len();
    }
    sent
}

/// Requests that are taken back as soon as they are made, a hundred at a time. Why the connection was ended.
async fn reset_rapidly(world: &World) -> Option<u32> {
    let (read, write) = begin(world).await;
    let piece = |number: u32| {
        let streams = (0..100).map(|each| (number * 100 + each) * 2 + 1);
        let cancel = 8_u32.to_be_bytes();
        streams.flat_map(|id| [request(id), frame(RST_STREAM, 0, id, &cancel)].concat()).collect()
    };
    let (reason, _) = tokio::join!(goodbye(read), flood(write, 64 << 20, piece));
    reason
}

/// A head that goes on and on in pieces of this size. Why the connection was ended, and how much of it was taken.
async fn continue_forever(world: &World, size: usize) -> (Option<u32>, usize) {
    let (read, write) = begin(world).await;
    // A header that is not indexed and has an empty name and value, over and over.
    let filler = frame(CONTINUATION, 0, 1, &[0, 1, b'x', 0].repeat(size / 4));
    let piece = |number: u32| match number {
        0 => frame(HEADERS, END_STREAM, 1, &head()),
        _ => filler.clone(),
    };
    tokio::join!(goodbye(read), flood(write, 256 << 20, piece))
}

#[tokio::test]
async fn a_client_that_speaks_frames_well_is_served() {
    let world = World::new().await;
    let (mut read, mut write) = begin(&world).await;
    write.write_all(&[request(1), frame(PING, 0, 0, &[7; 8]), request(3)].concat()).await.unwrap();
    let (mut answers, mut pong) = (Vec::new(), false);
    while answers.len() < 2 || !pong {
        let (kind, flags, stream, body) =
            tokio::time::timeout(PATIENCE, next(&mut read)).await.unwrap().expect("it was cut off");
        match kind {
            DATA if flags & END_STREAM != 0 => answers.push(stream),
            PING => pong = body == [7; 8],
            kind => assert_ne!(kind, GOAWAY),
        }
    }
    answers.sort_unstable();
    assert_eq!(answers, [1, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_taken_back_at_once_end_their_connection_and_nobody_else_waits() {
    let world = std::sync::Arc::new(World::new().await);
    let mut hostile = JoinSet::new();
    for _ in 0..8 {
        let world = world.clone();
        hostile.spawn(async move {
            let mut reasons = Vec::new();
            for _ in 0..5 {
                reasons.push(reset_rapidly(&world).await);
            }
            reasons
        });
    }
    let mut good = 0;
    while !hostile.is_empty() {
        let began = Instant::now();
        assert_eq!(world.send("GET /health", "", "").await.status, 200);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        good += 1;
        if good == 1 {
            continue;
        }
        tokio::select! {
            Some(reasons) = hostile.join_next() => {
                // A reset of the connection may overtake the word about it.
                for reason in reasons.unwrap() {
                    assert!(matches!(reason, Some(ENHANCE_YOUR_CALM) | None), "{reason:?}");
                }
            }
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
    }
    let reasons = [reset_rapidly(&world).await, reset_rapidly(&world).await, reset_rapidly(&world).await];
    assert!(reasons.contains(&Some(ENHANCE_YOUR_CALM)), "{reasons:?}");
    // The server hears of the end of a connection when it looks there next.
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let text = world.call("GET /metrics", "", "").await.text();
        if text.contains("active_connections{type=\"http\"} 1\n") {
            break;
        }
        assert!(Instant::now() < deadline, "a connection is left behind: {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_head_without_an_end_ends_its_connection() {
    let world = World::new().await;
    for size in [0, 4, 1024, 16_384] {
        let (reason, taken) = continue_forever(&world, size).await;
        assert!(matches!(reason, Some(ENHANCE_YOUR_CALM) | None), "pieces of {size}: {reason:?}");
        assert!(taken < 16 << 20, "pieces of {size}: {taken} bytes were taken");
        let began = Instant::now();
        assert_eq!(world.send("GET /health", "", "").await.status, 200);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
}
