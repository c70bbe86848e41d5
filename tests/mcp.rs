//! MCP as a hostile client speaks it: over standard streams, HTTP and WebSockets. What well-behaved clients do is tried by
//! theirs, in `tests/mcp/`.
#![cfg(test)]

#[path = "rest/client.rs"]
mod client;
mod support;

use client::{Answer, Served, head};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use support::{Sandboxd, host};

const NEWEST: &str = "2026-07-28";

fn initialize(id: u64) -> Value {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params})
}

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

fn python(id: u64, code: &str) -> Value {
    call(id, "execute_code", json!({"language": "python", "code": code}))
}

/// Everything that a server says to these lines, which is messages and nothing else.
fn told(who: &Sandboxd, lines: &[Vec<u8>]) -> Vec<Value> {
    let state = who.folder();
    let state = state.path().display().to_string();
    let mut typed = Vec::new();
    for line in lines {
        typed.extend_from_slice(line);
        typed.push(b'\n');
    }
    let out = who.command(["mcp", "--state-dir", &state]).typed(typed).within(Duration::from_secs(120)).out();
    assert_eq!(out.code, 0, "{}", out.complaint());
    let messages = out
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let left: Vec<_> = std::fs::read_dir(format!("{state}/mcp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    messages
}

fn line(message: &Value) -> Vec<u8> {
    message.to_string().into_bytes()
}

#[test]
fn what_is_no_message_is_answered_as_such_and_ends_nothing() {
    for who in Sandboxd::everybody() {
        let messages = told(
            &who,
            &[
                b"{\"jsonrpc\": \"2.0\", \"id\": 1, ".to_vec(),
                vec![b'x'; 100 << 20],
                b"\xff\xfe\x00".to_vec(),
                b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]".to_vec(),
                line(&json!({"jsonrpc": "2.0", "id": 77, "method": "tools/list"})),
                line(
                    &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}),
                ),
                line(&initialize(1)),
                line(&initialize(2)),
                line(&json!({"jsonrpc": "2.0", "id": [3], "method": "ping"})),
                line(&json!({"jsonrpc": "2.0", "id": 4, "method": "no/such/method"})),
                line(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"arguments": 7}})),
                line(&json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "execute_code"}})),
                line(&call(6, "no_such_tool", json!({}))),
                line(&python(7, "print(6 * 7)")),
            ],
        );
        let mut codes: Vec<i64> = Vec::new();
        let mut by_id = BTreeMap::new();
        for message in &messages {
            assert_eq!(message["jsonrpc"], "2.0", "{message}");
            match message["id"].as_u64() {
                Some(id) => drop(by_id.insert(id, message.clone())),
                None => codes.push(message["error"]["code"].as_i64().unwrap()),
            }
        }
        assert_eq!(codes, [-32700, -32600, -32700, -32600, -32600], "{messages:?}");
        let code = |id: u64| by_id[&id]["error"]["code"].as_i64();
        assert_eq!(
            (code(77), code(2), code(4), code(5), code(6)),
            (Some(-32600), Some(-32600), Some(-32601), Some(-32602), Some(-32602))
        );
        assert!(by_id[&1]["result"]["serverInfo"].is_object());
        assert_eq!(by_id[&7]["result"]["structuredContent"]["stdout"], "42\n", "{messages:?}");
        assert_eq!(by_id.len(), 7);
    }
}

#[test]
fn what_is_cancelled_is_ended_and_not_answered() {
    let who = Sandboxd::caller();
    let state = who.folder();
    let mut running =
        who.command(["mcp", "--state-dir", &state.path().display().to_string()]).typed("").start();
    let mut say = |message: &Value| running.types(&[line(message), b"\n".to_vec()].concat());
    say(&initialize(1));
    for id in 10..20 {
        say(&call(id, "execute_code", json!({"language": "bash", "code": "exec sleep 3600.5"})));
        say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }
    say(&python(20, "print('after')"));
    running.until_it_says("after");
    let pid = running.pid();
    let since = Instant::now();
    while runs(pid, "3600.5") {
        assert!(since.elapsed() < Duration::from_secs(10), "a cancelled program runs on");
        std::thread::sleep(Duration::from_millis(50));
    }
    running.signal(rustix::process::Signal::TERM);
    let out = running.out(Duration::from_secs(30));
    for message in out.text().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert!(!(10..20).contains(&message["id"].as_u64().unwrap_or(0)), "{message}");
    }
}

