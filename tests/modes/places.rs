//! The same value wherever a program runs: by a server, in a sandbox that waited, in one that lives, in none.

use super::{LANGUAGES, echo, handler, has_value};
use crate::support::{Sandboxd, alone};
use engine::limits::Ceiling;
use engine::{Engine, Execution, Mode, PoolSettings, Request, SandboxSpec, Start, Status};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

#[test]
fn without_isolation_it_is_the_same() {
    let who = Sandboxd::caller();
    for language in LANGUAGES {
        let record = handler(&who, language, echo(language))
            .arg("--event", "[0]")
            .flag("--unsafe-no-isolation")
            .json();
        has_value(&record, &json!([0]));
    }
}

#[test]
fn a_server_answers_with_the_value() {
    let who = Sandboxd::caller();
    let folder = who.folder();
    let (socket, state) = (folder.path().join("socket"), folder.path().join("state"));
    let server = who.command(["serve"]).arg("--unix-socket", &socket).arg("--state-dir", &state).start();
    server.until_it_complains("\"ready\"");
    let token = std::fs::read_to_string(state.join("token")).unwrap();
    let ask = |body: Value| {
        let body = body.to_string();
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(
            stream,
            "POST /api/v1/execute HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            token.trim(),
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str::<Value>(body).unwrap_or_else(|e| panic!("{e}: {answer}")))
    };
    let code = "def handler(event, context):\n    print('said')\n    return [event, context.function_name]";
    let (status, record) = ask(json!({
        "language": "python", "mode": "handler", "code": code, "event": {"n": 0.1 + 0.2}, "context": {"function_name": "f"}
    }));
    assert_eq!((status, &record["return_value"]), (200, &json!([{"n": 0.1 + 0.2}, "f"])), "{record}");
    assert_eq!((&record["return_value_set"], &record["stdout"]), (&json!(true), &json!("said\n")));
    let (status, record) = ask(json!({"language": "js", "mode": "evaluate", "code": "null"}));
    assert_eq!((status, &record["return_value_set"]), (200, &json!(true)), "{record}");
    let (status, record) = ask(json!({"language": "python", "mode": "handler", "code": "1"}));
    assert_eq!(
        (status, &record["status"], &record["exit_code"]),
        (200, &json!("failed"), &json!(1)),
        "{record}"
    );
    for (body, field) in [
        (json!({"language": "bash", "mode": "handler", "code": "true"}), "mode"),
        (json!({"language": "python", "code": "1", "event": {}}), "event"),
        (json!({"language": "python", "mode": "handler", "code": "1", "event": {"__timeout": 0}}), "event"),
        (json!({"language": "python", "mode": "handler", "code": "1", "context": {"x": 1}}), "context"),
    ] {
        let (status, problem) = ask(body);
        assert_eq!(status, 422, "{problem}");
        assert!(problem.to_string().contains(field), "{problem}");
    }
    server.signal(Signal::TERM);
    server.out(Duration::from_secs(20)).exits(0);
}

/// What an engine of our own makes of a program.
async fn execute(engine: &Engine, request: &Request) -> Execution {
    let (events, mut happening) = mpsc::channel(64);
    let work = async {
        let done = engine.execute(request, &events).await.unwrap();
        drop(events);
        done
    };
    tokio::join!(work, async { while happening.recv().await.is_some() {} }).0
}

fn request(code: &str, event: Value) -> Request {
    Request { mode: Mode::Handler { event, context: Map::new() }, ..Request::new("python", code) }
}

fn with_engine<F: Future<Output = ()>>(work: impl FnOnce(Engine) -> F) {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let engine = Engine::new(Sandboxd::caller().binary("sandbox-executor"), Ceiling::default());
    runtime.block_on(work(engine));
}

#[test]
fn a_sandbox_that_waited_gives_the_same_value() {
    with_engine(|mut engine| async move {
        engine.keep_warm(PoolSettings { min: 1, max: 2, ..PoolSettings::default() });
        let code = "import os\ndef handler(event, context):\n    print(len(event))\n    return event";
        let event = json!({"text": "x".repeat(300_000), "none": null});
        let mut starts = Vec::new();
        for _ in 0..50 {
            let done = execute(&engine, &request(code, event.clone())).await;
            assert_eq!(
                (done.status, &done.return_value),
                (Status::Success, &Some(event.clone())),
                "{:?}",
                done.error
            );
            assert!(done.return_value_set && done.artifacts.is_empty(), "{:?}", done.artifacts);
            starts.push(done.start);
            if starts.last() == Some(&Start::Ready) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(starts.last(), Some(&Start::Ready), "{starts:?}");
    });
}

#[test]
fn programs_of_one_sandbox_do_not_get_the_value_of_another() {
    with_engine(|engine| async move {
        let sandbox = Arc::new(engine).open(&SandboxSpec::default()).await.unwrap();
        let run = |code: &'static str| {
            let (events, mut happening) = mpsc::channel(64);
            let work = sandbox.execute(request(code, json!(1)), events);
            async move { tokio::join!(work, async { while happening.recv().await.is_some() {} }).0.unwrap() }
        };
        let first = run("def handler(event):\n    open('kept', 'w').write('x')\n    return event").await;
        assert_eq!(
            (first.status, first.return_value),
            (Status::Success, Some(json!(1))),
            "{:?}",
            first.error
        );
        let second = run("import os\ndef handler(event):\n    os._exit(0)").await;
        assert_eq!(
            (second.status, second.exit_code, second.return_value_set),
            (Status::Failed, Some(3), false)
        );
        let third = run(
            "import os\ndef handler(event):\n    return sorted(os.listdir('/build/call') + os.listdir('.'))",
        )
        .await;
        assert_eq!(third.return_value, Some(json!(["kept", "main.py", "python.py"])), "{:?}", third.error);
        sandbox.close();
        sandbox.gone().await;
    });
}
