//! Tools, files and prompts of agents, by plain requests: below `/api/v1`, `/api/v2` and `/api`, and at `/mcp/tools`.

use crate::old::Served;
use crate::sandboxes::{PREFIXES, refused};
use crate::support::Sandboxd;
use serde_json::{Value, json};

#[test]
fn tools_are_listed_shown_and_used_below_every_prefix() {
    for who in Sandboxd::everybody() {
        let served = Served::by(&who);
        for (prefix, version) in PREFIXES {
            let page = served.get(&format!("{prefix}/tools?page_size=2")).is(200);
            assert_eq!((&page["version"], &page["pagination"]["has_next"]), (&json!(version), &json!(true)));
            assert!(page["total"].as_u64().unwrap() > 20, "{page}");
            assert_eq!(page["data"].as_array().unwrap().len(), 2);
            let tool = served.get(&format!("{prefix}/tools/execute_code")).is(200);
            assert_eq!(tool["name"], "execute_code");
            assert!(tool["input_schema"]["properties"]["code"].is_object(), "{tool}");
            let wanted = json!({"arguments": {"language": "python", "code": "print(6 * 7)"}});
            let done = served.post(&format!("{prefix}/tools/execute_code/execute"), &wanted).is(200);
            assert_eq!(
                (&done["is_error"], &done["metadata"]["stdout"]),
                (&json!(false), &json!("42\n")),
                "{done}"
            );
            assert!(done["result"].as_str().unwrap().contains("42"), "{done}");
            assert!(done["duration"].as_f64().unwrap() > 0.0 && done["timestamp"].is_string(), "{done}");
            let id = done["execution_id"].as_str().unwrap();
            assert_eq!(served.get(&format!("/api/v1/executions/{id}")).is(200)["stdout"], "42\n");
            refused(&served.get(&format!("{prefix}/tools/none")), 404);
            refused(&served.post(&format!("{prefix}/tools/none/execute"), &json!({})), 404);
        }
    }
}

#[test]
fn a_tool_that_fails_says_so_and_one_that_takes_too_long_is_ended() {
    let served = Served::by(&Sandboxd::caller());
    let made = json!({"arguments": {"image": "python:3.12"}});
    let made = served.post("/api/v1/tools/create_sandbox/execute", &made).is(200);
    let id = made["metadata"]["sandbox_id"].as_str().unwrap();
    let exec = |command: &str, options: Value| {
        let arguments = json!({"sandbox_id": id, "command": command});
        served
            .post("/api/v1/tools/exec_command/execute", &json!({"arguments": arguments, "options": options}))
    };
    let failed = exec("false", json!({})).is(200);
    assert_eq!(
        (&failed["is_error"], &failed["metadata"]["exit_code"]),
        (&json!(true), &json!(1)),
        "{failed}"
    );
    assert!(failed["execution_id"].is_string(), "{failed}");
    refused(&exec("sh -c 'sleep 2; touch late'", json!({"timeout": 0.2})), 504);
    let after = exec("sleep 2.5", json!({})).is(200);
    assert_eq!(after["is_error"], false, "{after}");
    assert_eq!(
        exec("ls", json!({})).is(200)["metadata"]["stdout"],
        "",
        "what nobody waits for does not go on"
    );
    for wrong in
        [json!({"async": true}), json!({"stream": true}), json!({"retry_policy": {}}), json!({"x": 1})]
    {
        refused(&exec("true", wrong), 422);
    }
    let said = refused(
        &served.post("/api/v1/tools/exec_command/execute", &json!({"arguments": {"command": 1}})),
        422,
    );
    assert!(!said.is_empty());
}

