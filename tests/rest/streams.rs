//! Output while a program runs: server-sent events and WebSockets.

use super::*;

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
