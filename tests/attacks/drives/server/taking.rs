//! What is asked for and taken: too much, too slowly, or in words that look like ours.

use super::{is_over, python, status, submit, verdict};
use crate::client::head;
use crate::seen::cut;
use crate::stage::Stage;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// What one connection may cost, at most.
const OF_A_CONNECTION: u64 = 24 << 20;

const FLOOD: &str = "\
import os
while True:
    os.write(1, b'x' * 65536)
";

/// Streams that nobody reads end with their programs, and cost what is bounded.
pub(super) fn readers_who_do_not_read(stage: &Stage) -> Result<(), String> {
    const MANY: u64 = 4;
    let served = stage.served();
    let token = &served.tenants[0];
    let before = served.resident();
    let headers = [("content-type", "application/json"), ("accept", "text/event-stream")];
    let program = json!({"language": "python", "code": FLOOD, "timeout": "1s"}).to_string();
    let mut readers = Vec::new();
    for _ in 0..MANY {
        let opened = served.open(token, "POST", "/api/v1/execute", &headers, program.as_bytes());
        readers.push(opened.map_err(|e| e.to_string())?);
    }
    let mut ids = Vec::new();
    for reader in &mut readers {
        let (code, headers) = head(reader);
        let id = headers.iter().find(|(name, _)| name == "x-execution-id").map(|(_, id)| id.clone());
        ids.push(id.ok_or_else(|| format!("answered with {code}, and no id"))?);
    }
    let (mut wrong, mut most) = (Vec::new(), 0);
    let deadline = Instant::now() + Duration::from_secs(6);
    loop {
        most = most.max(served.resident().saturating_sub(before));
        let left: Vec<String> =
            ids.iter().map(|id| status(&served, token, id)).filter(|now| !is_over(now)).collect();
        if left.is_empty() {
            break;
        }
        if Instant::now() > deadline {
            wrong.push(format!("{} of {MANY} go on beyond their time", left.len()));
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    if most > MANY * OF_A_CONNECTION {
        wrong.push(format!("{MANY} who do not read cost {} MiB", most >> 20));
    }
    verdict(wrong)
}

/// Messages without end, longer than allowed, and of no kind at all.
pub(super) fn floods_of_messages(stage: &Stage) -> Result<(), String> {
    const MANY: usize = 100_000;
    let served = stage.served();
    let token = &served.tenants[0];
    let before = served.resident();
    let sleeper = json!({"language": "python", "code": "import time; time.sleep(30)", "timeout": "3s"});
    let id = submit(&served, token, &sleeper);
    let upgrade = [
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let mut wrong = Vec::new();
    let open = || {
        let socket = served.open(token, "GET", &format!("/api/v1/executions/{id}/ws"), &upgrade, b"");
        let mut socket = socket.map_err(|e| e.to_string())?;
        match head(&mut socket).0 {
            101 => Ok(socket),
            other => Err(format!("answered with {other}")),
        }
    };
    // Masked with zeros, as a client's frames have to be.
    let text = br#"{"resize":[65535,65535]}"#;
    let mut frame = vec![0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
    frame.extend(text);
    let mut socket = open()?;
    let flood = frame.repeat(MANY);
    let began = Instant::now();
    if let Err(e) = socket.get_mut().write_all(&flood) {
        wrong.push(format!("it hung up in the middle of what is allowed: {e}"));
    }
    let took = began.elapsed();
    if took > Duration::from_secs(20) {
        wrong.push(format!("{MANY} words took {took:?}"));
    }
    let grown = served.resident().saturating_sub(before);
    if grown > OF_A_CONNECTION {
        wrong.push(format!("one who talks costs {} MiB", grown >> 20));
    }
    // One that says it is a gigabyte, one of a kind that does not exist, one that is not masked.
    for bad in [
        &[0x81, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0][..],
        &[0x8f, 0x80, 0, 0, 0, 0],
        &[0x81, 2, b'{', b'}'],
    ] {
        let mut socket = open()?;
        let _ = socket.get_mut().write_all(bad);
        let _ = socket.get_mut().set_read_timeout(Some(Duration::from_secs(2)));
        let mut rest = Vec::new();
        if socket.read_to_end(&mut rest).is_err() {
            wrong.push(format!("a frame {:02x?} is taken for one", &bad[..2]));
        }
    }
    served.post(token, &format!("/api/v1/executions/{id}/cancel"), &Value::Null).is(200);
    verdict(wrong)
}

/// What no request may have, whatever it is called.
pub(super) fn wishes_nobody_may_have(stage: &Stage) -> Result<(), String> {
    let served = stage.served();
    let token = &served.tenants[0];
    let mut wrong = Vec::new();
    let wishes = [
        json!({"privileged": true}),
        json!({"network": "host"}),
        json!({"mounts": [{"source": "/", "target": "/host"}]}),
        json!({"volumes": ["/:/host"]}),
        json!({"image": "../../x"}),
        json!({"runtime": "process"}),
        json!({"isolation": {"allow_weaker": ["cgroup"]}}),
        json!({"profile": "debug"}),
        json!({"user": 0}),
        json!({"devices": ["/dev/mem"]}),
        json!({"capabilities": ["all"]}),
        json!({"limits": {"memory": "100000G"}}),
        json!({"limits": {"timeout": "100h"}}),
        json!({"limits": {"cpus": 100_000}}),
        json!({"limits": {"pids": 4_000_000_000u64}}),
        json!({"limits": {"output": "1000G"}}),
        json!({"limits": {"open_files": 1_000_000_000}}),
    ];
    for wish in wishes {
        for path in ["/api/v1/execute", "/api/v1/sessions"] {
            let mut body =
                if path.ends_with("execute") { python("print('ran')") } else { json!({"id": "wish"}) };
            for (name, value) in wish.as_object().into_iter().flatten() {
                body[name] = value.clone();
            }
            let answer = served.post(token, path, &body);
            stage.show(&answer.body);
            if !matches!(answer.status, 403 | 422) || answer.text().contains("ran\n") {
                wrong.push(format!("{path} {wish}: {} {}", answer.status, cut(&answer.text())));
                served.delete(token, "/api/v1/sessions/wish");
            }
        }
    }
    let others = [
        ("POST", "/api/v1/templates", json!({"id": "mine", "name": "Mine", "image_url": "x"})),
        ("PUT", "/api/v1/templates/python-basic", json!({"is_active": false})),
        ("DELETE", "/api/v1/templates/python-basic", Value::Null),
        ("POST", "/api/v1/keys", json!({"name": "x", "tenant": "other", "scopes": ["admin"]})),
        ("GET", "/api/v1/keys", Value::Null),
        ("GET", "/api/v1/audit", Value::Null),
    ];
    for (method, path, body) in others {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let answer = served.send(token, method, path, &[("content-type", "application/json")], &body);
        stage.show(&answer.body);
        if answer.status != 403 {
            wrong.push(format!("{method} {path}: {} {}", answer.status, cut(&answer.text())));
        }
    }
    verdict(wrong)
}

/// Words of clients and programs stay within one line of the log each, and never become a line of ours.
pub(super) fn lines_in_the_log(stage: &Stage) -> Result<(), String> {
    const FORGED: &str = "{\"level\":\"INFO\",\"message\":\"forged\"}";
    let served = stage.served();
    let token = &served.tenants[0];
    let print = format!("import sys\nfor s in (sys.stdout, sys.stderr): s.write('\\n' + {FORGED:?} + '\\n')");
    served.post(token, "/api/v1/execute", &python(&print)).is(200);
    let began = served.log().len();
    let escapes = format!("x\u{9b}2J \t {FORGED} \u{202e}");
    let paths =
        ["/api/v1/%0a%7b%22message%22:%22forged%22%7d", "/api/v1/sessions/%0d%0aforged", "/nobody/was/here"];
    for path in paths {
        let headers = [("user-agent", escapes.as_str()), ("x-request-id", FORGED), ("referer", FORGED)];
        let answer = served.send(token, "GET", path, &headers, b"");
        stage.show(&answer.body);
    }
    // No header at all.
    served.send(token, "GET", "/", &[("user-agent", "\u{1b}[2J")], b"");
    for body in [
        json!({"id": format!("a\n{FORGED}")}),
        json!({"metadata": {FORGED: "\n"}, "id": format!("b\r\n{FORGED}")}),
    ] {
        served.post(token, "/api/v1/sessions", &body).is(422);
    }
    let marker = "/the/last/one/of/them";
    served.get(token, marker);
    let deadline = Instant::now() + Duration::from_secs(2);
    let mut log = served.log();
    while !log.contains(marker) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
        log = served.log();
    }
    let mut wrong = Vec::new();
    if !log.contains(marker) || !log.contains("/nobody/was/here") {
        wrong.push("requests are not in the log".to_owned());
    }
    for line in log[began..].lines() {
        let parsed = serde_json::from_str::<Value>(line).ok().filter(Value::is_object);
        let forged = parsed.as_ref().is_none_or(|parsed| parsed["message"] == "forged");
        if forged || line.contains(|c: char| c.is_control()) {
            wrong.push(format!("no line of ours: {:?}", cut(line)));
        }
    }
    verdict(wrong)
}
