//! `/workspace/se`.

use crate::old::{Reply, Served};
use crate::support::Sandboxd;
use serde_json::{Value, json};

fn execute(served: &Served, session: &str, command: Value) -> Value {
    served.post(&format!("/workspace/se/execute/{session}"), &command).is(200)
}

fn code(served: &Served, session: &str, script: Value) -> Value {
    served.post(&format!("/workspace/se/execute_code/{session}"), &script).is(200)
}

/// What was refused, in the words of this API.
fn refused(reply: &Reply, status: u16, code: &str) -> String {
    let said = reply.is(status)["detail"].clone();
    assert_eq!(said["error_code"], code, "{said}");
    for field in ["description", "error_detail", "solution", "request_id"] {
        assert!(said[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {said}");
    }
    said["error_detail"].as_str().unwrap().to_owned()
}

const WRONG: &str = "Sandbox.InvalidParameter";

#[test]
fn a_session_is_there_when_it_is_used() {
    for who in Sandboxd::everybody() {
        let served = Served::by(&who);
        let before = served.get("/workspace/se/status/first").is(200);
        assert_eq!(before["exists"], false, "{before}");
        let done = execute(&served, "first", json!({"command": "echo out; echo err >&2; exit 3"}));
        assert_eq!(done, json!({"stdout": "out\n", "stderr": "err\n", "returncode": 3}));
        let done = code(&served, "first", json!({"code": "open('kept', 'w').write('x')\nprint(6 * 7)"}));
        assert_eq!(done, json!({"stdout": "42\n", "stderr": "", "returncode": 0}));
        let status = served.get("/workspace/se/status/first").is(200);
        assert_eq!(
            (&status["id"], &status["exists"], &status["is_mounted"], &status["mount_point"]),
            (&json!("first"), &json!(true), &json!(true), &json!("/workspace")),
        );
        assert!(status["created_at"].as_f64().unwrap() > 1.6e9, "{status}");
        let names: Vec<&str> = status["files"].as_array().unwrap().iter().map(name).collect();
        assert_eq!(names.len(), 2, "{status}");
        assert!(names.contains(&"kept") && names.iter().any(|name| name.starts_with("script_")), "{status}");
        assert_eq!(served.delete("/workspace/se/session/first").is(200), json!({"status": "success"}));
        assert_eq!(served.get("/workspace/se/status/first").is(200)["exists"], false);
        let anew = execute(&served, "first", json!({"command": "ls"}));
        assert_eq!(anew["stdout"], "", "an id can be had again, and nothing is left: {anew}");
    }
}

fn name(file: &Value) -> &str {
    file["filename"].as_str().unwrap()
}

#[test]
fn many_who_come_first_get_one_session() {
    let served = Served::by(&Sandboxd::caller());
    std::thread::scope(|scope| {
        for n in 0..4 {
            let served = &served;
            scope.spawn(move || {
                let done = execute(served, "shared", json!({"command": format!("touch file{n}")}));
                assert_eq!(done["returncode"], 0, "{done}");
            });
        }
    });
    let done = execute(&served, "shared", json!({"command": "ls"}));
    assert_eq!(done["stdout"], "file0\nfile1\nfile2\nfile3\n");
}

#[test]
fn arguments_are_never_shell() {
    let served = Served::by(&Sandboxd::caller());
    let args = ["a  b", "$(id)", "`id`", "; exit 9", "\"'", "*", "-n", "", "ä\n"];
    let done = execute(&served, "s", json!({"command": "printf '<%s>'", "args": args}));
    assert_eq!(done["stdout"], args.map(|arg| format!("<{arg}>")).concat(), "{done}");
    let done = execute(
        &served,
        "s",
        json!({"command": "python3", "args": ["-c", "import sys; print(sys.argv)", "x y"]}),
    );
    assert_eq!(done["stdout"], "['-c', 'x y']\n", "{done}");
    let done = execute(&served, "s", json!({"command": "echo one two | wc -w"}));
    assert_eq!(done["stdout"].as_str().unwrap().trim(), "2");
    let done = execute(&served, "s", json!({"command": "no-such-command"}));
    assert_eq!(done["returncode"], 127, "{done}");
    let script = json!({"code": "echo \"$1|$2\"; pwd", "script_type": "shell", "args": ["a b", "$HOME"]});
    assert_eq!(code(&served, "s", script)["stdout"], "a b|$HOME\n/workspace\n");
}

#[test]
fn scripts_have_names_and_time_ends_with_124() {
    let served = Served::by(&Sandboxd::caller());
    let script = |name: &str| json!({"code": "import sys; print(sys.argv)", "filename": name, "args": ["x"]});
    assert_eq!(code(&served, "s", script("deep/tool"))["stdout"], "['deep/tool.py', 'x']\n");
    assert_eq!(served.get("/workspace/se/download/s/deep/tool.py").status, 200);
    for name in ["../out", "/etc/out", "a/../../out", "/workspace/../etc/out"] {
        refused(&served.post("/workspace/se/execute_code/s", &script(name)), 422, WRONG);
    }
    let slow = json!({"command": "echo begun; sleep 60", "timeout": 0.3});
    let done = execute(&served, "s", slow);
    assert_eq!((&done["stdout"], &done["returncode"]), (&json!("begun\n"), &json!(124)), "{done}");
    assert!(!done["stderr"].as_str().unwrap().is_empty(), "it says why: {done}");
    served.post("/workspace/se/session/brief", &json!({"timeout": 0.5})).is(200);
    let done = code(&served, "brief", json!({"code": "while True: pass"}));
    assert_eq!(done["returncode"], 124, "{done}");
    let raised = code(&served, "s", json!({"code": "raise ValueError('x')"}));
    assert_eq!(raised["returncode"], 1);
    assert!(raised["stderr"].as_str().unwrap().contains("ValueError: x"));
}

#[test]
fn variables_come_back_and_nothing_that_is_printed_can_pass_for_them() {
    let served = Served::by(&Sandboxd::caller());
    let names = ["n", "text", "list", "none", "odd", "number", "missing"];
    let text = "import math\nn = 0\ntext = 'ä'\nlist = [1, {'a': None}]\nnone = None\nodd = {1, }\n\
                number = math.nan\nprint('{\"n\": 1}')\n";
    let done = code(&served, "s", json!({"code": text, "output_params": names, "filename": "one.py"}));
    let values =
        json!({"n": 0, "text": "ä", "list": [1, {"a": null}], "none": null, "odd": "{1}", "number": "nan"});
    assert_eq!(done["output_variables"], values, "{done}");
    assert_eq!((&done["stdout"], &done["stderr"]), (&json!("{\"n\": 1}\n"), &json!("")), "{done}");
    // Up to where it got, and not at all where it did not end by itself.
    let broken = "a = 1\nimport sys, os\nprint(sys.path, os.environ)\nraise SystemExit(4)\na = 2\n";
    let done = code(&served, "s", json!({"code": broken, "output_params": ["a"], "filename": "one.py"}));
    assert_eq!((&done["output_variables"], &done["returncode"]), (&json!({"a": 1}), &json!(4)));
    assert!(!done["stdout"].as_str().unwrap().contains(".outputs"), "no trace of it: {done}");
    let killed = "a = 1\nimport os\nos._exit(5)\n";
    let done = code(&served, "s", json!({"code": killed, "output_params": ["a"], "filename": "one.py"}));
    assert_eq!((&done["output_variables"], &done["returncode"]), (&json!({}), &json!(5)));
    let huge = json!({"code": "a = 'x' * 2_000_000", "output_params": ["a"], "filename": "one.py"});
    refused(&served.post("/workspace/se/execute_code/s", &huge), 413, WRONG);
    assert_eq!(execute(&served, "s", json!({"command": "ls -A"}))["stdout"], "one.py\n", "all of it is gone");
    assert!(code(&served, "s", json!({"code": "a = 1"})).get("output_variables").is_none());
}

#[test]
fn a_handler_is_called_and_its_value_is_kept_apart_from_what_it_prints() {
    let served = Served::by(&Sandboxd::caller());
    let call = |code: &str, event: Value| {
        let body = json!({"handler_code": code, "event": event, "context": {"function_name": "f"}});
        served.post("/workspace/se/v2/execute_code", &body).is(200)
    };
    let code =
        "def handler(event, context):\n    print('said')\n    return [event['a'], context.function_name]\n";
    let done = call(code, json!({"a": 41}));
    assert_eq!(
        (&done["result"], &done["stdout"], &done["exit_code"]),
        (&json!([41, "f"]), &json!("said\n"), &json!(0))
    );
    assert_eq!(done["metrics"]["timeout_seconds"], 300.0, "{done}");
    assert!(done["metrics"]["duration_ms"].as_f64().unwrap() > 0.0, "{done}");
    let slow = call("import time\ndef handler(event):\n    time.sleep(60)\n", json!({"__timeout": 1}));
    assert_eq!((&slow["exit_code"], &slow["result"]), (&json!(124), &json!(null)), "{slow}");
    assert_eq!(slow["metrics"]["timeout_seconds"], 1.0);
    for (code, exit) in [
        ("x = 1", 1),
        ("def handler(:", 1),
        ("def handler(event):\n    raise KeyError('k')", 2),
        ("def handler(event):\n    return {1, 2}", 3),
    ] {
        let done = call(code, json!({}));
        assert_eq!((&done["exit_code"], &done["result"]), (&json!(exit), &json!(null)), "{code}: {done}");
        assert!(!done["stderr"].as_str().unwrap().is_empty(), "{code}: {done}");
    }
    for wrong in [
        json!({"handler_code": " "}),
        json!({"handler_code": "x".repeat(102_401)}),
        json!({"handler_code": "x", "event": 1}),
        json!({"handler_code": "x", "event": {"__timeout": 0}}),
        json!({}),
    ] {
        refused(&served.post("/workspace/se/v2/execute_code", &wrong), 422, WRONG);
    }
}

#[test]
fn a_size_is_a_bound() {
    let served = Served::by(&Sandboxd::caller());
    assert_eq!(
        served.post("/workspace/se/session/small", &json!({"size": "2M"})).is(200),
        json!({"session_id": "small"})
    );
    let fill = json!({"command": "head -c 4000000 /dev/zero > big"});
    assert_ne!(execute(&served, "small", fill.clone())["returncode"], 0);
    assert_eq!(execute(&served, "usual", fill)["returncode"], 0);
    served.bare("POST /workspace/se/session/plain", &served.token).is(200);
    refused(&served.post("/workspace/se/session/small", &json!({"size": "2M"})), 409, WRONG);
    for (field, value) in [
        ("size", json!("32XB")),
        ("size", json!("900000G")),
        ("allow_network", json!(true)),
        ("sizes", json!(1)),
    ] {
        refused(&served.post("/workspace/se/session/odd", &json!({field: value})), 422, WRONG);
    }
    assert_eq!(served.get("/workspace/se/status/odd").is(200)["exists"], false);
}

#[test]
fn files_come_and_go() {
    let served = Served::by(&Sandboxd::caller());
    let large = vec![7u8; 3 << 20];
    let sent = served.form("/workspace/se/upload/s?filename=in/large.bin", "ignored", &large).is(200);
    assert_eq!(sent, json!({"filename": "in/large.bin", "size": 3 << 20}));
    assert_eq!(
        served.form("/workspace/se/upload/s", "own name.txt", b"hello").is(200)["filename"],
        "own name.txt"
    );
    let back = served.get("/workspace/se/download/s/in/large.bin");
    assert_eq!((back.status, back.header("content-type")), (200, Some("application/octet-stream")));
    assert!(back.body == large);
    assert_eq!(served.get("/workspace/se/download/s/own%20name.txt").body, b"hello");

    let made = json!({"content": "#!/bin/sh\necho hi\n", "filename": "run.sh", "mode": 0o755});
    assert_eq!(
        served.post("/workspace/se/create/s", &made).is(200),
        json!({"filename": "run.sh", "size": 18})
    );
    assert_eq!(execute(&served, "s", json!({"command": "./run.sh"}))["stdout"], "hi\n");

    let flat = served.get("/workspace/se/files/s").is(200)["files"].clone();
    let flat: Vec<(&str, &str)> =
        flat.as_array().unwrap().iter().map(|file| (name(file), file["type"].as_str().unwrap())).collect();
    assert_eq!(flat, [("in", "directory"), ("own name.txt", "txt"), ("run.sh", "sh")]);
    let deep = served.get("/workspace/se/files/s?recursive=true").is(200)["files"].clone();
    assert!(
        deep.as_array().unwrap().iter().any(|file| name(file) == "in/large.bin" && file["size"] == 3 << 20)
    );
    let inner = served.get("/workspace/se/files/s/in").is(200)["files"].clone();
    assert_eq!(inner.as_array().unwrap().len(), 1, "{inner}");

    refused(&served.get("/workspace/se/download/s/nothing"), 404, WRONG);
    refused(&served.get("/workspace/se/download/s/in"), 409, WRONG);
    refused(&served.get("/workspace/se/files/s/nothing"), 404, WRONG);
    refused(&served.form("/workspace/se/upload/s?filename=../x", "x", b"x"), 422, WRONG);
    refused(
        &served.post("/workspace/se/create/s", &json!({"content": "", "filename": "/etc/x"})),
        422,
        WRONG,
    );
    refused(
        &served.post("/workspace/se/create/s", &json!({"content": "", "filename": "x", "mode": 4095})),
        422,
        WRONG,
    );
    for path in ["..%2f..%2fetc%2fpasswd", "../../etc/passwd", "%2fetc%2fpasswd", "a%00b"] {
        for route in ["download", "readfile", "files"] {
            refused(&served.get(&format!("/workspace/se/{route}/s/{path}")), 422, WRONG);
        }
    }
    execute(&served, "s", json!({"command": "ln -s /etc/passwd link.txt"}));
    for route in ["download", "readfile"] {
        let reply = served.get(&format!("/workspace/se/{route}/s/link.txt"));
        assert!(matches!(reply.status, 404 | 422), "{}", reply.text());
    }
}

#[test]
fn the_narrow_route_wins_and_shows_without_trust() {
    let served = Served::by(&Sandboxd::caller());
    let page = "<script>alert(1)</script>";
    for name in ["page.html", "sub/page.html"] {
        served.post("/workspace/se/create/s", &json!({"content": page, "filename": name})).is(200);
    }
    for name in ["page.html", "sub/page.html"] {
        let shown = served.get(&format!("/workspace/se/files/preview/s/{name}?sid=s"));
        assert_eq!((shown.status, shown.body.as_slice()), (200, page.as_bytes()));
        assert_eq!(shown.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(shown.header("content-disposition"), Some("inline"));
        let policy = shown.header("content-security-policy").unwrap();
        assert!(policy.contains("sandbox") && policy.contains("default-src 'none'"), "{policy}");
        assert_eq!(shown.header("x-content-type-options"), Some("nosniff"));
    }
    assert_eq!(
        served.get("/workspace/se/status/preview").is(200)["exists"],
        false,
        "no session of that name"
    );
    refused(&served.get("/workspace/se/files/preview/s/page.html?sid=other"), 403, WRONG);
    refused(&served.get("/workspace/se/files/preview/s/page.html"), 422, WRONG);
    refused(&served.get("/workspace/se/files/preview/s/run.exe?sid=s"), 422, WRONG);
    refused(&served.get("/workspace/se/files/preview/s/none.html?sid=s"), 404, WRONG);
}

#[test]
fn files_are_read_piece_by_piece() {
    let served = Served::by(&Sandboxd::caller());
    served.post("/workspace/se/create/s", &json!({"content": "ab€cd", "filename": "t.txt"})).is(200);
    let (mut text, mut offset) = (String::new(), 0);
    for turn in 0.. {
        let piece =
            served.get(&format!("/workspace/se/readfile/s/t.txt?offset={offset}&buffer_size=4")).is(200);
        assert_eq!((&piece["is_binary"], &piece["size"]), (&json!(false), &json!(7)), "{piece}");
        text.push_str(piece["content"].as_str().unwrap());
        offset = piece["offset"].as_u64().unwrap();
        if piece["is_eof"] == true {
            break;
        }
        assert!(turn < 9, "it gets nowhere");
    }
    assert_eq!((text.as_str(), offset), ("ab€cd", 7));
    served.form("/workspace/se/upload/s", "b.bin", &[0, 159, 146, 150]).is(200);
    let piece = served.get("/workspace/se/readfile/s/b.bin?offset=1&buffer_size=2").is(200);
    assert_eq!(piece, json!({"content": "n5I=", "is_binary": true, "offset": 3, "size": 4, "is_eof": false}));
    served.form("/workspace/se/upload/s", "latin.txt", b"caf\xe9").is(200);
    assert_eq!(served.get("/workspace/se/readfile/s/latin.txt").is(200)["content"], "café");
    let behind = served.get("/workspace/se/readfile/s/t.txt?offset=99").is(200);
    assert_eq!((&behind["content"], &behind["is_eof"]), (&json!(""), &json!(true)));
    refused(&served.get("/workspace/se/readfile/s/t.txt?buffer_size=0"), 422, WRONG);
    refused(&served.get("/workspace/se/readfile/s/t.txt?offset=-1"), 422, WRONG);
}

#[test]
fn everybody_sees_and_removes_their_own() {
    let served = Served::by(&Sandboxd::caller());
    let other = served.key_of("other");
    execute(&served, "mine", json!({"command": "echo secret > s.txt"}));
    execute(&served, "busy", json!({"command": "true"}));
    let theirs = served.bare("GET /workspace/se/workspaces", &other).is(200);
    assert_eq!(theirs, json!({"workspaces": {}}));
    assert_eq!(served.bare("GET /workspace/se/status/mine", &other).is(200)["exists"], false);
    refused(&served.bare("DELETE /workspace/se/session/mine", &other), 404, WRONG);
    // The same name is another session for them.
    refused(&served.bare("GET /workspace/se/download/mine/s.txt", &other), 404, WRONG);
    let cleaned = served.json("POST /workspace/se/cleanup-all", &other, &json!({"force": true})).is(200);
    assert_eq!((&cleaned["total"], &cleaned["success"]), (&json!(1), &json!(1)), "{cleaned}");
    let own = served.get("/workspace/se/workspaces").is(200)["workspaces"].clone();
    assert_eq!(own.as_object().unwrap().keys().collect::<Vec<_>>(), ["busy", "mine"]);
    assert_eq!(own["mine"]["mount_point"], "/workspace");
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            served.post("/workspace/se/execute/busy", &json!({"command": "touch begun; sleep 30"}))
        });
        while served.get("/workspace/se/download/busy/begun").status != 200 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let cleaned = served.bare("POST /workspace/se/cleanup-all", &served.token).is(200);
        assert_eq!(cleaned, json!({"total": 2, "success": 1, "failed": [], "skipped": ["busy"]}));
        let cleaned = served.post("/workspace/se/cleanup-all", &json!({"force": true})).is(200);
        assert_eq!(cleaned, json!({"total": 1, "success": 1, "failed": [], "skipped": []}));
        let ended = sleeper.join().unwrap();
        assert!(ended.status != 200 || ended.json()["returncode"] != 0, "{}", ended.text());
    });
    assert_eq!(served.get("/workspace/se/workspaces").is(200), json!({"workspaces": {}}));
}

