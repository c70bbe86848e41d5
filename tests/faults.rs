//! What is left when a server is killed at any moment: every answer that was given, nothing that runs, nothing twice.
#![cfg(test)]

#[path = "rest/client.rs"]
mod client;
mod support;

use client::Served;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};
use support::{Sandboxd, host};

const KILLS: usize = 100;
const CLIENTS: usize = 4;

/// Where the server is at the moment, if it is.
type Place = RwLock<Option<(SocketAddr, String)>>;

/// Asks once. Nothing when there is nobody, or nobody who answers to the end.
fn ask(place: &Place, key: &str, body: &str) -> Option<Value> {
    let (address, token) = place.read().unwrap().clone()?;
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let head = format!(
        "POST /api/v1/execute HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\nidempotency-key: {key}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return None;
    }
    serde_json::from_str(body).ok()
}

fn job(nonce: usize) -> String {
    json!({"language": "python", "code": format!("import uuid; print('nonce-{nonce}', uuid.uuid4())")})
        .to_string()
}

#[test]
fn nothing_answered_is_lost_and_nothing_is_done_twice_however_often_the_server_is_killed() {
    for who in Sandboxd::everybody() {
        kill_it_often(&who);
    }
}

fn kill_it_often(who: &Sandboxd) {
    let folder = who.folder();
    let state = folder.path().join("state");
    let (place, over, next) = (Place::default(), AtomicBool::new(false), AtomicUsize::new(0));
    let answered = Mutex::new(HashMap::new());
    let began = Instant::now();
    let kills = if who.is_root() { KILLS } else { KILLS / 4 };
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    let nonce = next.fetch_add(1, Relaxed);
                    let (key, body) = (format!("key-{nonce}"), job(nonce));
                    // The same request until somebody answers it, as an honest client does.
                    let answer = loop {
                        match ask(&place, &key, &body) {
                            Some(answer) => break answer,
                            None if over.load(Relaxed) => return,
                            None => std::thread::sleep(Duration::from_millis(5)),
                        }
                    };
                    answered.lock().unwrap().insert(nonce, answer);
                }
            });
        }
        let mut random = 12_345_u64;
        for _ in 0..kills {
            let served = Served::on(who, state.clone(), &[]);
            *place.write().unwrap() = Some((served.address, served.token.clone()));
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_millis(20 + (random >> 33) % 300));
            let below = host::descendants(served.running.as_ref().unwrap().pid());
            *place.write().unwrap() = None;
            served.kill();
            let patience = Instant::now() + Duration::from_secs(5);
            let lives = |pid: &u32| host::status(*pid, "State").is_some_and(|state| !state.starts_with('Z'));
            while below.iter().any(lives) {
                assert!(Instant::now() < patience, "what it ran outlives the server");
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        over.store(true, Relaxed);
    });
    let answered = answered.into_inner().unwrap();

    let served = Served::on(who, state.clone(), &[]);
    *place.write().unwrap() = Some((served.address, served.token.clone()));
    let mut interrupted = 0;
    for (nonce, first) in &answered {
        let again = ask(&place, &format!("key-{nonce}"), &job(*nonce))
            .unwrap_or_else(|| panic!("nonce {nonce} is lost"));
        assert_eq!(*first, again, "nonce {nonce} has two results");
        match first["status"].as_str() {
            Some("success") => {
                let said = first["stdout"].as_str().unwrap();
                assert!(said.starts_with(&format!("nonce-{nonce} ")), "somebody else's result: {said}");
            }
            Some("infra_error") => interrupted += 1,
            other => panic!("nonce {nonce}: {other:?}: {first}"),
        }
    }
    // One execution for each request, whatever became of it, and none that was begun twice.
    let (mut seen, mut after) = (HashMap::new(), String::new());
    loop {
        let page = served.get(&format!("/api/v1/executions?limit=200{after}")).is(200);
        for execution in page["items"].as_array().unwrap() {
            let code = execution["code"].as_str().unwrap().to_owned();
            if let Some(other) = seen.insert(code.clone(), execution["id"].clone()) {
                panic!("`{code}` is there twice: {other} and {}", execution["id"]);
            }
            assert_eq!(execution["retry_count"], 0, "{execution}");
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&cursor={next}"),
            None => break,
        }
    }
    assert!(answered.len() > kills, "only {} requests were answered", answered.len());
    served.stop();
    let left: Vec<_> = std::fs::read_dir(state.join("objects")).into_iter().flatten().flatten().collect();
    assert!(left.is_empty(), "left on disk: {left:?}");
    println!(
        "killed {kills} times as {}: {} answers given, 0 lost, 0 done twice, {interrupted} interrupted and said so, in {:.0} s",
        who.name(),
        answered.len(),
        began.elapsed().as_secs_f64()
    );
}
