//! Programs that are run for a value: of their handler, or of their last expression.
#![cfg(test)]

#[path = "modes/failing.rs"]
mod failing;
#[path = "modes/places.rs"]
mod places;
mod support;

use serde_json::{Value, json};
use support::{Record, Run, Sandboxd};

const LANGUAGES: [&str; 2] = ["python", "javascript"];

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
        ("javascript", "const n = await Promise.resolve(7)\nexport const handler = () => n", json!(7)),
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
