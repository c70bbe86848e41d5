//! The REST API, as root and as a plain user: real servers, real sandboxes, real connections.
#![cfg(test)]

#[path = "rest/client.rs"]
mod client;
mod support;

use client::{Served, chunk, head};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use support::{Sandboxd, host};

fn python(code: &str) -> Value {
    json!({"language": "python", "code": code})
}

fn everywhere(work: impl Fn(&Served)) {
    for who in Sandboxd::everybody() {
        let served = Served::start(&who, &[]);
        work(&served);
        let pid = served.running.as_ref().unwrap().pid();
        assert!(!host::descendants(pid).is_empty(), "there was a pool");
        served.stop();
    }
}

#[test]
fn a_program_is_run_isolated_and_stored() {
    everywhere(|served| {
        let answer = served.post("/api/v1/execute", &python("import os; print(6 * 7, os.getcwd())"));
        let record = answer.is(200);
        assert_eq!(record["stdout"], "42 /workspace\n", "{record}");
        assert_eq!(
            (&record["status"], &record["isolation"]["backend"]),
            (&"success".into(), &"native".into())
        );
        let id = record["execution_id"].as_str().unwrap();
        for path in ["", "/status", "/result"] {
            let found = served.get(&format!("/api/v1/executions/{id}{path}")).is(200);
            assert_eq!((&found["status"], &found["stdout"]), (&"completed".into(), &record["stdout"]));
            assert_eq!(
                (&found["code"], &found["exit_code"]),
                (&"import os; print(6 * 7, os.getcwd())".into(), &0.into())
            );
        }
        assert_eq!(served.get(&format!("/api/v1/executions/{id}/output/stdout")).text(), "42 /workspace\n");
        let list = served.get("/api/v1/executions?limit=1").is(200);
        assert_eq!((&list["items"][0]["id"], &list["total"]), (&id.into(), &1.into()));
        // A program that fails is no failure of ours.
        let failed = served.post("/api/v1/execute", &python("raise SystemExit(3)")).is(200);
        assert_eq!((&failed["status"], &failed["exit_code"]), (&"failed".into(), &3.into()));
        let slow = json!({"language": "python", "code": "while True: pass", "timeout": 0.3});
        assert_eq!(served.post("/api/v1/execute", &slow).is(200)["status"], "timed_out");
        let shell = json!({"code": "cat; echo \"$1 $NAME\"; cat data/x", "mode": "shell", "args": ["one"], "stdin": "in ", "env": {"NAME": "two"}, "files": {"data/x": {"base64": "AP8="}}});
        let shell = served.post("/api/v1/execute", &shell).is(200);
        assert_eq!(shell["stdout_base64"], "aW4gb25lIHR3bwoA/w==", "{shell}");
    });
}