/// Whether something that was started with this word runs below a process.
fn runs(pid: u32, word: &str) -> bool {
    let has = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(word))
    };
    host::descendants(pid).iter().any(has)
}

/// Bytes of memory that a process has.
fn resident(pid: u32) -> u64 {
    let text = host::status(pid, "VmRSS").unwrap();
    text.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

/// A request of the newest revision, which says everything with each request.
fn modern(served: &Served, token: &str, message: &Value, change: &[(&str, Option<&str>)]) -> Answer {
    let mut message = message.clone();
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let method = message["method"].as_str().unwrap().to_owned();
    let name = message["params"]["name"]
        .as_str()
        .or(message["params"]["uri"].as_str())
        .unwrap_or_default()
        .to_owned();
    let mut headers = BTreeMap::from([
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", NEWEST),
        ("mcp-method", method.as_str()),
    ]);
    if !name.is_empty() {
        headers.insert("mcp-name", &name);
    }
    for (header, value) in change {
        match value {
            Some(value) => drop(headers.insert(header, value)),
            None => drop(headers.remove(header)),
        }
    }
    let headers: Vec<(&str, &str)> = headers.into_iter().collect();
    served.send_as(token, "POST", "/mcp", &headers, message.to_string().as_bytes())
}

#[test]
fn requests_that_contradict_their_headers_are_refused() {
    let served = Served::start(&Sandboxd::caller(), &[]);
    let token = served.token.clone();
    let hello = python(1, "print('hello')");
    let answer = modern(&served, &token, &hello, &[]);
    assert_eq!(answer.is(200)["result"]["structuredContent"]["stdout"], "hello\n");
    for change in [
        ("mcp-protocol-version", None),
        ("mcp-protocol-version", Some("2025-11-25")),
        ("mcp-protocol-version", Some("1999-01-01")),
        ("mcp-method", None),
        ("mcp-method", Some("tools/list")),
        ("mcp-name", None),
        ("mcp-name", Some("read_file")),
    ] {
        let answer = modern(&served, &token, &hello, &[change]);
        assert_eq!(answer.status, 400, "{change:?}: {}", answer.text());
    }
    let old = [("accept", "text/event-stream"), ("mcp-protocol-version", NEWEST)];
    assert_eq!(served.send("GET", "/mcp", &old, b"").status, 405);
    assert_eq!(served.send("PUT", "/mcp", &[("content-type", "application/json")], b"{}").status, 405);
    for (header, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let answer = modern(&served, &token, &hello, &[(header, Some(value))]);
        assert!(matches!(answer.status, 400 | 403 | 421), "{header}: {}", answer.text());
    }
    assert_eq!(modern(&served, "wrong", &hello, &[]).status, 401);
    // What needs the network needs the operator.
    let packages = json!({"language": "python", "code": "1", "session_id": "s", "packages": ["six"]});
    let refused = modern(&served, &token, &call(2, "execute_code", packages), &[]).is(200);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(refused.to_string().contains("sessions.install"), "{refused}");
    served.stop();
}

#[test]
fn a_mistake_of_ours_ends_one_request_and_nothing_else() {
    let served = Served::start(&Sandboxd::caller(), &["--set", "mcp.fixtures=true"]);
    let token = served.token.clone();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            modern(&served, &token, &python(1, "import time; time.sleep(1); print('undisturbed')"), &[])
        });
        let read = |id| json!({"jsonrpc": "2.0", "id": id, "method": "resources/read", "params": {"uri": "test://broken"}});
        for id in 2..10 {
            let broken = if id % 2 == 0 { call(id, "test_panic", json!({})) } else { read(id) };
            let said = modern(&served, &token, &broken, &[]).json();
            assert_eq!((&said["id"], &said["error"]["code"]), (&json!(id), &json!(-32603)), "{said}");
            assert!(!said.to_string().contains("fixture"), "what broke is nobody's business: {said}");
        }
        let undisturbed = slow.join().unwrap().is(200);
        assert_eq!(undisturbed["result"]["structuredContent"]["stdout"], "undisturbed\n");
    });
    let after = modern(&served, &token, &python(10, "print('as ever')"), &[]).is(200);
    assert_eq!(after["result"]["structuredContent"]["stdout"], "as ever\n");
    let log = served.stop();
    assert_eq!(log.matches("a fixture was asked to break").count(), 8, "the log has it: {log}");
}

