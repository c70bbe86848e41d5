//! Programs that are run for a value: of their handler, or of their last expression.
#![cfg(test)]

mod support;

use engine::limits::Ceiling;
use engine::{Engine, Execution, Mode, PoolSettings, Request, SandboxSpec, Start, Status};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use support::{Record, Run, Sandboxd, alone};
use tokio::sync::mpsc;

const LANGUAGES: [&str; 2] = ["python", "javascript"];
/// Where a host leaves what came of a program.
const PLACE: &str = "/build/call/value.json";

fn handler(who: &Sandboxd, language: &str, code: &str) -> Run {
    who.run(language, code).arg("--mode", "handler")
}

fn evaluate(who: &Sandboxd, language: &str, code: &str) -> Record {
    who.run(language, code).arg("--mode", "evaluate").json()
}

#[track_caller]
fn has_value(record: &Record, value: &Value) {
    record.is("success").must(record["return_value_set"] == true, "a value");
    record.must(record["return_value"] == *value, &format!("the value {value}"));
    record.must(record["error"].is_null(), "no error");
}

/// A failure with this exit code and this message, and nothing of ours in what it shows.
#[track_caller]
fn fails(record: &Record, code: i32, message: &str) {
    record.is("failed").exits(code).must(record["exit_code"] == code, &format!("exit code {code}"));
    record.must(record["return_value_set"] == false && record["return_value"].is_null(), "no value");
    let said = record["error"]["message"].as_str().unwrap_or_default();
    record.must(said.contains(message), &format!("`{message}` in the error `{said}`"));
    record.must(record["error"]["step"] == "run", "step `run`");
    record.must(!record.stderr().contains("/build/"), "nothing of ours on stderr");
}

fn echo(language: &str) -> &'static str {
    if language == "python" {
        "def handler(event):\n    return event"
    } else {
        "const handler = event => event"
    }
}

#[test]
fn every_value_comes_back_as_it_went_in() {
    let falsy = [json!(null), json!(false), json!(0), json!(""), json!([]), json!({})];
    let rest = json!([
        true, -1, 9_007_199_254_740_991_i64, 1.5, 0.1 + 0.2, 5e-324, 31.245270191439438, "héllo ✓ 日本 😀",
        "\u{0}\"\\\n\u{7f}", {"a": {"b": [null, {"": 0}]}, "ключ": "значение"}, [[[]]]
    ]);
    for who in Sandboxd::everybody() {
        for language in LANGUAGES {
            for value in falsy.iter().chain([&rest]) {
                let record = handler(&who, language, echo(language)).arg("--event", value.to_string()).json();
                has_value(&record, value);
                assert!(record.artifacts().is_empty(), "{:?}", record.artifacts());
            }
        }
    }
}

#[test]
fn nothing_that_is_printed_is_a_value() {
    let who = Sandboxd::caller();
    let lines = r#"{"return_value": 1}\n{"value": 1}\n===SANDBOX_RESULT===\n1\n===SANDBOX_RESULT_END===\n"#;
    let printed = lines.replace("\\n", "\n");
    let python = format!(
        "import sys\ndef handler(event):\n    sys.stdout.write('{lines}'); sys.stderr.write('{lines}')"
    );
    let javascript =
        format!("function handler() {{ process.stdout.write('{lines}'); process.stderr.write('{lines}') }}");
    for (language, code) in [("python", python), ("javascript", javascript)] {
        let record = handler(&who, language, &code).json();
        has_value(&record, &Value::Null);
        record.says(&printed).must(record.stderr() == printed, "the same on stderr");
    }
    let script = who.run("python", "print('{\"value\": 1}')").json();
    script.is("success").must(script["return_value_set"] == false, "no value of a script");
}

