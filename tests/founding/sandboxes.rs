//! Sandboxes below `/api/v1`, `/api/v2` and `/api`.

use crate::old::{Reply, Served};
use crate::support::Sandboxd;
use serde_json::{Value, json};

pub(crate) const PREFIXES: [(&str, &str); 3] = [("/api/v1", "v1"), ("/api/v2", "v2"), ("/api", "v1")];

fn make(served: &Served, body: Value) -> String {
    served.post("/api/v1/sandboxes", &body).is(201)["id"].as_str().unwrap().to_owned()
}

/// What was refused, in the words of this API.
pub(crate) fn refused(reply: &Reply, status: u16) -> String {
    let said = reply.is(status)["error"].clone();
    assert_eq!(said["code"], status, "{said}");
    assert!(said["timestamp"].is_string() && said["request_id"].is_string(), "{said}");
    said["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_sandbox_lives_below_every_prefix() {
    for who in Sandboxd::everybody() {
        let served = Served::by(&who);
        for (prefix, version) in PREFIXES {
            let wanted = json!({
                "name": "box", "image": "python:3.11", "resources": {"cpu_limit": "0.5", "memory_limit": "256M", "disk_limit": "64M"},
                "environment": {"COLOUR": "red"}, "metadata": {"team": "a"}, "ttl": 600,
            });
            let made = served.post(&format!("{prefix}/sandboxes"), &wanted);
            let sandbox = made.is(201);
            let id = sandbox["id"].as_str().unwrap();
            assert_eq!(id.len(), 36, "a UUID: {id}");
            let place = format!("/api/{version}/sandboxes/{id}");
            assert_eq!(made.header("location"), Some(place.as_str()));
            for (field, value) in [("name", "box"), ("image", "python:3.11"), ("status", "running")] {
                assert_eq!(sandbox[field], value, "{sandbox}");
            }
            assert_eq!(sandbox["metadata"], json!({"team": "a"}));
            assert_eq!(
                sandbox["resources"],
                json!({"cpu_limit": 0.5, "memory_limit": 256 << 20, "disk_limit": 64 << 20})
            );
            assert!(sandbox["expires_at"].as_str().unwrap() > sandbox["created_at"].as_str().unwrap());

            let path = format!("{prefix}/sandboxes/{id}");
            assert_eq!(served.get(&path).is(200)["id"], id);
            let exec = json!({"command": "printenv COLOUR"});
            let done = served.post(&format!("{path}/exec"), &exec).is(200);
            assert_eq!((&done["stdout"], &done["exit_code"]), (&json!("red\n"), &json!(0)), "{done}");
            let list = served.get(&format!("{prefix}/sandboxes")).is(200);
            assert_eq!((&list["total"], &list["version"]), (&json!(1), &json!(version)), "{list}");
            assert_eq!(list["data"][0]["id"], id);
            assert!(list["timestamp"].is_string());
            assert_eq!(served.delete(&path).status, 204);
            refused(&served.get(&path), 404);
            refused(&served.delete(&path), 404);
        }
    }
}

#[test]
fn lists_come_in_pages() {
    let served = Served::by(&Sandboxd::caller());
    let ids: Vec<String> = (0..3).map(|_| make(&served, json!({"image": "python-basic"}))).collect();
    let page = |query: &str| served.get(&format!("/api/v1/sandboxes?{query}")).is(200);
    let first = page("page_size=2");
    assert_eq!(first["total"], 3);
    assert_eq!(first["data"].as_array().unwrap().len(), 2);
    assert_eq!(
        first["pagination"],
        json!({"page_size": 2, "page_offset": 0, "has_next": true, "has_prev": false, "next_offset": 2, "prev_offset": null})
    );
    let second = page("page_size=2&page_offset=2");
    assert_eq!(second["data"][0]["id"], ids[0], "the newest come first: {second}");
    assert_eq!(
        (&second["pagination"]["has_next"], &second["pagination"]["prev_offset"]),
        (&json!(false), &json!(0))
    );
    served.post(&format!("/api/v1/sandboxes/{}/stop", ids[1]), &json!({})).is(200);
    let stopped = page("filter_status=stopped");
    assert_eq!((&stopped["total"], &stopped["data"][0]["id"]), (&json!(1), &json!(ids[1])));
    let second_version = served.get_with("/api/sandboxes", ("api-version", "v2")).is(200);
    assert_eq!(second_version["version"], "v2");
    for query in ["page_size=0", "page_size=101", "page_offset=x", "filter_status=odd", "filter=1"] {
        refused(&served.get(&format!("/api/v1/sandboxes?{query}")), 422);
    }
}

#[test]
fn a_sandbox_is_stopped_and_started_with_its_files() {
    let served = Served::by(&Sandboxd::caller());
    let id = make(&served, json!({"image": "python-basic"}));
    let path = format!("/api/v1/sandboxes/{id}");
    let act = |action: &str| served.bare(&format!("POST {path}/{action}"), &served.token);
    served.post(&format!("{path}/exec"), &json!({"command": "touch kept"})).is(200);
    assert!(refused(&act("start"), 409).contains("ready"), "a conflict says in which state it is");
    assert_eq!(act("stop").is(200)["status"], "stopped");
    assert_eq!(served.get(&path).is(200)["status"], "stopped");
    assert!(refused(&act("stop"), 409).contains("stopped"));
    refused(&served.get(&format!("/api/v2/sandboxes/{id}/metrics")), 409);
    assert_eq!(act("start").is(200)["status"], "running");
    let ls = |what: &str| {
        let done = served.post(&format!("{path}/exec"), &json!({"command": "ls"})).is(200);
        assert_eq!(done["stdout"], "kept\n", "{what}: {done}");
    };
    ls("after a start");
    assert_eq!(act("restart").is(200)["status"], "running");
    ls("after a restart");
    served.bare(&format!("POST /api/v1/sessions/{id}/pause"), &served.token).is(200);
    assert_eq!(served.get(&path).is(200)["status"], "paused");
    refused(&served.post(&format!("{path}/exec"), &json!({"command": "ls"})), 409);
    assert_eq!(act("start").is(200)["status"], "running");
    ls("after a pause");
}

#[test]
fn commands_and_code_run() {
    let served = Served::by(&Sandboxd::caller());
    let id = make(&served, json!({"image": "python:3.12"}));
    let exec = |body: Value| served.post(&format!("/api/v1/sandboxes/{id}/exec"), &body);
    let done = exec(json!({"command": "printf '%s|' 'a b' \"$HOME\" c\\ d ; ls"})).is(200);
    assert_eq!(done["stdout"], "a b|$HOME|c d|;|ls|", "no shell is implied: {done}");
    let done = exec(json!({"command": "printf", "args": ["%s", "$(id) 'x'"]})).is(200);
    assert_eq!(done["stdout"], "$(id) 'x'");
    let done = exec(
        json!({"command": "sh -c 'cat; pwd; echo $A; exit 7'", "input": "in\n", "environment": {"A": "b"}, "working_dir": "/tmp"}),
    );
    let done = done.is(200);
    assert_eq!((&done["stdout"], &done["exit_code"]), (&json!("in\n/tmp\nb\n"), &json!(7)), "{done}");
    assert!(
        done["duration"].as_f64().unwrap() > 0.0
            && done["timestamp"].is_string()
            && done["stream_id"].is_null()
    );
    let done = exec(json!({"command": "sleep 60", "timeout": "300ms"})).is(200);
    assert_eq!(done["exit_code"], 124, "{done}");
    assert_eq!(exec(json!({"command": "no-such-command"})).is(200)["exit_code"], 127);
    for wrong in [
        json!({"command": ""}),
        json!({"command": "'open"}),
        json!({"command": "ls", "stream": true}),
        json!({"command": "ls", "timeout": 999_999}),
        json!({"args": ["x"]}),
    ] {
        refused(&exec(wrong), 422);
    }
    let code = |body: Value| served.post(&format!("/api/v1/sandboxes/{id}/code"), &body);
    let done = code(
        json!({"code": "import os; print(os.environ['A'])", "language": "py", "environment": {"A": "b"}}),
    )
    .is(200);
    assert_eq!(
        (&done["output"], &done["error"], &done["exit_code"], &done["language"]),
        (&json!("b\n"), &json!(""), &json!(0), &json!("python"))
    );
    let done = code(json!({"code": "echo $0", "filename": "a/tool.sh"})).is(200);
    assert_eq!((&done["language"], &done["exit_code"]), (&json!("bash"), &json!(0)), "{done}");
    let done = code(json!({"code": "import sys; sys.exit('no')", "language": "python"})).is(200);
    assert_eq!((&done["error"], &done["exit_code"]), (&json!("no\n"), &json!(1)));
    for wrong in [
        json!({"code": ""}),
        json!({"code": "1"}),
        json!({"code": "1", "language": "klingon"}),
        json!({"code": "1", "language": "python", "packages": ["numpy"]}),
        json!({"code": "1", "language": "python", "filename": "../x.py"}),
    ] {
        refused(&code(wrong), 422);
    }
    refused(&served.post("/api/v1/sandboxes/none/exec", &json!({"command": "ls"})), 404);
}

#[test]
fn files_are_written_read_listed_and_removed() {
    let served = Served::by(&Sandboxd::caller());
    let id = make(&served, json!({"image": "python-basic"}));
    let path = format!("/api/v2/sandboxes/{id}/files");
    let put = |name: &str, body: Value| served.json(&format!("PUT {path}/{name}"), &served.token, &body);
    assert_eq!(
        served.post(&path, &json!({"path": "/workspace/a/b.txt", "content": "hé"})).is(201)["size"],
        3
    );
    assert_eq!(put("a/c.bin", json!({"content": "AP8=", "encoding": "base64"})).is(200)["size"], 2);
    put("tool", json!({"content": "#!/bin/sh\necho ran\n", "executable": true})).is(200);
    let done = served.post(&format!("/api/v2/sandboxes/{id}/exec"), &json!({"command": "./tool"})).is(200);
    assert_eq!(done["stdout"], "ran\n");
    let read = |name: &str| served.get(&format!("{path}/{name}"));
    assert_eq!(
        read("a/b.txt").is(200),
        json!({"path": "a/b.txt", "content": "hé", "encoding": "utf8", "size": 3})
    );
    assert_eq!(read("a%2Fb.txt?encoding=base64").is(200)["content"], "aMOp");
    let binary = read("a/c.bin").is(200);
    assert_eq!((&binary["content"], &binary["encoding"]), (&json!("AP8="), &json!("base64")));
    refused(&read("a/c.bin?encoding=utf8"), 422);
    let list = served.get(&format!("{path}?path=a")).is(200);
    assert_eq!(list["total"], 2);
    assert_eq!(list["data"][0]["path"], "/workspace/a/b.txt");
    let all = served.get(&format!("{path}?recursive=true&page_size=2")).is(200);
    assert_eq!((&all["total"], &all["pagination"]["has_next"]), (&json!(4), &json!(true)), "{all}");
    refused(&served.delete(&format!("{path}/a")), 409);
    assert_eq!(served.delete(&format!("{path}/a?recursive=true")).status, 204);
    refused(&read("a/b.txt"), 404);
    for name in ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd"] {
        refused(&read(name), 422);
        refused(&put(name, json!({"content": "x"})), 422);
        refused(&served.delete(&format!("{path}/{name}")), 422);
    }
    refused(&served.post(&path, &json!({"path": "../x", "content": ""})), 422);
    refused(&put("x", json!({"content": "%%%", "encoding": "base64"})), 422);
}