#[test]
fn a_stream_that_is_closed_ends_the_program() {
    let served = Served::start(&Sandboxd::caller(), &[]);
    let mut message =
        call(1, "execute_code", json!({"language": "bash", "code": "echo begun; exec sleep 3601.5"}));
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": "p",
    });
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", NEWEST),
        ("mcp-method", "tools/call"),
        ("mcp-name", "execute_code"),
    ];
    let mut reader = served.open(&served.token, "POST", "/mcp", &headers, message.to_string().as_bytes());
    let (status, _) = head(&mut reader);
    assert_eq!(status, 200);
    let mut heard = String::new();
    while !heard.contains("begun") {
        let mut some = [0; 1024];
        let count = reader.read(&mut some).unwrap();
        assert!(count > 0, "{heard}");
        heard += &String::from_utf8_lossy(&some[..count]);
    }
    let pid = served.running.as_ref().unwrap().pid();
    let since = Instant::now();
    while !runs(pid, "3601.5") {
        assert!(since.elapsed() < Duration::from_secs(10), "the program does not run");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(reader);
    let since = Instant::now();
    while runs(pid, "3601.5") {
        assert!(since.elapsed() < Duration::from_secs(10), "the program runs on");
        std::thread::sleep(Duration::from_millis(50));
    }
    served.stop();
}

#[test]
fn knowing_a_name_is_not_owning_it() {
    let served = Served::start(&Sandboxd::caller(), &[]);
    let token = served.token.clone();
    let key = |tenant: &str| {
        let body = json!({"name": tenant, "tenant": tenant, "scopes": ["run", "files"]});
        served.post("/api/v1/keys", &body).is(201)["token"].as_str().unwrap().to_owned()
    };
    let (alice, bob) = (key("alice"), key("bob"));
    let run = json!({"language": "python", "code": "open('secret.txt', 'w').write('s3cret')", "session_id": "mine"});
    modern(&served, &alice, &call(1, "execute_code", run), &[]).is(200);
    let read =
        |uri: &str| json!({"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": uri}});
    let uri = "sandbox://mine/secret.txt";
    let found = modern(&served, &alice, &read(uri), &[]).is(200);
    assert_eq!(found["result"]["contents"][0]["text"], "s3cret", "{found}");
    for who in [&bob, &token] {
        assert!(modern(&served, who, &read(uri), &[]).is(200)["error"].is_object());
        for (tool, arguments) in [
            ("read_file", json!({"sandbox_id": "mine", "path": "secret.txt"})),
            ("list_files", json!({"sandbox_id": "mine"})),
            ("exec_command", json!({"sandbox_id": "mine", "command": "cat secret.txt"})),
            ("terminate_sandbox", json!({"sandbox_id": "mine"})),
        ] {
            let answer = modern(&served, who, &call(3, tool, arguments), &[]).is(200);
            assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
            assert!(!answer.to_string().contains("s3cret"), "{tool}: {answer}");
        }
    }
    for wrong in [
        "file:///etc/passwd",
        "sandbox://mine/../../etc/passwd",
        "sandbox://mine/%2e%2e/%2e%2e/etc/passwd",
        "sandbox://mine//etc/passwd",
        "sandbox:///etc/passwd",
    ] {
        let answer = modern(&served, &alice, &read(wrong), &[]);
        let answer = answer.json();
        assert!(answer["error"].is_object() && !answer.to_string().contains("root:"), "{wrong}: {answer}");
    }
    // A session of the protocol is somebody's as well.
    let headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let begun = served.send_as(&alice, "POST", "/mcp", &headers, initialize(1).to_string().as_bytes());
    let id = begun.header("mcp-session-id").unwrap().to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    let with = [headers[0], headers[1], ("mcp-session-id", id.as_str())];
    assert_eq!(served.send_as(&alice, "POST", "/mcp", &with, list.as_bytes()).status, 200);
    for who in [&bob, &token] {
        assert_eq!(served.send_as(who, "POST", "/mcp", &with, list.as_bytes()).status, 404);
        assert_eq!(served.send_as(who, "DELETE", "/mcp", &with, b"").status, 404);
    }
    assert_eq!(served.send_as(&alice, "POST", "/mcp", &with, list.as_bytes()).status, 200);
    served.stop();
}

