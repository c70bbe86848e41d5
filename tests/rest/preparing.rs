//! A toolchain is prepared once, whoever stops waiting for it.

use super::*;
use std::path::Path;

const PATIENCE: Duration = Duration::from_secs(60);
const JAVA: &str = r#"class Main { public static void main(String[] a) { System.out.println("hello"); } }"#;

/// What lies where toolchains are kept, and how it ends.
fn kept(home: &Path, end: &str) -> Vec<String> {
    let shelf = std::fs::read_dir(home.join(".cache/sandboxd/prepared"));
    let names = shelf.into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(end)).collect()
}

fn until(what: &str, is: impl Fn() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < patience, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_session_is_made_even_if_nobody_waits_for_its_toolchain_any_more() {
    for who in Sandboxd::everybody() {
        let home = who.folder();
        let served = Served::start(&who.living_in(home.path()), &["--set", "pool.enabled=false"]);
        let wanted = |id: &str| json!({"id": id, "languages": ["java"]});
        let json = [("content-type", "application/json")];
        let body = wanted("left").to_string();
        let left = served.open(&served.token, "POST", "/api/v1/sessions", &json, body.as_bytes());
        until("a draft", || !kept(home.path(), ".draft").is_empty());
        drop(left);
        let draft = kept(home.path(), ".draft");
        served.post("/api/v1/sessions", &wanted("next")).is(201);
        until("ready", || served.get("/api/v1/sessions/left").is(200)["state"] == "ready");
        for id in ["left", "next"] {
            let program = json!({"language": "java", "code": JAVA});
            let ran = served.post(&format!("/api/v1/sessions/{id}/execute-sync"), &program).is(200);
            assert_eq!(ran["stdout"], "hello\n", "{ran}");
        }
        assert_eq!((draft.len(), kept(home.path(), ".draft").len()), (1, 0), "{draft:?}");
        served.stop();
    }
}

/// What somebody left who did not live to finish it is in nobody's way.
#[test]
fn a_toolchain_half_prepared_is_prepared_anew() {
    let (who, home) = (Sandboxd::caller(), Sandboxd::caller().folder());
    let who = who.living_in(home.path());
    let served = Served::start(&who, &["--set", "pool.enabled=false"]);
    let json = [("content-type", "application/json")];
    let body = json!({"languages": ["java"]}).to_string();
    let left = served.open(&served.token, "POST", "/api/v1/sessions", &json, body.as_bytes());
    until("a draft", || !kept(home.path(), ".draft").is_empty());
    let (before, _folder) = (kept(home.path(), ".draft"), served.kill());
    drop(left);
    assert_eq!(kept(home.path(), ".draft"), before);
    who.run("java", JAVA).options("--timeout 60s").out().exits(0).says("hello\n");
    assert_eq!(kept(home.path(), ".draft"), Vec::<String>::new());
}
