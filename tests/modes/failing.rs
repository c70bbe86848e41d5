//! What goes wrong: programs that have no value, plant one, or ask for too much.

use super::{fails, handler, has_value};
use crate::support::Sandboxd;
use serde_json::{Value, json};

/// Where a host leaves what came of a program.
const PLACE: &str = "/build/call/value.json";

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
    for who in Sandboxd::everybody() {
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