#[test]
fn one_request_is_one_tool() {
    let served = Served::by(&Sandboxd::caller());
    let key = served.token.clone();
    let call =
        |tool: &str, arguments: &Value| served.keyed(&format!("POST /mcp/tools/{tool}"), &key, arguments);
    let made = call("create_sandbox", &json!({"image": "python:3.12"})).is(200);
    assert_eq!(made["is_error"], false, "{made}");
    let id = made["metadata"]["sandbox_id"].as_str().unwrap();
    let ran = call("run_python", &json!({"sandbox_id": id, "code": "print(6 * 7)"})).is(200);
    assert_eq!((&ran["is_error"], &ran["metadata"]["stdout"]), (&json!(false), &json!("42\n")), "{ran}");
    assert!(ran["text"].as_str().unwrap().contains("STDOUT:\n42"), "{ran}");
    for (tool, arguments, code) in [
        ("exec_command", json!({"sandbox_id": "none", "command": "ls"}), "SANDBOX_NOT_FOUND"),
        ("exec_command", json!({"sandbox_id": id}), "INVALID_PARAMETERS"),
        ("create_sandbox", json!({"image": "no-such-image"}), "IMAGE_NOT_FOUND"),
    ] {
        let said = call(tool, &arguments).is(200);
        assert_eq!(
            (&said["is_error"], &said["metadata"]["error_code"]),
            (&json!(true), &json!(code)),
            "{said}"
        );
    }
    assert_eq!(served.bare("POST /mcp/tools/list_sandboxes", &key).is(200)["metadata"]["count"], 1);
    assert_eq!(call("none", &json!({})).status, 404);
    assert_eq!(served.bare("POST /mcp/tools/list_sandboxes", "").status, 401);
    let other = served.key_of("other");
    assert_eq!(served.bare("POST /mcp/tools/list_sandboxes", &other).is(200)["metadata"]["count"], 0);
    let theirs = json!({"sandbox_id": id, "command": "ls"});
    let said = served.json("POST /mcp/tools/exec_command", &other, &theirs).is(200);
    assert_eq!(said["metadata"]["error_code"], "SANDBOX_NOT_FOUND", "what is another's is not there: {said}");
}

#[test]
fn files_and_prompts_are_there_too() {
    let served = Served::by(&Sandboxd::caller());
    let id = served.post("/api/v1/sandboxes", &json!({})).is(201)["id"].as_str().unwrap().to_owned();
    for name in ["a", "b", "c"] {
        let file = json!({"path": format!("{name}.txt"), "content": name});
        served.post(&format!("/api/v1/sandboxes/{id}/files"), &file).is(201);
    }
    for (prefix, _) in PREFIXES {
        let page = served.get(&format!("{prefix}/resources?page_size=2&page_offset=2")).is(200);
        assert_eq!((&page["total"], &page["data"][0]["name"]), (&json!(3), &json!("c.txt")), "{page}");
        let uri = page["data"][0]["uri"].as_str().unwrap();
        let read = served.get(&format!("{prefix}/resources/read?uri={uri}")).is(200);
        assert_eq!(read["contents"][0]["text"], "c", "{read}");
        for nothing in ["sandbox://none/a", "file:///etc/passwd", &format!("sandbox://{id}/none")] {
            refused(&served.get(&format!("{prefix}/resources/read?uri={nothing}")), 404);
        }
        refused(&served.get(&format!("{prefix}/resources/read?uri=sandbox://{id}/../a")), 422);
        let list = served.get(&format!("{prefix}/prompts")).is(200);
        assert_eq!((&list["total"], &list["data"][0]["name"]), (&json!(3), &json!("solve_with_code")));
        assert_eq!(served.get(&format!("{prefix}/prompts/fix_code")).is(200)["name"], "fix_code");
        let filled = json!({"arguments": {"question": "How many?"}});
        let filled = served.post(&format!("{prefix}/prompts/solve_with_code"), &filled).is(200);
        let text = filled["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(text.contains("How many?"), "{filled}");
        refused(&served.post(&format!("{prefix}/prompts/solve_with_code"), &json!({})), 422);
        refused(&served.get(&format!("{prefix}/prompts/none")), 404);
        refused(&served.post(&format!("{prefix}/prompts/none"), &json!({})), 404);
    }
    let other = served.key_of("other");
    assert_eq!(served.bare("GET /api/v1/resources", &other).is(200)["total"], 0);
}

#[test]
fn where_agents_find_nothing_there_are_no_tools() {
    let served = Served::with(&Sandboxd::caller(), &["--set", "mcp.enabled=false"]);
    for line in
        ["GET /api/v1/tools", "GET /api/prompts", "GET /api/v2/resources", "POST /mcp/tools/execute_code"]
    {
        assert_eq!(served.bare(line, &served.token).status, 404, "{line}");
    }
}