#[test]
fn what_is_wrong_is_said_with_its_field() {
    let served = Served::start(&Sandboxd::caller(), &[]);
    let cases = [
        (json!({"language": "python"}), 422, "code"),
        (json!({"language": "python", "code": ""}), 422, "code"),
        (json!({"language": "klingon", "code": "1"}), 422, "language"),
        (json!({"code": "1"}), 422, "language"),
        (json!({"language": "python", "code": "1", "timeout": -1}), 422, "timeout"),
        (json!({"language": "python", "code": "1", "timeout": 1e9}), 422, "timeout"),
        (json!({"language": "python", "code": "1", "limits": {"memory": "lots"}}), 422, "memory"),
        (json!({"language": "python", "code": "1", "limits": {"memori": 1}}), 422, "limits.memori"),
        (json!({"language": "python", "code": "1", "env": {"A=B": "1"}}), 422, "env"),
        (json!({"language": "python", "code": "1", "files": {"../x": "1"}}), 422, "file"),
        (json!({"language": "python", "code": "1", "files": {"x": {"base64": "?"}}}), 422, "files.x"),
        (json!({"language": "python", "code": "1", "unknown": 1}), 422, "unknown"),
        (json!({"language": "bash", "code": "1", "mode": "sing"}), 422, "mode"),
        (json!({"language": "python", "code": "1", "mode": "shell"}), 422, "language"),
    ];
    for (body, status, field) in cases {
        let answer = served.post("/api/v1/execute", &body);
        let said = answer.is(status);
        assert_eq!(said["field"], field, "{body}: {said}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    }
    for path in [
        "/api/v1/executions/exec_nope",
        "/api/v1/sessions/nope",
        "/api/v1/sessions/nope/files",
        "/api/v1/templates/nope",
    ] {
        served.get(path).is(404);
    }
    served.get("/api/v1/executions?limit=0").is(422);
    served.get("/api/v1/sessions?status=odd").is(422);
    served.post("/api/v1/sessions", &json!({"id": "../x"})).is(422);
    served.post("/api/v1/sessions", &json!({"template_id": "nope"})).is(404);
    let key = served.send(
        "POST",
        "/api/v1/execute",
        &[("content-type", "application/json"), ("idempotency-key", "")],
        b"{}",
    );
    assert!(matches!(key.status, 400 | 422), "{}", key.text());
    served.stop();
}

#[test]
fn the_same_key_is_the_same_run_also_after_the_server_was_killed() {
    let who = Sandboxd::caller();
    let served = Served::start(&who, &[]);
    let json = ("content-type", "application/json");
    let key = ("idempotency-key", "one");
    let body = python("import uuid; print(uuid.uuid4())").to_string();
    let first = served.send("POST", "/api/v1/execute", &[json, key], body.as_bytes());
    let again = served.send("POST", "/api/v1/execute", &[json, key], body.as_bytes());
    assert_eq!(first.is(200), again.is(200));
    assert_eq!(
        (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
        (None, Some("true"))
    );
    let other =
        served.send("POST", "/api/v1/execute", &[json, key], python("print(1)").to_string().as_bytes());
    assert_eq!(other.is(422)["code"], "idempotency_key_reused");
    let begun = served.send(
        "POST",
        "/api/v1/execute",
        &[json, ("prefer", "respond-async")],
        python("import time; time.sleep(60)").to_string().as_bytes(),
    );
    let id = begun.is(202)["execution_id"].as_str().unwrap().to_owned();
    let patience = Instant::now() + Duration::from_secs(20);
    while served.get(&format!("/api/v1/executions/{id}")).is(200)["status"] != "running" {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = served.running.as_ref().unwrap().pid();
    let below = host::descendants(pid);
    let (state, folder) = served.kill();
    let patience = Instant::now() + Duration::from_secs(20);
    let lives = |pid: &u32| host::status(*pid, "State").is_some_and(|state| !state.starts_with('Z'));
    while below.iter().any(lives) {
        assert!(Instant::now() < patience, "what it ran outlives the server");
        std::thread::sleep(Duration::from_millis(10));
    }
    let served = Served::on(&who, state, &[]);
    let after = served.send("POST", "/api/v1/execute", &[json, key], body.as_bytes());
    assert_eq!(after.is(200), first.is(200), "what was answered is not lost, and not run again");
    let interrupted = served.get(&format!("/api/v1/executions/{id}")).is(200);
    assert_eq!((&interrupted["status"], &interrupted["outcome"]), (&"failed".into(), &"infra_error".into()));
    served.stop();
    drop(folder);
}

#[test]
fn a_session_lives_is_paused_and_ends() {
    everywhere(|served| {
        let made = served.post("/api/v1/sessions", &json!({"id": "s-1", "template_id": "python-basic", "cpu": "1", "memory": "256Mi", "disk": "64Mi", "env_vars": {"WHO": "me"}, "timeout": 20}));
        let session = made.is(201);
        assert_eq!(made.header("location"), Some("/api/v1/sessions/s-1"));
        assert_eq!((&session["status"], &session["state"]), (&"running".into(), &"ready".into()));
        assert_eq!(session["resource_limit"]["memory"], "256Mi");
        served.post("/api/v1/sessions", &json!({"id": "s-1"})).is(409);
        for path in ["/api/v1/executions/sessions/s-1", "/api/v1/sessions/s-1"] {
            let code =
                "import os\nprint(os.environ['WHO'], sorted(os.listdir('.')))\nopen('n', 'a').write('x')";
            let done = served.post(&format!("{path}/execute-sync"), &python(code)).is(200);
            assert_eq!(
                (&done["status"], &done["session_id"]),
                (&"completed".into(), &"s-1".into()),
                "{done}"
            );
            let submitted =
                served.post(&format!("{path}/execute"), &python("print(open('n').read())")).is(201);
            assert_eq!(submitted["status"], "pending");
            let all = served.get(&format!("{path}/executions")).is(200);
            assert!(all["total"].as_u64().unwrap() >= 2);
        }
        // Its memory is its own bound.
        let greedy =
            served.post("/api/v1/sessions/s-1/execute-sync", &python("x = bytearray(400 << 20)")).is(200);
        // Without a cgroup it is the allocation that fails.
        let refused = greedy["stderr"].as_str().unwrap().contains("MemoryError");
        assert!(greedy["outcome"] == "out_of_memory" || refused, "{greedy}");
        assert_eq!(
            served.post("/api/v1/sessions/s-1/execute-sync", &python("print(1)")).is(200)["stdout"],
            "1\n",
            "it survives that"
        );
        let other = json!({"language": "python", "code": "1", "limits": {"memory": "1G"}});
        assert_eq!(served.post("/api/v1/sessions/s-1/execute", &other).status, 201);
        assert_eq!(served.post("/api/v1/sessions/s-1/pause", &Value::Null).is(200)["state"], "paused");
        assert_eq!(
            served.post("/api/v1/sessions/s-1/execute-sync", &python("print(1)")).is(409)["code"],
            "session_conflict"
        );
        served.post("/api/v1/sessions/s-1/resume", &Value::Null).is(200);
        let standing = served.get("/api/v1/containers?status=running").is(200);
        assert_eq!((&standing["total"], &standing["items"][0]["session_id"]), (&1.into(), &"s-1".into()));
        let id = standing["items"][0]["id"].as_str().unwrap();
        assert_eq!(served.get(&format!("/api/v1/containers/{id}")).is(200)["memory_mb"], 256);
        let logs = served.get(&format!("/api/v1/containers/{id}/logs?tail=200")).is(200);
        assert!(logs["logs"][0]["stdout"].as_str().unwrap().starts_with("me "), "{logs}");
        served.get("/api/v1/containers/0123").is(404);
        let list = served.get("/api/v1/sessions?status=running").is(200);
        assert_eq!(
            (&list["total"], &list["items"][0]["id"], &list["has_more"]),
            (&1.into(), &"s-1".into(), &false.into())
        );
        assert_eq!(
            served.post("/api/v1/sessions/s-1/terminate", &Value::Null).is(200)["status"],
            "terminated"
        );
        served.post("/api/v1/sessions/s-1/execute", &python("print(1)")).is(409);
        let steps = served.get("/api/v1/sessions/s-1/history").is(200);
        let states: Vec<&str> =
            steps["items"].as_array().unwrap().iter().map(|step| step["to"].as_str().unwrap()).collect();
        assert_eq!(states, ["creating", "ready", "paused", "ready", "terminated"]);
        served.delete("/api/v1/sessions/s-1").is(204);
        served.get("/api/v1/sessions/s-1").is(404);
    });
}

#[test]
fn files_go_in_and_out_and_never_outside() {
    everywhere(|served| {
        served.post("/api/v1/sessions", &json!({"id": "f", "disk": "32M", "memory": "128M"})).is(201);
        let at = |path: &str| format!("/api/v1/sessions/f/files{path}");
        let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n * 7) as u8).collect();
        let put = served.send(
            "PUT",
            &at("/data/big.bin"),
            &[("content-type", "application/octet-stream"), ("x-file-mode", "0755")],
            &bytes,
        );
        assert_eq!(put.is(200)["size"], 3_000_000);
        let got = served.get(&at("/data/big.bin"));
        assert!(got.status == 200 && got.body == bytes);
        assert_eq!(got.header("content-disposition"), Some("attachment; filename=\"big.bin\""));
        let part = served.send("GET", &at("/data/big.bin"), &[("range", "bytes=1000000-1000009")], b"");
        assert_eq!((part.status, &part.body[..]), (206, &bytes[1_000_000..1_000_010]));
        assert_eq!(part.header("content-range"), Some("bytes 1000000-1000009/3000000"));
        served.send("GET", &at("/data/big.bin"), &[("range", "bytes=9000000-")], b"").is(416);
        let form = b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"note.txt\"\r\n\r\nhello\r\n--B--\r\n";
        let up = served.send(
            "POST",
            &at("/upload?path=docs/note.txt"),
            &[("content-type", "multipart/form-data; boundary=B")],
            form,
        );
        assert_eq!(up.is(200)["size"], 5);
        served.post(&at("/directories"), &json!({"path": "empty/dir"})).is(201);
        served.post(&at("/move"), &json!({"from": "docs/note.txt", "to": "note.txt"})).is(200);
        served.post(&at("/move"), &json!({"from": "note.txt", "to": "data/big.bin"})).is(409);
        let seen = served.post("/api/v1/sessions/f/execute-sync", &python("import os, hashlib\nprint(open('note.txt').read(), oct(os.stat('data/big.bin').st_mode & 0o777), len(open('data/big.bin', 'rb').read()))\nos.symlink('/etc/passwd', 'link'); os.symlink('/', 'root')"));
        assert_eq!(seen.is(200)["stdout"], "hello 0o755 3000000\n");
        for path in [
            "/link",
            "/root/etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/..%2fx",
            "/a%00b",
            "//etc/passwd",
            "/link/x",
        ] {
            let answer = served.get(&at(path));
            assert!(
                matches!(answer.status, 400 | 404 | 409 | 422),
                "{path}: {} {}",
                answer.status,
                answer.text()
            );
            assert!(!answer.text().contains("root:"), "{path}");
        }
        served.send("PUT", &at("/root/tmp/x"), &[], b"x").is(422);
        let list = served.get(&at("?recursive=true")).is(200);
        let names: Vec<&str> =
            list["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
        assert_eq!(names, ["data", "data/big.bin", "docs", "empty", "empty/dir", "link", "note.txt", "root"]);
        // Beyond its storage, and nothing is left of it.
        let full = served.send(
            "PUT",
            &at("/more"),
            &[("content-type", "application/octet-stream")],
            &vec![1; 33 << 20],
        );
        assert_eq!(full.is(507)["code"], "storage_full");
        served.delete(&at("/data")).is(409);
        served.delete(&at("/data?recursive=true")).is(204);
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let list = served.get(&at("")).is(200);
            let names: Vec<&str> =
                list["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
            if names == ["docs", "empty", "link", "note.txt", "root"] {
                break;
            }
            assert!(Instant::now() < patience, "{names:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        served.delete("/api/v1/sessions/f").is(204);
    });
}

#[test]
fn output_comes_while_the_program_runs_and_a_stream_goes_on_where_it_broke() {
    let served = Served::start(&Sandboxd::caller(), &[]);
    let code = "import sys, time\nfor i in range(4):\n    print(i, flush=True)\n    time.sleep(.2)\nprint('no', file=sys.stderr)";
    let headers = [("content-type", "application/json"), ("accept", "text/event-stream")];
    let mut reader =
        served.open(&served.token, "POST", "/api/v1/execute", &headers, python(code).to_string().as_bytes());
    let (status, head_of) = head(&mut reader);
    assert_eq!(status, 200);
    let id = head_of.iter().find(|(name, _)| name == "x-execution-id").unwrap().1.clone();
    let (began, mut text, mut first) = (Instant::now(), String::new(), None);
    while let Some(piece) = chunk(&mut reader) {
        text += &String::from_utf8(piece).unwrap();
        if first.is_none() && text.contains("event: stdout") {
            first = Some(began.elapsed());
        }
    }
    assert!(first.unwrap() + Duration::from_millis(400) < began.elapsed(), "not while it ran: {first:?}");
    let numbers: Vec<u64> = text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(text.contains("event: stderr") && text.contains("event: finished"));
    // The rest, behind the third.
    let rest = served.send("GET", &format!("/api/v1/executions/{id}/stream"), &[("last-event-id", "3")], b"");
    assert_eq!(rest.text(), text[text.find("id: 4").unwrap()..]);
    // Over a WebSocket, and ended from there.
    let endless = served.send(
        "POST",
        "/api/v1/execute",
        &[("content-type", "application/json"), ("prefer", "respond-async")],
        python("import time\nwhile True:\n    print('x', flush=True); time.sleep(.05)")
            .to_string()
            .as_bytes(),
    );
    let id = endless.is(202)["execution_id"].as_str().unwrap().to_owned();
    let upgrade = [
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let mut socket = websocket(&served, &format!("/api/v1/executions/{id}/ws"), &upgrade);
    let mut heard = Vec::new();
    loop {
        let message = frame(&mut socket).expect("it closed too early");
        if message["event"] == "stdout"
            && heard.iter().filter(|m: &&Value| m["event"] == "stdout").count() == 3
        {
            // Masked, as clients have to.
            let words = br#"{"cancel":true}"#;
            let mut bytes = vec![0x81, 0x80 | words.len() as u8, 0, 0, 0, 0];
            bytes.extend(words);
            socket.get_mut().write_all(&bytes).unwrap();
        }
        let over = message["event"] == "finished";
        heard.push(message);
        if over {
            break;
        }
    }
    assert_eq!(heard.last().unwrap()["data"]["status"], "cancelled");
    // Who hangs up ends the run.
    let mut reader = served.open(
        &served.token,
        "POST",
        "/api/v1/execute",
        &headers,
        python("while True: pass").to_string().as_bytes(),
    );
    let (_, head_of) = head(&mut reader);
    let id = head_of.iter().find(|(name, _)| name == "x-execution-id").unwrap().1.clone();
    chunk(&mut reader);
    drop(reader);
    let patience = Instant::now() + Duration::from_secs(5);
    while served.get(&format!("/api/v1/executions/{id}")).is(200)["outcome"] != "cancelled" {
        assert!(Instant::now() < patience, "it goes on without anybody");
        std::thread::sleep(Duration::from_millis(20));
    }
    served.stop();
}

fn websocket(
    served: &Served,
    path: &str,
    headers: &[(&str, &str)],
) -> std::io::BufReader<std::net::TcpStream> {
    let mut stream = std::net::TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut text = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nauthorization: Bearer {}\r\n",
        served.token
    );
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    stream.write_all((text + "\r\n").as_bytes()).unwrap();
    let mut reader = std::io::BufReader::new(stream);
    assert_eq!(head(&mut reader).0, 101);
    reader
}

/// The next text of a WebSocket.
fn frame(reader: &mut impl Read) -> Option<Value> {
    let mut start = [0; 2];
    reader.read_exact(&mut start).ok()?;
    let length = match start[1] & 0x7f {
        126 => {
            let mut more = [0; 2];
            reader.read_exact(&mut more).ok()?;
            u64::from(u16::from_be_bytes(more))
        }
        127 => {
            let mut more = [0; 8];
            reader.read_exact(&mut more).ok()?;
            u64::from_be_bytes(more)
        }
        short => u64::from(short),
    };
    let mut body = vec![0; length as usize];
    reader.read_exact(&mut body).ok()?;
    match start[0] & 0x0f {
        1 => serde_json::from_slice(&body).ok(),
        8 => None,
        _ => frame(reader),
    }
}

#[test]
fn tenants_see_only_their_own_and_have_only_what_they_may() {
    let served = Served::start(&Sandboxd::caller(), &[]);
    let key = |tenant: &str, limits: Value, scopes: Value| {
        let made = served.post(
            "/api/v1/keys",
            &json!({"name": tenant, "tenant": tenant, "scopes": scopes, "limits": limits}),
        );
        made.is(201)["token"].as_str().unwrap().to_owned()
    };
    let (a, b) = (
        key("a", json!({}), json!(["run", "files"])),
        key("b", json!({"concurrency": 1, "queued": 1, "sessions": 1}), json!(["run", "files"])),
    );
    let json = [("content-type", "application/json")];
    let post = |token: &str, path: &str, body: Value| {
        served.send_as(token, "POST", path, &json, body.to_string().as_bytes())
    };
    let done = post(&a, "/api/v1/execute", python("print('secret of a')")).is(200);
    let id = done["execution_id"].as_str().unwrap();
    post(&a, "/api/v1/sessions", json!({"id": "shared"})).is(201);
    // What is somebody else's looks as if it were not there, down to the last byte but the request's own id.
    let pairs = [
        (
            "GET",
            format!("/api/v1/executions/{id}"),
            "/api/v1/executions/exec_00000000000070008000000000000000".to_owned(),
        ),
        (
            "GET",
            format!("/api/v1/executions/{id}/stream"),
            "/api/v1/executions/exec_00000000000070008000000000000000/stream".to_owned(),
        ),
        (
            "POST",
            format!("/api/v1/executions/{id}/cancel"),
            "/api/v1/executions/exec_00000000000070008000000000000000/cancel".to_owned(),
        ),
        ("GET", "/api/v1/sessions/shared".into(), "/api/v1/sessions/nobody".into()),
        ("GET", "/api/v1/sessions/shared/files".into(), "/api/v1/sessions/nobody/files".into()),
        ("GET", "/api/v1/sessions/shared/history".into(), "/api/v1/sessions/nobody/history".into()),
        ("POST", "/api/v1/sessions/shared/pause".into(), "/api/v1/sessions/nobody/pause".into()),
        ("POST", "/api/v1/sessions/shared/terminate".into(), "/api/v1/sessions/nobody/terminate".into()),
        ("DELETE", "/api/v1/sessions/shared".into(), "/api/v1/sessions/nobody".into()),
        ("GET", "/api/v1/sessions/shared/executions".into(), "/api/v1/sessions/nobody/executions".into()),
    ];
    for (method, theirs, nobodys) in &pairs {
        let said = [theirs, nobodys].map(|path| {
            let answer = served.send_as(&b, method, path, &[], b"");
            let mut said = answer.is(404);
            said["request_id"] = Value::Null;
            said
        });
        assert_eq!(said[0], said[1], "{theirs}");
    }
    assert_eq!(served.send_as(&b, "GET", "/api/v1/executions", &[], b"").is(200)["total"], 0);
    // The same id is another session for another tenant.
    post(&b, "/api/v1/sessions", json!({"id": "shared"})).is(201);
    let more = post(&b, "/api/v1/sessions", json!({"id": "more"}));
    assert!(more.is(429)["code"] == "limit_reached" && more.header("retry-after").is_some());
    let slow = json!({"language": "python", "code": "import time; time.sleep(1)"});
    let statuses = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..4).map(|_| scope.spawn(|| post(&b, "/api/v1/execute", slow.clone()).status)).collect();
        let mut all: Vec<u16> = all.into_iter().map(|one| one.join().unwrap()).collect();
        all.sort_unstable();
        all
    });
    assert_eq!(statuses, [200, 200, 429, 429]);
    served.send_as(&a, "GET", "/api/v1/keys", &[], b"").is(403);
    post(&a, "/api/v1/templates", json!({"id": "mine", "name": "Mine"})).is(403);
    let files = key("a", json!({}), json!(["files"]));
    post(&files, "/api/v1/execute", python("print(1)")).is(403);
    served.send_as(&files, "GET", "/api/v1/sessions/shared/files", &[], b"").is(200);
    served.stop();
}

#[test]
fn templates_really_apply_and_stay_while_they_are_needed() {
    let served = Served::start(&Sandboxd::caller(), &[]);
    let ids: Vec<String> = served
        .get("/api/v1/templates")
        .is(200)
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["multi-language", "nodejs-basic", "python-basic", "python-datascience"]);
    let template = json!({"id": "small", "name": "Small", "image_url": "x", "runtime_type": "python3.11", "default_memory_mb": 128, "default_cpu_cores": 0.5, "default_disk_mb": 32, "default_timeout": 60, "default_env_vars": {"A": "from the template", "B": "b"}});
    let made = served.post("/api/v1/templates", &template).is(201);
    assert_eq!(
        (&made["languages"], &made["default_memory_mb"], &made["is_active"]),
        (&json!(["python"]), &128.into(), &true.into())
    );
    served.post("/api/v1/templates", &template).is(409);
    served
        .post("/api/v1/sessions", &json!({"id": "s", "template_id": "small", "env_vars": {"B": "own"}}))
        .is(201);
    let code = "import os\nprint(os.environ['A'], os.environ['B'], flush=True)\ntry:\n    open('x', 'wb').write(bytes(40 << 20))\nexcept OSError as e:\n    print(e.strerror, flush=True)\nx = bytearray(200 << 20)";
    let done = served.post("/api/v1/sessions/s/execute-sync", &python(code)).is(200);
    assert_eq!(done["stdout"], "from the template own\nNo space left on device\n", "{done}");
    assert_eq!(done["outcome"], "out_of_memory", "{done}");
    assert_eq!(served.delete("/api/v1/templates/small").is(409)["code"], "conflict");
    let changed = served
        .send(
            "PUT",
            "/api/v1/templates/small",
            &[("content-type", "application/json")],
            br#"{"is_active": false}"#,
        )
        .is(200);
    assert_eq!((&changed["is_active"], &changed["default_memory_mb"]), (&false.into(), &128.into()));
    served.post("/api/v1/sessions", &json!({"template_id": "small"})).is(409);
    served.post("/api/v1/sessions/s/terminate", &Value::Null).is(200);
    served.delete("/api/v1/templates/small").is(200);
    let runtimes = served.get("/api/v1/runtimes").is(200);
    let has =
        runtimes["items"].as_array().unwrap().iter().find(|r| r["name"] == "python").unwrap()["available"]
            .clone();
    assert_eq!(has, true);
    served.stop();
}

#[test]
fn settings_have_effect() {
    let who = Sandboxd::caller();
    let more = [
        "--set",
        "limits.timeout=300ms",
        "--set",
        "limits.max_memory=300M",
        "--set",
        "sessions.max=1",
        "--set",
        "executions.max_running=1",
        "--set",
        "executions.max_queued=0",
        "--set",
        "executions.session_queue=1",
        "--set",
        "pool.enabled=false",
        "--set",
        "sessions.default_template=nodejs-basic",
        "--set",
        "storage.inline_output=10",
        "--set",
        "server.max_body=2K",
        "--set",
        "metrics.enabled=false",
        "--set",
        "isolation.profile=strict",
    ];
    let served = Served::start(&who, &more);
    assert_eq!(served.post("/api/v1/execute", &python("while True: pass")).is(200)["status"], "timed_out");
    let large = json!({"language": "python", "code": "1", "limits": {"memory": "301M"}});
    assert_eq!(served.post("/api/v1/execute", &large).is(422)["field"], "memory");
    let record = served.post("/api/v1/execute", &python("print('x' * 20)")).is(200);
    assert_eq!(
        (&record["start"], &record["isolation"]["seccomp_profile"]),
        (&"cold".into(), &"strict".into())
    );
    let objects = served.state.join("objects/executions").join(record["execution_id"].as_str().unwrap());
    assert_eq!(std::fs::read(objects.join("stdout")).unwrap(), format!("{}\n", "x".repeat(20)).as_bytes());
    assert_eq!(served.post("/api/v1/sessions", &json!({})).is(201)["template_id"], "nodejs-basic");
    assert_eq!(served.post("/api/v1/sessions", &json!({})).is(503)["code"], "busy");
    let sleep = python("import time; time.sleep(.25)");
    let statuses = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..3).map(|_| scope.spawn(|| served.post("/api/v1/execute", &sleep).status)).collect();
        let mut all: Vec<u16> = all.into_iter().map(|one| one.join().unwrap()).collect();
        all.sort_unstable();
        all
    });
    assert_eq!(statuses, [200, 503, 503]);
    served.post("/api/v1/execute", &python(&"#".repeat(3000))).is(413);
    served.get("/metrics").is(404);
    served.stop();
}

