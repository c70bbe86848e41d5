//! Tenants: each sees its own, has what it may, and keeps out nobody else.

use super::*;

#[test]
fn tenants_see_only_their_own_and_have_only_what_they_may() {
    let served = Served::start(&Sandboxd::caller(), &[]);
    let key = |tenant: &str, limits: Value, scopes: Value| {
        let made = served.post(
            "/api/v1/keys",
            &json!({"name": tenant, "tenant": tenant, "scopes": scopes, "limits": limits}),
        );
        made.is(201)["token"].as_str().unwrap().to_owned()
    };
    let (a, b) = (
        key("a", json!({}), json!(["run", "files"])),
        key("b", json!({"concurrency": 1, "queued": 1, "sessions": 1}), json!(["run", "files"])),
    );
    let json = [("content-type", "application/json")];
    let post = |token: &str, path: &str, body: Value| {
        served.send_as(token, "POST", path, &json, body.to_string().as_bytes())
    };
    let done = post(&a, "/api/v1/execute", python("print('secret of a')")).is(200);
    let id = done["execution_id"].as_str().unwrap();
    post(&a, "/api/v1/sessions", json!({"id": "shared"})).is(201);
    // What is somebody else's looks as if it were not there, down to the last byte but the request's own id.
    let pairs = [
        (
            "GET",
            format!("/api/v1/executions/{id}"),
            "/api/v1/executions/exec_00000000000070008000000000000000".to_owned(),
        ),
        (
            "GET",
            format!("/api/v1/executions/{id}/stream"),
            "/api/v1/executions/exec_00000000000070008000000000000000/stream".to_owned(),
        ),
        (
            "POST",
            format!("/api/v1/executions/{id}/cancel"),
            "/api/v1/executions/exec_00000000000070008000000000000000/cancel".to_owned(),
        ),
        ("GET", "/api/v1/sessions/shared".into(), "/api/v1/sessions/nobody".into()),
        ("GET", "/api/v1/sessions/shared/files".into(), "/api/v1/sessions/nobody/files".into()),
        ("GET", "/api/v1/sessions/shared/history".into(), "/api/v1/sessions/nobody/history".into()),
        ("POST", "/api/v1/sessions/shared/pause".into(), "/api/v1/sessions/nobody/pause".into()),
        ("POST", "/api/v1/sessions/shared/terminate".into(), "/api/v1/sessions/nobody/terminate".into()),
        ("DELETE", "/api/v1/sessions/shared".into(), "/api/v1/sessions/nobody".into()),
        ("GET", "/api/v1/sessions/shared/executions".into(), "/api/v1/sessions/nobody/executions".into()),
    ];
    for (method, theirs, nobodys) in &pairs {
        let said = [theirs, nobodys].map(|path| {
            let answer = served.send_as(&b, method, path, &[], b"");
            let mut said = answer.is(404);
            said["request_id"] = Value::Null;
            said
        });
        assert_eq!(said[0], said[1], "{theirs}");
    }
    assert_eq!(served.send_as(&b, "GET", "/api/v1/executions", &[], b"").is(200)["total"], 0);
    // The same id is another session for another tenant.
    post(&b, "/api/v1/sessions", json!({"id": "shared"})).is(201);
    let more = post(&b, "/api/v1/sessions", json!({"id": "more"}));
    assert!(more.is(429)["code"] == "limit_reached" && more.header("retry-after").is_some());
    let slow = json!({"language": "python", "code": "import time; time.sleep(1)"});
    let statuses = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..4).map(|_| scope.spawn(|| post(&b, "/api/v1/execute", slow.clone()).status)).collect();
        let mut all: Vec<u16> = all.into_iter().map(|one| one.join().unwrap()).collect();
        all.sort_unstable();
        all
    });
    assert_eq!(statuses, [200, 200, 429, 429]);
    served.send_as(&a, "GET", "/api/v1/keys", &[], b"").is(403);
    post(&a, "/api/v1/templates", json!({"id": "mine", "name": "Mine"})).is(403);
    let files = key("a", json!({}), json!(["files"]));
    post(&files, "/api/v1/execute", python("print(1)")).is(403);
    served.send_as(&files, "GET", "/api/v1/sessions/shared/files", &[], b"").is(200);
    served.stop();
}

#[test]
fn a_crowd_gets_its_own_answers_and_one_tenant_does_not_keep_out_another() {
    let who = Sandboxd::caller();
    let served = Served::start(
        &who,
        &[
            "--set",
            "sessions.max=250",
            "--set",
            "tenants.sessions=250",
            "--set",
            "executions.max_queued=1100",
            "--set",
            "tenants.queued=1000",
            "--set",
            "tenants.requests_per_minute=0",
        ],
    );
    let key = |tenant: &str| {
        served.post("/api/v1/keys", &json!({"name": tenant, "tenant": tenant, "scopes": ["run"]})).is(201)["token"].as_str().unwrap().to_owned()
    };
    let (many, few) = (key("many"), key("few"));
    let json = [("content-type", "application/json")];
    let post = |token: &str, path: &str, body: &Value| {
        served.send_as(token, "POST", path, &json, body.to_string().as_bytes())
    };
    let resident = || {
        host::status(served.running.as_ref().unwrap().pid(), "VmRSS")
            .unwrap()
            .trim_end_matches(" kB")
            .trim()
            .parse::<u64>()
            .unwrap()
            >> 10
    };
    let before = resident();
    for n in 0..200 {
        post(
            &many,
            "/api/v1/sessions",
            &json!({"id": format!("s{n}"), "memory": "64M", "env_vars": {"NONCE": format!("session-{n}")}}),
        )
        .is(201);
    }
    let mut ids = Vec::new();
    for n in 0..1000 {
        let program = python(&format!("import os; print(os.environ['NONCE'], {n})"));
        let accepted = post(&many, &format!("/api/v1/sessions/s{}/execute", n % 200), &program).is(201);
        ids.push(accepted["execution_id"].as_str().unwrap().to_owned());
    }
    // Somebody else comes while all of them wait.
    let asked = Instant::now();
    let other = post(&few, "/api/v1/execute", &python("print('few')")).is(200);
    let waited = asked.elapsed();
    assert_eq!(other["stdout"], "few\n");
    let last = served.send_as(&many, "GET", &format!("/api/v1/executions/{}", ids[999]), &[], b"").is(200);
    assert!(last["status"] != "completed", "the crowd was gone before anybody else came");
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    let patience = Instant::now() + Duration::from_secs(300);
    for (n, id) in ids.iter().enumerate() {
        loop {
            let found = served.send_as(&many, "GET", &format!("/api/v1/executions/{id}"), &[], b"").is(200);
            if found["status"] == "completed" {
                assert_eq!(found["stdout"], format!("session-{} {n}\n", n % 200));
                break;
            }
            assert!(matches!(found["status"].as_str(), Some("pending" | "running")), "{found}");
            assert!(Instant::now() < patience, "{n} is not done");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let after = resident();
    println!(
        "200 sessions and 1000 executions: {before} MiB before, {after} MiB after; somebody else waited {waited:?}"
    );
    assert!(after < 400, "the server has grown to {after} MiB");
    served.stop();
}
