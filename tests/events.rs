//! Events of a real server: listed, streamed and sent while programs run, and after `kill -9`.
#![cfg(test)]

#[path = "rest/client.rs"]
mod client;
#[path = "events/secure.rs"]
mod secure;
mod support;

use client::{Served, chunk, head};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use support::Sandboxd;

const PATIENCE: Duration = Duration::from_secs(20);

fn python(code: &str) -> Value {
    json!({"language": "python", "code": code})
}

/// Somebody who is told: its address, and the bodies it got.
fn receiver() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, got) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let body = received(stream.unwrap()).unwrap();
            if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (url, got)
}

/// Takes one event, and says so.
fn received(stream: impl Read + Write) -> std::io::Result<Vec<u8>> {
    let (mut reader, mut length) = (BufReader::new(stream), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let answer = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
    reader.get_mut().write_all(answer.as_bytes())?;
    reader.get_mut().flush()?;
    Ok(body)
}

fn words(event: &Value) -> String {
    format!("{} {}", event["kind"].as_str().unwrap(), event["data"]["status"].as_str().unwrap_or("-"))
}

fn listed(served: &Served, after: u64) -> Vec<Value> {
    let page = served.get(&format!("/api/v1/events?after={after}&limit=1000")).is(200);
    page["items"].as_array().unwrap().clone()
}

#[test]
fn what_happens_is_listed_streamed_and_sent() {
    let who = Sandboxd::caller();
    let set = ["--set", "webhooks.allow_private=true"];
    let served = Served::start(&who, &set);
    let (url, got) = receiver();
    let wanted = json!({"url": url, "kinds": ["session.*", "execution.*"]});
    let hook = served.post("/api/v1/webhooks", &wanted).is(201);
    let begin = listed(&served, 0).last().unwrap()["id"].as_u64().unwrap();

    let accept = [("accept", "text/event-stream")];
    let mut stream =
        served.open(&served.token, "GET", "/api/v1/events?kinds=session.*,execution.*", &accept, b"");
    assert_eq!(head(&mut stream).0, 200);
    served.post("/api/v1/execute", &python("print('hunter2')")).is(200);
    let patience = Instant::now() + PATIENCE;
    while listed(&served, begin).is_empty() {
        assert!(Instant::now() < patience, "what is answered at once is told soon");
        std::thread::sleep(Duration::from_millis(2));
    }
    let later = [("content-type", "application/json"), ("prefer", "respond-async")];
    let body = python("import time; time.sleep(.1); raise SystemExit('hunter2')").to_string();
    let accepted = served.send("POST", "/api/v1/execute", &later, body.as_bytes()).is(202);
    let id = accepted["execution_id"].as_str().or(accepted["id"].as_str()).unwrap().to_owned();
    while served.get(&format!("/api/v1/executions/{id}")).is(200)["status"] != "failed" {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(20));
    }
    served.post("/api/v1/sessions", &json!({"id": "demo"})).is(201);
    served.post("/api/v1/sessions/demo/pause", &Value::Null).is(200);
    served.post("/api/v1/sessions/demo/resume", &Value::Null).is(200);
    assert!(served.delete("/api/v1/sessions/demo").status < 300);
    let expected = [
        "execution.finished completed",
        "execution.submitted pending",
        "execution.started running",
        "execution.finished failed",
        "session.created creating",
        "session.status ready",
        "session.status paused",
        "session.status ready",
        "session.status terminated",
        "session.deleted -",
    ];
    let mut streamed = String::new();
    while !streamed.contains("session.deleted") {
        streamed += &String::from_utf8(chunk(&mut stream).expect("the stream goes on")).unwrap();
    }
    let data = streamed.lines().filter_map(|line| line.strip_prefix("data: "));
    let streamed: Vec<Value> = data.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(streamed.iter().map(words).collect::<Vec<_>>(), expected);
    let sent: Vec<Value> = expected.iter().map(|_| got.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(sent, streamed);
    assert_eq!(listed(&served, begin), streamed);
    assert!(!json!(streamed).to_string().contains("hunter2"), "neither code nor output");

    // What was told stays told, and what is told next comes behind it, exactly once.
    let (state, folder) = served.kill();
    let served = Served::on(&who, state, &set);
    assert_eq!(listed(&served, begin), streamed);
    served.post("/api/v1/execute", &python("1")).is(200);
    let next = got.recv_timeout(PATIENCE).unwrap();
    assert_eq!(words(&next), "execution.finished completed");
    assert!(next["id"].as_u64() > streamed.last().unwrap()["id"].as_u64());
    let path = format!("/api/v1/webhooks/{}", hook["id"].as_str().unwrap());
    assert_eq!(served.get(&path).is(200)["status"], "active");
    served.stop();
    drop(folder);
}

#[test]
fn settings_of_events_and_webhooks_have_effect() {
    let who = Sandboxd::caller();
    let silent = Served::start(&who, &["--set", "events.enabled=false"]);
    silent.post("/api/v1/sessions", &json!({"id": "demo"})).is(201);
    assert!(listed(&silent, 0).is_empty());
    let private = json!({"url": "http://127.0.0.1:1/"});
    assert_eq!(silent.post("/api/v1/webhooks", &private).is(422)["field"], "url");
    silent.stop();

    let more = [
        "--set",
        "webhooks.allow_private=true",
        "--set",
        "webhooks.attempts=2",
        "--set",
        "webhooks.retry_base=10ms",
        "--set",
        "webhooks.retry_max=20ms",
        "--set",
        "webhooks.timeout=200ms",
    ];
    let served = Served::start(&who, &more);
    // It takes connections and never answers.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let wanted = json!({"url": format!("http://{}/", deaf.local_addr().unwrap())});
    let hook = served.post("/api/v1/webhooks", &wanted).is(201);
    let path = format!("/api/v1/webhooks/{}", hook["id"].as_str().unwrap());
    served.post("/api/v1/sessions", &json!({"id": "demo"})).is(201);
    let began = Instant::now();
    loop {
        let now = served.get(&path).is(200);
        if now["status"] == "failing" {
            assert_eq!(now["failures"], 2);
            assert!(now["last_error"].as_str().unwrap().starts_with("no answer in time"), "{now}");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{now}");
        std::thread::sleep(Duration::from_millis(20));
    }
    served.stop();
}