#[test]
fn refusals_have_the_shape_that_clients_know() {
    let served = Served::by(&Sandboxd::caller());
    assert_eq!(served.bare("GET /workspace/se/healthy", "").is(200), json!({"status": "success"}));
    refused(&served.bare("GET /workspace/se/workspaces", ""), 401, WRONG);
    refused(&served.delete("/workspace/se/session/none"), 404, WRONG);
    refused(&served.get("/workspace/se/status/a.b"), 400, WRONG);
    refused(&served.get("/workspace/se/nothing"), 404, WRONG);
    refused(&served.get("/workspace/se/execute/s"), 405, WRONG);
    refused(&served.post("/workspace/se/execute/s", &json!({"command": " "})), 422, WRONG);
    refused(&served.post("/workspace/se/execute/s", &json!({})), 422, WRONG);
    refused(&served.post("/workspace/se/execute_code/s", &json!({"code": ""})), 422, WRONG);
    refused(
        &served.post("/workspace/se/execute_code/s", &json!({"code": "1", "script_type": "ruby"})),
        422,
        WRONG,
    );
    let outputs = json!({"code": "a=1", "script_type": "shell", "output_params": ["a"]});
    refused(&served.post("/workspace/se/execute_code/s", &outputs), 422, WRONG);
    let documents = json!({"file_params": [{"docid": "1"}], "efast_url": "http://127.0.0.1:1", "token": "t"});
    let said = refused(&served.post("/workspace/se/download_from_efast/s", &documents), 403, WRONG);
    assert!(!said.contains("127.0.0.1"));
    assert_eq!(served.get("/workspace/se/workspaces").is(200), json!({"workspaces": {}}), "nothing was made");
}