#[test]
fn sockets_of_other_sites_are_refused_and_floods_are_bounded() {
    let served = Served::start(&Sandboxd::caller(), &[]);
    let upgrade = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", "mcp"),
    ];
    let evil = [&upgrade[..], &[("origin", "https://evil.example")]].concat();
    for path in ["/mcp", "/mcp/ws"] {
        assert_eq!(head(&mut served.open(&served.token, "GET", path, &evil, b"")).0, 403, "{path}");
        assert_eq!(head(&mut served.open("wrong", "GET", path, &upgrade, b"")).0, 401, "{path}");
        assert_eq!(head(&mut served.open(&served.token, "GET", path, &upgrade, b"")).0, 101, "{path}");
    }
    let mut reader = served.open(&served.token, "GET", "/mcp/ws", &upgrade, b"");
    assert_eq!(head(&mut reader).0, 101);
    let mut stream = reader.get_ref().try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.write_all(&frame(&line(&initialize(1)))).unwrap();
    // Nobody reads the answers: it stops reading questions, and its memory stays where it was.
    let pid = served.running.as_ref().unwrap().pid();
    let before = resident(pid);
    let question = frame(&line(&json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"})));
    let mut sent = 0;
    while sent < 200_000 && stream.write_all(&question).is_ok() {
        sent += 1;
    }
    let grown = resident(pid).saturating_sub(before);
    assert!(grown < 256 << 20, "{} MiB more after {sent} questions", grown >> 20);
    drop((reader, stream));
    assert_eq!(served.get("/health").status, 200);
    served.stop();
}

#[test]
fn a_socket_is_no_way_around_what_a_key_may() {
    let served = Served::start(&Sandboxd::caller(), &[]);
    let limits = json!({"requests_per_minute": 10, "burst": 10});
    let key = json!({"name": "slow", "tenant": "slow", "scopes": ["run"], "limits": limits});
    let key = served.post("/api/v1/keys", &key).is(201);
    let (token, id) = (key["token"].as_str().unwrap(), key["id"].as_str().unwrap());
    let upgrade = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let mut reader = served.open(token, "GET", "/mcp/ws", &upgrade, b"");
    assert_eq!(head(&mut reader).0, 101);
    let mut stream = reader.get_ref().try_clone().unwrap();
    stream.write_all(&frame(&line(&initialize(1)))).unwrap();
    for id in 2..22 {
        stream.write_all(&frame(&line(&call(id, "list_sandboxes", json!({}))))).unwrap();
    }
    let mut said = Vec::new();
    while said.iter().filter(|text: &&String| text.contains("\"id\":")).count() < 21 {
        said.push(heard(&mut reader).unwrap());
    }
    let refused = said.iter().filter(|text| text.contains("more often than it may")).count();
    assert!((10..=19).contains(&refused), "{refused} of 20 refused: {said:?}");
    // What its scopes do not say it does not get.
    let file = json!({"ref": {"type": "ref/resource", "uri": "x"}, "argument": {"name": "path", "value": ""}, "context": {"arguments": {"sandbox_id": "s"}}});
    let complete = json!({"jsonrpc": "2.0", "id": 50, "method": "completion/complete", "params": file});
    let other = json!({"name": "other", "tenant": "slow", "scopes": ["run"]});
    let other = served.post("/api/v1/keys", &other).is(201)["token"].as_str().unwrap().to_owned();
    assert!(modern(&served, &other, &complete, &[]).text().contains("scope"));
    served.delete(&format!("/api/v1/keys/{id}")).is(204);
    reader.get_ref().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let since = Instant::now();
    while heard(&mut reader).is_some() {}
    assert!(since.elapsed() < Duration::from_secs(15), "a revoked key keeps its socket");
    served.stop();
}

/// The next message of a server; none when it has closed the socket.
fn heard(reader: &mut impl Read) -> Option<String> {
    let mut start = [0; 2];
    reader.read_exact(&mut start).ok()?;
    let length = match start[1] {
        126 => {
            let mut more = [0; 2];
            reader.read_exact(&mut more).ok()?;
            usize::from(u16::from_be_bytes(more))
        }
        short => usize::from(short),
    };
    let mut text = vec![0; length];
    reader.read_exact(&mut text).ok()?;
    (start[0] & 0x0f != 8).then(|| String::from_utf8(text).unwrap())
}

/// A message of a client: text, whole, behind a mask of zeroes.
fn frame(text: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match text.len() {
        short @ 0..126 => frame.push(0x80 | short as u8),
        long => {
            frame.push(0x80 | 126);
            frame.extend((long as u16).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text);
    frame
}