#[test]
fn a_handler_takes_an_event_and_may_take_a_context() {
    let who = Sandboxd::caller();
    let cases = [
        ("python", "def handler(event):\n    return [event]", json!([{"n": 1}])),
        (
            "python",
            "def handler(event, context):\n    return [event, context.function_name]",
            json!([{"n": 1}, "f"]),
        ),
        ("python", "def handler(event, context=None):\n    return context.function_name", json!("f")),
        ("python", "def handler(*args):\n    return len(args)", json!(2)),
        ("python", "handler = lambda event: event['n']", json!(1)),
        (
            "python",
            "class C:\n    def __call__(self, event, context): return context.function_name\nhandler = C()",
            json!("f"),
        ),
        (
            "python",
            "import functools\n@functools.cache\ndef load(): return 1\nhandler = functools.partial(lambda a, e: a + e['n'], 5)",
            json!(6),
        ),
        (
            "python",
            "import asyncio\nasync def handler(event, context):\n    await asyncio.sleep(0.01)\n    return context.function_name",
            json!("f"),
        ),
        ("javascript", "function handler(event) { return arguments.length }", json!(1)),
        (
            "javascript",
            "const handler = (event, context) => [event, context.function_name]",
            json!([{"n": 1}, "f"]),
        ),
        (
            "javascript",
            "async function handler(event) { await new Promise(r => setTimeout(r, 10)); return event.n }",
            json!(1),
        ),
        ("javascript", "exports.handler = event => Promise.resolve(event.n)", json!(1)),
        ("javascript", "module.exports = event => event.n // no end of line", json!(1)),
        (
            "javascript",
            "import { sep } from 'path'\nexport const handler = async event => event.n + sep",
            json!("1/"),
        ),
        ("javascript", "export default event => event.n", json!(1)),
        (
            "javascript",
            "#!/usr/bin/env node\n'use strict'\nlet handler\nhandler = function () { return this === undefined }",
            json!(true),
        ),
    ];
    for (language, code, value) in cases {
        let record = handler(&who, language, code)
            .options(r#"--event {"n":1} --context {"function_name":"f"}"#)
            .json();
        has_value(&record, &value);
    }
    let typed = "interface Event { n: number }\nexport async function handler(event: Event): Promise<number> { return event.n * 2 }";
    has_value(&handler(&who, "typescript", typed).arg("--event", r#"{"n": 21}"#).json(), &json!(42));
}

#[test]
fn a_context_has_its_usual_fields() {
    let who = Sandboxd::caller();
    let usual = json!(["unknown-function", "$LATEST", "/lambda-sandbox/logs", 3000, 256, null, true, true]);
    let python = "import time\ndef handler(event, c):\n    before = c.get_remaining_time_in_millis()\n    time.sleep(0.05)\n    \
        return [c.function_name, c.function_version, c.log_group_name, c.remaining_time_in_millis, c.memory_limit_in_mb, \
        c.invoked_function_arn, c.request_id != c.log_stream_name, 0 < c.get_remaining_time_in_millis() <= before - 50 < 20000]";
    let javascript = "async function handler(event, c) { const before = c.get_remaining_time_in_millis()\n\
        await new Promise(done => setTimeout(done, 60))\nconst after = c.getRemainingTimeInMillis()\n\
        return [c.function_name, c.function_version, c.log_group_name, c.remaining_time_in_millis, c.memory_limit_in_mb, \
        c.invoked_function_arn, c.request_id !== c.log_stream_name, 0 < after && after <= before - 50 && before < 20000] }";
    for (language, code) in [("python", python), ("javascript", javascript)] {
        has_value(&handler(&who, language, code).arg("--timeout", "20s").json(), &usual);
    }
    let own = r#"{"memory_limit_in_mb": 7, "remaining_time_in_millis": 900}"#;
    let code =
        "def handler(e, c):\n    return [c.memory_limit_in_mb, c.get_remaining_time_in_millis() <= 900]";
    has_value(&handler(&who, "python", code).arg("--context", own).json(), &json!([7, true]));
    let unknown = handler(&who, "python", code).arg("--context", r#"{"memory": 7}"#).out();
    unknown.exits(2).complains_of("`memory` is no part of a context");
}

#[test]
fn who_fails_says_why_and_shows_only_the_program() {
    let cases = [
        ("python", "x = 1", 1, "`def handler(event):`", ""),
        ("python", "handler = 5", 1, "is no function", ""),
        ("python", "def handler(event:\n    pass", 1, "SyntaxError", "main.py\", line 1"),
        ("python", "import missing_module", 1, "ModuleNotFoundError", "main.py\", line 1, in <module>"),
        (
            "python",
            "def handler(event):\n    raise ValueError('boom')",
            2,
            "raised ValueError: boom",
            "main.py\", line 2, in handler",
        ),
        (
            "python",
            "async def handler(event):\n\n    return 1 / 0",
            2,
            "ZeroDivisionError",
            "main.py\", line 3, in handler",
        ),
        ("python", "def handler(event):\n    return {1}", 3, "the value of the handler is no JSON: ", ""),
        ("python", "def handler(event):\n    a = []; a.append(a); return a", 3, "is no JSON: ", ""),
        ("python", "def handler(event):\n    return b'bytes'", 3, "is no JSON: ", ""),
        ("python", "def handler(event):\n    return '\\ud800'", 3, "is no JSON: ", ""),
        ("python", "import sys\ndef handler(event):\n    sys.exit(0)", 3, "it ended before the value", ""),
        ("python", "import sys\ndef handler(event):\n    sys.exit(9)", 9, "exit code 9", ""),
        ("javascript", "const x = 1", 1, "`function handler(event)`", ""),
        ("javascript", "const handler = 5", 1, "is no function", ""),
        ("javascript", "let a\nconst = 1", 1, "SyntaxError", "main.js:2"),
        ("javascript", "import { x } from './missing.mjs'", 1, "missing.mjs", ""),
        ("javascript", "require('./missing')", 1, "Cannot find module", "main.js"),
        (
            "javascript",
            "function handler() {\n  throw new TypeError('boom')\n}",
            2,
            "threw TypeError: boom",
            "main.js:2",
        ),
        ("javascript", "const handler = async () => {\n  null.x\n}", 2, "threw TypeError", "main.js:2"),
        ("javascript", "const handler = () => Promise.reject('plain')", 2, "plain", "plain"),
        ("javascript", "const handler = () => new Promise(() => {})", 2, "never settled", ""),
        ("javascript", "const handler = () => 10n", 3, "the value of the handler is no JSON: ", ""),
        ("javascript", "const handler = () => { const a = {}; a.a = a; return a }", 3, "is no JSON: ", ""),
        ("javascript", "const handler = () => handler", 3, "is no JSON: it is a function", ""),
        ("javascript", "const handler = () => process.exit(0)", 3, "it ended before the value", ""),
    ];
    let who = Sandboxd::caller();
    for (language, code, exit, message, stderr) in cases {
        let record = handler(&who, language, code).json();
        fails(&record, exit, message);
        record.must(record.stderr().contains(stderr), &format!("`{stderr}` on stderr"));
        record.must(
            stderr.is_empty() == record.stderr().is_empty() || language == "javascript",
            "no more than that",
        );
    }
}

#[test]
fn numbers_that_json_has_no_words_for_are_null() {
    let who = Sandboxd::caller();
    let python = "inf = float('inf')\ndef handler(event):\n    return [inf, {'a': (-inf, inf - inf)}, 1.0]";
    has_value(&handler(&who, "python", python).json(), &json!([null, {"a": [null, null]}, 1.0]));
    let javascript = "const handler = () => [Infinity, { a: [-Infinity, NaN], b: undefined }, 1]";
    has_value(&handler(&who, "javascript", javascript).json(), &json!([null, {"a": [null, null]}, 1]));
}

#[test]
fn a_last_expression_has_a_value() {
    let cases = [
        ("python", "6 * 7", json!(42)),
        ("python", "x = 5\n[x,\n x + 1]", json!([5, 6])),
        ("python", "x = 5", json!(null)),
        ("python", "'text'", json!("text")),
        ("python", "", json!(null)),
        (
            "python",
            "from __future__ import annotations\n__name__ + __file__",
            json!("__main__/workspace/main.py"),
        ),
        ("python", "async def f():\n    return False\nf()", json!(false)),
        ("python", "print('said')", json!(null)),
        ("javascript", "6 * 7", json!(42)),
        ("javascript", "const a = [1, 2]\na.map(n => n * 2)", json!([2, 4])),
        ("javascript", "{a: 1}", json!({"a": 1})),
        ("javascript", "{ let x = 1; x + 1 }", json!(2)),
        ("javascript", "let x = 5", json!(null)),
        ("javascript", "", json!(null)),
        ("javascript", "require('path').basename(__filename)", json!("main.js")),
        ("javascript", "import('path').then(path => path.sep)", json!("/")),
        ("javascript", "Promise.resolve('')", json!("")),
    ];
    let who = Sandboxd::caller();
    for (language, code, value) in cases {
        let record = evaluate(&who, language, code);
        has_value(&record, &value);
        record.must(record.stderr().is_empty(), "nothing on stderr");
    }
    for (language, code, exit, message) in [
        ("python", "1 +", 1, "SyntaxError"),
        ("python", "1 / 0", 1, "ZeroDivisionError"),
        ("python", "{1, 2}", 3, "the value is no JSON"),
        ("javascript", "const = 1", 1, "SyntaxError"),
        ("javascript", "null.x", 1, "TypeError"),
        ("javascript", "(() => 1)", 3, "the value is no JSON"),
    ] {
        fails(&evaluate(&who, language, code), exit, message);
    }
}

#[test]
fn a_program_is_itself_and_has_its_own_files_beside_it() {
    let who = Sandboxd::caller();
    let folder = who.folder();
    let json = who.write(&folder.path().join("json.py"), "own = True");
    let helper = who.write(&folder.path().join("helper.js"), "module.exports = 5");
    let code = "import json, sys, pickle\nclass C: pass\ndef handler(event):\n    open('made', 'w').write('x')\n    \
        return [json.own, __name__, __file__, sys.argv, sys.path[0], type(pickle.loads(pickle.dumps(C()))) is C]";
    let record = handler(&who, "python", code).arg("--file", &json).words(["a", "b"]).json();
    let main = "/workspace/main.py";
    has_value(&record, &json!([true, "__main__", main, ["main.py", "a", "b"], "/workspace", true]));
    assert_eq!(record.artifacts(), ["made"]);
    let code = "const helper = require('./helper')\nfunction handler() { return [helper, require.main === module, process.argv.slice(1), __filename] }";
    let record = handler(&who, "javascript", code).arg("--file", &helper).words(["a"]).json();
    let main = "/workspace/main.js";
    has_value(&record, &json!([5, true, [main, "a"], main]));
    let child = "import os\ndef handler(event):\n    if os.fork() == 0:\n        return 'child'\n    os.wait()\n    return 'parent'";
    has_value(&handler(&who, "python", child).json(), &json!("parent"));
}

#[test]
fn what_a_program_plants_is_its_own_value_or_none() {
    let plant = |code: &str| {
        format!(
            "import os\ndef handler(event):\n    place = '{PLACE}'\n    {code}\n    import sys; sys.stdout.flush(); os._exit(0)"
        )
    };
    for who in Sandboxd::everybody() {
        let own = handler(&who, "python", &plant("open(place, 'w').write('{\"value\": [7]}')")).json();
        has_value(&own, &json!([7]));
        for (code, message) in [
            ("open(place, 'w').write('{\"value\": ')", "no JSON"),
            ("open(place, 'w').write('7')", "no JSON"),
            ("open(place, 'w').write('{\"value\":' + '[' * 9999 + ']' * 9999 + '}')", "no JSON"),
            ("open(place, 'w').truncate(200 << 20)", "larger than 1M"),
            ("os.symlink('/etc/passwd', place)", "cannot be read"),
            ("os.mkfifo(place)", "cannot be read"),
            ("os.mkdir(place)", "cannot be read"),
            ("os.rename('/build/call', '/build/away'); os.symlink('/etc', '/build/call')", "cannot be read"),
            ("open(place, 'w').write('{\"failure\": \"forged\"}')", "forged"),
        ] {
            let record = handler(&who, "python", &plant(code)).json();
            record.ends_within(20);
            fails(&record, 3, message);
        }
    }
}

#[test]
fn large_events_go_in_and_large_values_do_not_come_out() {
    let who = Sandboxd::caller();
    let folder = who.folder();
    let text = "é".repeat(2_500_000);
    let event = who.write(&folder.path().join("event.json"), json!({"text": text}).to_string());
    let python = "def handler(event):\n    return [len(event['text']), event['text'][-1]]";
    let javascript = "const handler = event => [event.text.length, event.text.at(-1)]";
    for (language, code) in [("python", python), ("javascript", javascript)] {
        let record = handler(&who, language, code).arg("--event-file", &event).json();
        has_value(&record, &json!([2_500_000, "é"]));
    }
    let most = 1 << 20;
    for (language, code) in [
        ("python", "def handler(event):\n    return 'x' * event"),
        ("javascript", "const handler = event => 'x'.repeat(event)"),
    ] {
        let run = |length: usize| handler(&who, language, code).arg("--event", length.to_string()).json();
        has_value(&run(most - 2), &json!("x".repeat(most - 2)));
        for length in [most - 1, 2 << 20] {
            fails(&run(length), 3, "at most 1048576 are allowed");
        }
    }
    let huge = who.write(&folder.path().join("huge.json"), json!("x".repeat(17 << 20)).to_string());
    handler(&who, "python", python).arg("--event-file", &huge).out().exits(2).complains_of("is too large");
}

#[test]
fn an_event_sets_the_time_unless_the_request_does() {
    let who = Sandboxd::caller();
    let code = "import time\ndef handler(event):\n    time.sleep(event['sleep'])\n    return 'slept'";
    let run = |event: Value| handler(&who, "python", code).arg("--event", event.to_string());
    let late = run(json!({"__timeout": 1, "sleep": 30})).json();
    late.is("timed_out").ends_within(10).must(late["return_value_set"] == false, "no value");
    late.must(late["error"]["message"].as_str().unwrap().contains("1s"), "the time in the error");
    has_value(&run(json!({"__timeout": 1, "sleep": 1.5})).arg("--timeout", "20s").json(), &json!("slept"));
    for wrong in [json!(0), json!(3601), json!("5")] {
        run(json!({"__timeout": wrong, "sleep": 0})).out().exits(2).complains_of("`__timeout`");
    }
}

#[test]
fn wrong_requests_name_what_is_wrong() {
    let who = Sandboxd::caller();
    let bash = handler(&who, "bash", "true").out();
    bash.exits(2).complains_of("Bash has no mode `handler`");
    assert!(bash.complaint().contains("javascript, python, typescript"), "{}", bash.complaint());
    who.run("typescript", "1")
        .arg("--mode", "evaluate")
        .out()
        .exits(2)
        .complains_of("has no mode `evaluate`");
    who.run("python", "1").arg("--event", "{}").out().exits(2).complains_of("only a handler has one");
    handler(&who, "python", "1").arg("--event", "{").out().exits(2).complains_of("it is not JSON");
    handler(&who, "python", "1").arg("--context", "[]").out().exits(2).complains_of("an object of JSON");
    who.run("python", "1").arg("--mode", "other").out().is_misuse_of("other");
}

#[test]
fn people_see_the_value_after_the_output() {
    let who = Sandboxd::caller();
    let code = "import sys\ndef handler(event):\n    sys.stdout.write(event)\n    return {'said': event}";
    let run = |event: &str| handler(&who, "python", code).arg("--event", event).out();
    run("\"a\\n\"").exits(0).is_quiet().says("a\n{\"said\":\"a\\n\"}\n");
    run("\"a\"").exits(0).is_quiet().says("a\n{\"said\":\"a\"}\n");
    let failed = handler(&who, "python", "def handler(event):\n    return {1}").out();
    failed
        .exits(3)
        .says("")
        .must(failed.complaint().starts_with("error: the value of the handler is no JSON"), "why");
}

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