#[test]
fn the_second_version_has_logs_metrics_and_batches() {
    let served = Served::by(&Sandboxd::caller());
    let ids: Vec<String> = (0..2).map(|_| make(&served, json!({"image": "python-basic"}))).collect();
    let path = format!("/api/v2/sandboxes/{}", ids[0]);
    for word in ["one", "two"] {
        let code =
            json!({"code": format!("print('{word}')\nopen('f','w').write('x'*1000)"), "language": "python"});
        served.post(&format!("{path}/code"), &code).is(200);
    }
    let logs = served.get(&format!("{path}/logs?page_size=1")).is(200);
    assert_eq!((&logs["total"], &logs["data"][0]["stdout"]), (&json!(2), &json!("two\n")), "{logs}");
    let before = served.get(&format!("{path}/logs?page_size=1&page_offset=1")).is(200);
    assert_eq!((&before["data"][0]["stdout"], &before["data"][0]["exit_code"]), (&json!("one\n"), &json!(0)));
    let metrics = served.get(&format!("{path}/metrics")).is(200);
    assert!(metrics["disk"]["used_bytes"].as_u64().unwrap() >= 1000, "{metrics}");
    assert!(metrics["uptime"].as_f64().unwrap() > 0.0 && metrics["network"]["mode"] == "none", "{metrics}");
    for field in ["cpu", "memory", "processes"] {
        assert!(metrics[field].is_object(), "{field}: {metrics}");
    }
    for path in ["logs", "metrics"] {
        refused(&served.get(&format!("/api/v1/sandboxes/{}/{path}", ids[0])), 404);
    }
    let batch = |body: Value| served.post("/api/v2/sandboxes:batch", &body);
    let done = batch(json!({"action": "stop", "sandbox_ids": [ids[0], "none", ids[1]]})).is(200);
    assert_eq!(done["summary"], json!({"total": 3, "succeeded": 2, "failed": 1}), "{done}");
    assert_eq!(done["results"][1]["success"], false);
    assert_eq!(done["results"][2]["result"]["status"], "stopped");
    let careful =
        json!({"action": "start", "sandbox_ids": ["none", ids[0]], "options": {"continue_on_error": false}});
    assert_eq!(batch(careful).is(200)["summary"]["failed"], 2);
    assert_eq!(served.get(&path).is(200)["status"], "stopped", "it was not tried");
    let done = batch(
        json!({"action": "delete", "sandbox_ids": ids, "options": {"max_concurrency": 2, "timeout": 30}}),
    );
    assert_eq!(done.is(200)["summary"]["succeeded"], 2);
    assert_eq!(served.get("/api/v2/sandboxes").is(200)["total"], 0);
    for wrong in [
        json!({"action": "explode", "sandbox_ids": ["a"]}),
        json!({"action": "stop", "sandbox_ids": []}),
        json!({"action": "stop", "sandbox_ids": ["a"], "options": {"max_concurrency": 0}}),
        json!({"action": "stop", "sandbox_ids": ["a"], "parameters": {"x": 1}}),
    ] {
        refused(&batch(wrong), 422);
    }
    refused(&served.post("/api/v1/sandboxes:batch", &json!({"action": "stop", "sandbox_ids": ["a"]})), 404);
}

