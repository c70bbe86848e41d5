//! The REST API, as root and as a plain user: real servers, real sandboxes, real connections.
#![cfg(test)]

#[path = "rest/client.rs"]
mod client;
#[path = "rest/concurrent.rs"]
mod concurrent;
#[path = "rest/files.rs"]
mod files;
#[path = "control/index.rs"]
mod index;
#[path = "rest/preparing.rs"]
mod preparing;
#[path = "rest/streams.rs"]
mod streams;
mod support;
#[path = "rest/templates.rs"]
mod templates;
#[path = "rest/tenants.rs"]
mod tenants;

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
fn packages_are_asked_for_installed_and_shown() {
    for who in Sandboxd::everybody() {
        let served = Served::start(&who, &["--set", "sessions.install=wheels"]);
        let index = index::Served::start();
        let asked = json!({
            "id": "s-1",
            "dependencies": [{"name": "greeting", "version": "1.0"}],
            "python_package_index_url": index.address(),
            "install_timeout": 120,
        });
        let made = served.post("/api/v1/sessions", &asked);
        let status = made.is(201)["dependency_install_status"].clone();
        assert!(status == "pending" || status == "installing", "{status}");
        let greet = python("import greeting\nprint(greeting.TEXT)");
        let done = served.post("/api/v1/sessions/s-1/execute-sync", &greet).is(200);
        assert_eq!(done["stdout"], "hello 1.0\n", "{done} {}", served.get("/api/v1/sessions/s-1").text());
        let found = served.get("/api/v1/sessions/s-1").is(200);
        assert_eq!(found["dependency_install_status"], "completed", "{found}");
        assert_eq!(found["requested_dependencies"], json!([{"name": "greeting", "version": "==1.0"}]));
        let one = &found["installed_dependencies"][0];
        assert_eq!((&one["name"], &one["version"]), (&"greeting".into(), &"1.0".into()));
        assert_eq!(one["install_location"], "/workspace/.dependencies/python");
        assert_eq!(one["install_time"], found["dependency_install_completed_at"]);
        assert!(one["install_time"].is_string() && found["dependency_install_started_at"].is_string());
        let shown = format!("http://127.0.0.1:{}/simple/", index.port);
        assert_eq!(found["python_package_index_url"], shown.as_str(), "without the password");

        let path = "/api/v1/sessions/s-1/dependencies/install";
        let newer = json!({"dependencies": [{"name": "greeting", "version": ">=2"}]});
        let found = served.post(path, &newer).is(200);
        assert_eq!(found["installed_dependencies"][0]["version"], "2.0", "{found}");
        let missing = served.post(path, &json!({"dependencies": [{"name": "missing"}]})).is(200);
        assert_eq!(missing["dependency_install_status"], "failed");
        let why = missing["dependency_install_error"].as_str().unwrap();
        assert!(why.contains("missing") && !why.contains("hunter2"), "{why}");
        let one = |name: &str| json!({"dependencies": [{"name": name}]});
        let many = json!({"dependencies": vec![json!({"name": "x"}); 51]});
        for (body, field) in [
            (one("greeting==2.0"), "dependencies.0.name"),
            (one("../x"), "dependencies.0.name"),
            (json!({"dependencies": [{"name": "x", "version": "latest"}]}), "dependencies.0.version"),
            (json!({"dependencies": []}), "dependencies"),
            (many, "dependencies"),
            (
                json!({"dependencies": [{"name": "x"}], "python_package_index_url": "ftp://x/"}),
                "python_package_index_url",
            ),
        ] {
            let said = served.post(path, &body).is(422);
            assert_eq!(said["field"], field, "{body}: {said}");
            assert!(said["hint"].is_string(), "{said}");
        }
        let hasty = json!({"dependencies": [{"name": "x"}], "install_timeout": 5});
        assert_eq!(served.post("/api/v1/sessions", &hasty).is(422)["field"], "install_timeout");
        served.post("/api/v1/sessions/nope/dependencies/install", &newer).is(404);
        served.stop();
    }
    let served = Served::start(&Sandboxd::caller(), &[]);
    let plain = served.post("/api/v1/sessions", &json!({"id": "s-1"})).is(201);
    assert_eq!(plain["dependency_install_status"], "completed", "nothing was asked for");
    assert_eq!((&plain["network"], &plain["resource_limit"]["max_processes"]), (&"none".into(), &128.into()));
    let asked = json!({"dependencies": [{"name": "words"}]});
    for path in ["/api/v1/sessions", "/api/v1/sessions/s-1/dependencies/install"] {
        let said = served.post(path, &asked).is(403);
        assert_eq!(said["code"], "not_allowed");
        assert!(said["hint"].as_str().unwrap().contains("sessions.install"), "{said}");
    }
    served.stop();
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