#[test]
fn a_crowd_gets_its_own_answers_and_one_tenant_does_not_keep_out_another() {
    let who = Sandboxd::caller();
    let served = Served::start(
        &who,
        &[
            "--set",
            "sessions.max=250",
            "--set",
            "tenants.sessions=250",
            "--set",
            "executions.max_queued=1100",
            "--set",
            "tenants.queued=1000",
            "--set",
            "tenants.requests_per_minute=0",
        ],
    );
    let key = |tenant: &str| {
        served.post("/api/v1/keys", &json!({"name": tenant, "tenant": tenant, "scopes": ["run"]})).is(201)["token"].as_str().unwrap().to_owned()
    };
    let (many, few) = (key("many"), key("few"));
    let json = [("content-type", "application/json")];
    let post = |token: &str, path: &str, body: &Value| {
        served.send_as(token, "POST", path, &json, body.to_string().as_bytes())
    };
    let resident = || {
        host::status(served.running.as_ref().unwrap().pid(), "VmRSS")
            .unwrap()
            .trim_end_matches(" kB")
            .trim()
            .parse::<u64>()
            .unwrap()
            >> 10
    };
    let before = resident();
    for n in 0..200 {
        post(
            &many,
            "/api/v1/sessions",
            &json!({"id": format!("s{n}"), "memory": "64M", "env_vars": {"NONCE": format!("session-{n}")}}),
        )
        .is(201);
    }
    let mut ids = Vec::new();
    for n in 0..1000 {
        let program = python(&format!("import os; print(os.environ['NONCE'], {n})"));
        let accepted = post(&many, &format!("/api/v1/sessions/s{}/execute", n % 200), &program).is(201);
        ids.push(accepted["execution_id"].as_str().unwrap().to_owned());
    }
    // Somebody else comes while all of them wait.
    let asked = Instant::now();
    let other = post(&few, "/api/v1/execute", &python("print('few')")).is(200);
    let waited = asked.elapsed();
    assert_eq!(other["stdout"], "few\n");
    let last = served.send_as(&many, "GET", &format!("/api/v1/executions/{}", ids[999]), &[], b"").is(200);
    assert!(last["status"] != "completed", "the crowd was gone before anybody else came");
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    let patience = Instant::now() + Duration::from_secs(300);
    for (n, id) in ids.iter().enumerate() {
        loop {
            let found = served.send_as(&many, "GET", &format!("/api/v1/executions/{id}"), &[], b"").is(200);
            if found["status"] == "completed" {
                assert_eq!(found["stdout"], format!("session-{} {n}\n", n % 200));
                break;
            }
            assert!(matches!(found["status"].as_str(), Some("pending" | "running")), "{found}");
            assert!(Instant::now() < patience, "{n} is not done");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let after = resident();
    println!(
        "200 sessions and 1000 executions: {before} MiB before, {after} MiB after; somebody else waited {waited:?}"
    );
    assert!(after < 400, "the server has grown to {after} MiB");
    served.stop();
}

/// What Python makes of a few lines, as bytes.
fn made(code: &str) -> Vec<u8> {
    let code = format!(
        "import io, sys, tarfile, zipfile, stat\nout = io.BytesIO()\ndef tar(*members):\n    with tarfile.open(fileobj=out, mode='w:gz') as t:\n        for name, kind, data in members:\n            i = tarfile.TarInfo(name); i.type = kind; i.size = len(data); i.linkname = '/etc/passwd'; i.mode = 0o4755\n            t.addfile(i, io.BytesIO(data))\nF, L, H, D, C = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE\n{code}\nsys.stdout.buffer.write(out.getvalue())"
    );
    let made = std::process::Command::new("/usr/bin/python3").args(["-c", &code]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}

#[test]
fn archives_go_in_whole_or_not_at_all_and_come_out_without_links() {
    everywhere(|served| {
        served.post("/api/v1/sessions", &json!({"id": "z", "disk": "32M", "memory": "128M"})).is(201);
        let put = |query: &str, bytes: &[u8]| {
            served.send(
                "PUT",
                &format!("/api/v1/sessions/z/archive{query}"),
                &[("content-type", "application/octet-stream")],
                bytes,
            )
        };
        let names = || {
            let list = served.get("/api/v1/sessions/z/files?recursive=true").is(200);
            list["files"]
                .as_array()
                .unwrap()
                .iter()
                .map(|file| file["path"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let hostile = [
            ("", "tar(('ok', F, b'1'), ('../x', F, b'1'))"),
            ("", "tar(('ok', F, b'1'), ('/etc/x', F, b'1'))"),
            ("", "tar(('ok', F, b'1'), ('l', L, b''))"),
            ("", "tar(('ok', F, b'1'), ('l', H, b''))"),
            ("", "tar(('ok', F, b'1'), ('dev', C, b''))"),
            ("", "tar(('ok', F, b'1'), ('ok', F, b'2'))"),
            ("", "tar(('ok', F, b'1'), ('ok/below', F, b'2'))"),
            ("", "tar(('ok', F, b'1'), ('a\\\\b', F, b'2'))"),
            ("", "tar(*[(f'f{n}', F, b'') for n in range(10001)])"),
            ("", "tar(('bomb', F, bytes(40 << 20)))"),
            ("", "out.write(b'no archive at all')"),
            (
                "?format=zip",
                "z = zipfile.ZipFile(out, 'w'); z.writestr('ok', '1'); z.writestr('../x', '1'); z.close()",
            ),
            (
                "?format=zip",
                "z = zipfile.ZipFile(out, 'w'); z.writestr('ok', '1'); i = zipfile.ZipInfo('l'); i.external_attr = 0o120777 << 16; z.writestr(i, '/etc/passwd'); z.close()",
            ),
            (
                "?format=zip",
                "z = zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED); z.writestr('bomb', bytes(40 << 20)); z.close()",
            ),
            (
                "?format=zip",
                "z = zipfile.ZipFile(out, 'w', zipfile.ZIP_LZMA); z.writestr('ok', '1'); z.close()",
            ),
            ("?format=zip", "out.write(b'PK no archive')"),
            ("?path=../x", "tar(('ok', F, b'1'))"),
        ];
        for (query, code) in hostile {
            let answer = put(query, &made(code));
            assert!(matches!(answer.status, 413 | 422), "{code}: {} {}", answer.status, answer.text());
            assert_eq!(names(), [""; 0], "{code}");
        }
        let good = "tar(('d', D, b''), ('d/f', F, b'x' * 700_000), ('./g', F, b'2'), ('empty/dir', D, b''))";
        assert_eq!(put("", &made(good)).is(200), json!({"session_id": "z", "files": 2, "bytes": 700_001}));
        let good = "z = zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED); z.writestr('h', 'zip'); z.writestr('e/', ''); z.close()";
        assert_eq!(put("?format=zip&path=below", &made(good)).is(200)["files"], 1);
        assert_eq!(names(), ["below", "below/e", "below/h", "d", "d/f", "empty", "empty/dir", "g"]);
        let modes = served.post("/api/v1/sessions/z/execute-sync", &python("import os\nprint(oct(os.stat('g').st_mode))\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('d/pipe')")).is(200);
        assert_eq!(modes["stdout"], "0o100755\n", "no set-id bits come out of an archive");
        for (query, code) in [
            (
                "",
                "t = tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read()))\nout.write(repr(sorted((m.name, m.size) for m in t)).encode())",
            ),
            (
                "?format=zip",
                "z = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))\nassert z.testzip() is None\nout.write(repr(sorted((i.filename.rstrip('/'), i.file_size) for i in z.infolist())).encode())",
            ),
        ] {
            let answer = served.get(&format!("/api/v1/sessions/z/archive{query}"));
            assert_eq!(answer.status, 200);
            let told = listed(code, &answer.body);
            assert_eq!(
                told,
                "[('below', 0), ('below/e', 0), ('below/h', 3), ('d', 0), ('d/f', 700000), ('empty', 0), ('empty/dir', 0), ('g', 1)]"
            );
        }
        let part = served.get("/api/v1/sessions/z/archive?path=d");
        assert_eq!(
            listed(
                "t = tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read()))\nout.write(repr(t.getnames()).encode())",
                &part.body
            ),
            "['f']"
        );
        served.get("/api/v1/sessions/z/archive?path=nope").is(404);
    });
}

/// What Python says of these bytes.
fn listed(code: &str, bytes: &[u8]) -> String {
    let code = format!(
        "import io, sys, tarfile, zipfile\nout = io.BytesIO()\n{code}\nsys.stdout.buffer.write(out.getvalue())"
    );
    let mut python = std::process::Command::new("/usr/bin/python3")
        .args(["-c", &code])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(bytes).unwrap();
    String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap()
}
