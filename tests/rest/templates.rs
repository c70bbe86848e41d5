//! Templates apply, stay while they are needed, and have interpreters of their own.

use super::*;

#[test]
fn templates_have_interpreters_of_their_own_that_wait() {
    everywhere(|served| {
        let put = |body: &Value| {
            let body = body.to_string();
            served.send(
                "PUT",
                "/api/v1/templates/waits",
                &[("content-type", "application/json")],
                body.as_bytes(),
            )
        };
        let rehearsal = "import sys, wave\nsys.rehearsed = True";
        let template = json!({"id": "waits", "name": "Waits", "languages": ["python"], "preload": {"py": ["colorsys"]}, "rehearsal": {"python": rehearsal}, "pool": {"min": 1, "max": 2, "idle_timeout": "10s"}, "limits": {"memory": "200Mi"}, "env": {"A": "b"}});
        let made = served.post("/api/v1/templates", &template).is(201);
        assert_eq!(made["preload"], json!({"python": ["colorsys"]}));
        assert_eq!(made["rehearsal"], json!({"python": rehearsal}));
        assert_eq!(made["pool"], json!({"min": 1, "max": 2, "idle_timeout": 10.0}));
        let kept = || -> Vec<Value> {
            let health = served.get("/health/detailed").json();
            let all = health["pool"].as_array().unwrap().iter();
            all.filter(|shelf| shelf["template"] == "waits").cloned().collect()
        };
        let until = |is_so: &dyn Fn(&[Value]) -> bool| {
            let patience = Instant::now() + Duration::from_secs(20);
            while !is_so(&kept()) {
                assert!(Instant::now() < patience, "{:?}", kept());
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        until(&|kept| kept.iter().any(|shelf| shelf["depth"] == 1));
        let metrics = served.get("/metrics").text();
        let line = metrics.lines().find(|line| line.contains("template=\"waits\"")).unwrap_or_default();
        assert!(line.contains("language=\"python\""), "{metrics}");
        let code = "import os, sys\nprint(sys.rehearsed, 'colorsys' in sys.modules, os.environ['A'])";
        let program = json!({"language": "python", "code": code, "template_id": "waits"});
        let record = served.post("/api/v1/execute", &program).is(200);
        assert_eq!(
            (&record["start"], &record["stdout"]),
            (&"hit".into(), &"True True b\n".into()),
            "{record}"
        );
        let id = record["execution_id"].as_str().unwrap();
        let found = served.get(&format!("/api/v1/executions/{id}")).is(200);
        assert_eq!(found["template_id"], "waits");
        let huge = json!({"language": "python", "code": "bytearray(400 << 20)", "template": "waits"});
        assert_ne!(served.post("/api/v1/execute", &huge).is(200)["status"], "success");
        for (field, change) in [
            ("preload.python", json!({"preload": {"python": ["a b"]}})),
            ("rehearsal.sh", json!({"rehearsal": {"sh": "echo"}})),
            ("pool.max", json!({"pool": {"max": 1_000_000}})),
            ("pool.idle_timeout", json!({"pool": {"idle_timeout": 0.1}})),
        ] {
            let problem = put(&change).is(422);
            assert!(problem["errors"].to_string().contains(field) || problem["field"] == field, "{problem}");
            assert!(problem.to_string().contains("hint"), "{problem}");
        }
        put(&json!({"pool": {"smallest": 1}})).is(422);
        let changed = put(&json!({"preload": {}, "pool": {}})).is(200);
        assert_eq!((&changed["preload"], &changed["rehearsal"]), (&json!({}), &json!({"python": rehearsal})));
        until(&|kept| kept.is_empty());
        let record = served.post("/api/v1/execute", &program).is(200);
        assert_eq!(
            (&record["start"], &record["stdout"]),
            (&"miss".into(), &"True False b\n".into()),
            "{record}"
        );
        served.delete("/api/v1/templates/waits").is(200);
        until(&|kept| kept.is_empty());
        served.post("/api/v1/execute", &program).is(404);
    });
}

#[test]
fn templates_really_apply_and_stay_while_they_are_needed() {
    let served = Served::start(&Sandboxd::caller(), &[]);
    let ids: Vec<String> = served
        .get("/api/v1/templates")
        .is(200)
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["multi-language", "nodejs-basic", "python-basic", "python-datascience"]);
    let template = json!({"id": "small", "name": "Small", "image_url": "x", "runtime_type": "python3.11", "default_memory_mb": 128, "default_cpu_cores": 0.5, "default_disk_mb": 32, "default_timeout": 60, "default_env_vars": {"A": "from the template", "B": "b"}});
    let made = served.post("/api/v1/templates", &template).is(201);
    assert_eq!(
        (&made["languages"], &made["default_memory_mb"], &made["is_active"]),
        (&json!(["python"]), &128.into(), &true.into())
    );
    served.post("/api/v1/templates", &template).is(409);
    served
        .post("/api/v1/sessions", &json!({"id": "s", "template_id": "small", "env_vars": {"B": "own"}}))
        .is(201);
    let code = "import os\nprint(os.environ['A'], os.environ['B'], flush=True)\ntry:\n    open('x', 'wb').write(bytes(40 << 20))\nexcept OSError as e:\n    print(e.strerror, flush=True)\nx = bytearray(200 << 20)";
    let done = served.post("/api/v1/sessions/s/execute-sync", &python(code)).is(200);
    assert_eq!(done["stdout"], "from the template own\nNo space left on device\n", "{done}");
    assert_eq!(done["outcome"], "out_of_memory", "{done}");
    assert_eq!(served.delete("/api/v1/templates/small").is(409)["code"], "conflict");
    let changed = served
        .send(
            "PUT",
            "/api/v1/templates/small",
            &[("content-type", "application/json")],
            br#"{"is_active": false}"#,
        )
        .is(200);
    assert_eq!((&changed["is_active"], &changed["default_memory_mb"]), (&false.into(), &128.into()));
    served.post("/api/v1/sessions", &json!({"template_id": "small"})).is(409);
    served.post("/api/v1/sessions/s/terminate", &Value::Null).is(200);
    served.delete("/api/v1/templates/small").is(200);
    let runtimes = served.get("/api/v1/runtimes").is(200);
    let has =
        runtimes["items"].as_array().unwrap().iter().find(|r| r["name"] == "python").unwrap()["available"]
            .clone();
    assert_eq!(has, true);
    served.stop();
}
