//! Traces: what a real receiver of OTLP gets, from a server that runs real programs.
#![cfg(test)]

mod support;

use engine::Engine;
use engine::control::{ControlPlane, ControlSettings};
use engine::limits::Ceiling;
use engine::storage::{DatabaseUrl, Objects, Store, StoreSettings};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Given;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use server::traces::Traces;
use server::{Address, Options, Server, logs};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use support::{Sandboxd, alone};

type Got = Arc<Mutex<Vec<(String, ExportTraceServiceRequest)>>>;

/// Somebody who takes traces over HTTP, and the path each came by.
fn receiver() -> (SocketAddr, Got) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, got) = (listener.local_addr().unwrap(), Got::default());
    let kept = got.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, kept) = (stream.unwrap(), kept.clone());
            std::thread::spawn(move || take(stream, &kept));
        }
    });
    (address, got)
}

fn take(stream: TcpStream, kept: &Got) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
        kept.lock().unwrap().push((head[0].clone(), request));
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
    }
}

fn post(address: SocketAddr, token: &str, path: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let text = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|one| one.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Given::StringValue(text) => Some(text.clone()),
        Given::IntValue(number) => Some(number.to_string()),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_request_is_followed_down_to_its_program() {
    let _alone = alone();
    let (collector, got) = receiver();
    let traces = Traces::start(&format!("http://{collector}/")).unwrap();
    logs::start("warn", logs::Format::Json, Some(&traces)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let url: DatabaseUrl = format!("sqlite://{}/db", folder.path().display()).parse().unwrap();
        let objects = Objects::in_directory(&folder.path().join("objects")).unwrap();
        let store = Arc::new(Store::open(&url, objects, StoreSettings::default()).await.unwrap());
        let engine = Arc::new(Engine::new(Sandboxd::caller().binary("sandbox-executor"), Ceiling::default()));
        let plane = ControlPlane::start(engine, store.clone(), ControlSettings::default()).await.unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let options =
            Options { address, state_dir: state.clone(), socket_activation: false, ..Options::default() };
        let server = Server::bind(options, plane).await.unwrap();
        let Address::Tcp(address) = *server.address() else { panic!("{:?}", server.address()) };
        let token = std::fs::read_to_string(state.join("token")).unwrap().trim().to_owned();
        let (stop, told) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(server.run(told));
        let program = r#"{"language": "bash", "code": "echo hunter2; exit 3"}"#;
        tokio::task::spawn_blocking(move || {
            let named = "X-Request-ID: traced-1\r\n";
            let answer = post(address, &token, "/api/v1/execute", named, program);
            assert!(answer.contains("hunter2"), "{answer}");
            let later = "Prefer: respond-async\r\nX-Request-ID: traced-2\r\n";
            let answer = post(address, &token, "/api/v1/execute", later, program);
            assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
        })
        .await
        .unwrap();
        // Until the second program has ended.
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !store.unfinished(None, 10).await.unwrap().items.is_empty() {
            assert!(std::time::Instant::now() < patience);
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        stop.send(()).unwrap();
        running.await.unwrap().unwrap();
        store.close().await;
    });
    drop(runtime);
    traces.end();

    let got = got.lock().unwrap();
    assert!(!got.is_empty() && got.iter().all(|(line, _)| line.starts_with("POST /v1/traces ")), "{got:?}");
    let resource = got[0].1.resource_spans[0].resource.as_ref().unwrap();
    let service = resource.attributes.iter().find(|one| one.key == "service.name").unwrap();
    assert_eq!(service.value.as_ref().unwrap().value, Some(Given::StringValue("sandboxd".into())));
    let spans: Vec<&Span> = got
        .iter()
        .flat_map(|(_, request)| &request.resource_spans)
        .flat_map(|resource| &resource.scope_spans)
        .flat_map(|scope| &scope.spans)
        .collect();
    let request = |id: &str| {
        let found = spans.iter().find(|span| attribute(span, "request.id").as_deref() == Some(id));
        *found.unwrap_or_else(|| panic!("no {id} in {spans:#?}"))
    };
    let below = |parent: &Span, name: &str| {
        let found = spans.iter().find(|span| span.name == name && span.parent_span_id == parent.span_id);
        let found = *found.unwrap_or_else(|| panic!("no {name} in {spans:#?}"));
        assert_eq!(found.trace_id, parent.trace_id);
        assert!(found.start_time_unix_nano >= parent.start_time_unix_nano);
        assert!(found.end_time_unix_nano <= parent.end_time_unix_nano);
        found
    };
    let first = request("traced-1");
    assert!(first.parent_span_id.is_empty());
    assert_eq!(first.name, "POST /api/v1/execute");
    assert_eq!(attribute(first, "http.route").as_deref(), Some("/api/v1/execute"));
    assert_eq!(attribute(first, "http.response.status_code").as_deref(), Some("200"));
    let execution = below(below(first, "control.execute"), "execution");
    for (name, value) in [
        ("language", "bash"),
        ("isolator", "native"),
        ("start", "cold"),
        ("status", "failed"),
        ("tenant", "default"),
    ] {
        assert_eq!(attribute(execution, name).as_deref(), Some(value), "{execution:?}");
    }
    assert!(attribute(execution, "execution.id").unwrap().starts_with("exec_"));

    // What was only submitted has a trace of its own, which says where it came from.
    let submit = below(request("traced-2"), "control.submit");
    let linked = |span: &&&Span| span.links.iter().any(|link| link.span_id == submit.span_id);
    let later = spans.iter().find(linked).unwrap_or_else(|| panic!("{spans:#?}"));
    assert_eq!((later.name.as_str(), attribute(later, "status").as_deref()), ("execution", Some("failed")));
    assert!(later.parent_span_id.is_empty() && later.trace_id != submit.trace_id);
    assert!(!format!("{spans:?}").contains("hunter2"), "neither code nor output");
}