#[test]
fn others_see_nothing_and_refusals_have_an_envelope() {
    let served = Served::by(&Sandboxd::caller());
    let other = served.key_of("other");
    let id = make(&served, json!({}));
    let path = format!("/api/v2/sandboxes/{id}");
    assert_eq!(served.bare("GET /api/v2/sandboxes", &other).is(200)["total"], 0);
    for line in [
        format!("GET {path}"),
        format!("DELETE {path}"),
        format!("POST {path}/start"),
        format!("POST {path}/stop"),
        format!("POST {path}/restart"),
        format!("GET {path}/files"),
        format!("GET {path}/files/x"),
        format!("DELETE {path}/files/x"),
        format!("GET {path}/logs"),
        format!("GET {path}/metrics"),
    ] {
        refused(&served.bare(&line, &other), 404);
    }
    refused(&served.json(&format!("POST {path}/exec"), &other, &json!({"command": "ls"})), 404);
    refused(
        &served.json(&format!("POST {path}/code"), &other, &json!({"code": "1", "language": "python"})),
        404,
    );
    refused(&served.json(&format!("PUT {path}/files/x"), &other, &json!({"content": "x"})), 404);
    let batch = json!({"action": "delete", "sandbox_ids": [id]});
    assert_eq!(
        served.json("POST /api/v2/sandboxes:batch", &other, &batch).is(200)["summary"]["succeeded"],
        0
    );
    assert_eq!(served.get(&path).is(200)["status"], "running");

    for (prefix, _) in PREFIXES {
        refused(&served.bare(&format!("GET {prefix}/sandboxes"), ""), 401);
        refused(&served.get(&format!("{prefix}/sandboxes/a.b")), 400);
        refused(&served.bare(&format!("PUT {prefix}/sandboxes"), &served.token), 405);
        refused(&served.post(&format!("{prefix}/sandboxes"), &json!({"image": "no-such-image"})), 422);
        refused(
            &served.post(&format!("{prefix}/sandboxes"), &json!({"resources": {"memory_limit": "32XB"}})),
            422,
        );
    }
}
