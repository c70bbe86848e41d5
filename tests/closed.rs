//! AP-24: a server on a host where no sandbox can be made, or with an executor that is none, runs nothing. It says so,
//! with the cause, and goes on saying so.
#![cfg(test)]

#[path = "rest/client.rs"]
mod client;
mod support;

use client::Served;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::Sandboxd;

/// Leaves a mark wherever it is run: on its output, and on the host if that is where it is.
fn program(language: &str, witness: &Path) -> Value {
    let witness = witness.display();
    let code = match language {
        "python" => format!("print('ran')\ntry: open('{witness}', 'w').close()\nexcept OSError: pass"),
        _ => format!("echo ran; : > '{witness}'; exit 0"),
    };
    json!({"language": language, "code": code})
}

/// Asks a server for programs in every way there is, and finds that none of them ran. One of the words is in each refusal.
/// Returns what the server says of its health.
fn refuses(who: &Sandboxd, what: &str, words: &[&str]) -> Value {
    let folder = who.folder();
    let witness = folder.path().join("witness");
    let (served, trace) = watched(who, folder.path());
    for language in ["python", "bash"] {
        for _ in 0..2 {
            let answer = served.post("/api/v1/execute", &program(language, &witness));
            let said = answer.is(503);
            let cause = format!("{} {}", said["detail"], said["hint"]);
            assert!(words.iter().any(|word| cause.contains(word)), "{what}, {language}: {said}");
            assert!(
                ["isolation_unavailable", "runtime_unavailable", "busy"]
                    .iter()
                    .any(|code| said["code"] == **code),
                "{what}, {language}: {said}"
            );
        }
        let submitted = served.send(
            "POST",
            "/api/v1/execute",
            &[("content-type", "application/json"), ("prefer", "respond-async")],
            program(language, &witness).to_string().as_bytes(),
        );
        if submitted.status == 202 {
            let id = submitted.json()["execution_id"].as_str().unwrap().to_owned();
            let ended = (0..100).find_map(|_| {
                std::thread::sleep(Duration::from_millis(100));
                let found = served.get(&format!("/api/v1/executions/{id}")).is(200);
                (found["completed_at"].is_string()).then_some(found)
            });
            let ended = ended.unwrap_or_else(|| panic!("{what}, {language}: it does not end"));
            assert_eq!(
                (&ended["status"], &ended["stdout"]),
                (&json!("failed"), &json!("")),
                "{what}: {ended}"
            );
        } else {
            submitted.is(503);
        }
    }
    let health = served.get("/health/detailed").json();
    let executed = executed(served, &trace);
    assert!(!witness.exists(), "{what}: a program was run on the host");
    assert!(executed.iter().any(|line| line.contains("serve")), "{what}: the server was watched");
    let ran: Vec<&String> = executed.iter().filter(|line| is_users(line)).collect();
    assert!(ran.is_empty(), "{what}: {ran:?}");
    health
}

/// A server under the eyes of `strace`, which writes down whatever is executed by it or by anybody it starts.
fn watched(who: &Sandboxd, folder: &Path) -> (Served, PathBuf) {
    let trace = folder.join("trace");
    // Beside it and not above it, so that signals reach the server.
    let words = [
        "strace",
        "-D",
        "-f",
        "-v",
        "-s",
        "200",
        "-e",
        "trace=execve,execveat",
        "-o",
        trace.to_str().unwrap(),
        "--",
    ];
    (Served::start(&who.clone().behind(&words.map(str::to_owned)), &[]), trace)
}

/// Ends it. Everything that was executed, a line for each.
fn executed(served: Served, trace: &Path) -> Vec<String> {
    let pid = served.running.as_ref().unwrap().pid().to_string();
    let ends = |line: &str| {
        let (who, what) = line.split_once(' ').unwrap_or_default();
        who == pid && what.trim_start().starts_with("+++ exited")
    };
    served.stop();
    for _ in 0..100 {
        let text = std::fs::read_to_string(trace).unwrap();
        if text.lines().any(ends) {
            return text.lines().filter(|line| line.contains("exec")).map(str::to_owned).collect();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("nobody saw the server end");
}

/// Whether this is somebody's program that is executed: it has a main file, and is no interpreter that waits for others.
fn is_users(line: &str) -> bool {
    (line.contains("main.py") || line.contains("main.sh")) && !line.contains("SANDBOXD_ZYGOTE=")
}

#[test]
fn where_everything_is_there_the_same_watch_sees_programs() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let (served, trace) = watched(&who, folder.path());
        let ran = served.post("/api/v1/execute", &program("bash", &folder.path().join("witness"))).is(200);
        assert_eq!(ran["stdout"], "ran\n", "{ran}");
        let executed = executed(served, &trace);
        assert!(executed.iter().any(|line| is_users(line)), "{executed:?}");
    }
}

#[test]
fn without_namespaces_nothing_is_run() {
    for who in Sandboxd::everybody() {
        for kind in ["user", "mnt", "pid", "net"] {
            let folder = who.folder();
            let lack = format!("namespaces={kind}");
            let health = refuses(&who.lacking(folder.path(), &[&lack]), &lack, &["namespaces"]);
            assert_eq!(health["dependencies"]["isolation"]["status"], "unhealthy", "{lack}: {health}");
        }
    }
}

/// A plain user has none to begin with, which every record says.
#[test]
fn where_cgroups_cannot_be_made_nothing_is_run() {
    let Some(root) = Sandboxd::root() else { return };
    for lack in ["readonly=/sys/fs/cgroup", "covered=/sys/fs/cgroup"] {
        let folder = root.folder();
        let health = refuses(&root.lacking(folder.path(), &[lack]), lack, &["cgroup"]);
        assert_eq!(health["dependencies"]["isolation"]["status"], "unhealthy", "{lack}: {health}");
    }
}

#[test]
fn without_a_filter_nothing_is_run() {
    for who in Sandboxd::everybody() {
        // As a kernel answers that does not like the filter it is given, or knows of none.
        for lack in ["call=seccomp:EINVAL", "call=seccomp:ENOSYS"] {
            let folder = who.folder();
            refuses(&who.lacking(folder.path(), &[lack]), lack, &["system call filter"]);
        }
    }
}

#[test]
fn with_an_executor_that_is_none_nothing_is_run() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let real = std::fs::read(who.binary("sandbox-executor")).unwrap();
        let mut changed = real.clone();
        for byte in changed.iter_mut().skip(0x1000).step_by(64) {
            *byte ^= 0x5a;
        }
        for (what, content) in [
            ("nothing", &b""[..]),
            ("no program", b"this is no program"),
            ("the beginning of it", &real[..64 << 10]),
            ("changed", &changed),
            ("one that ends at once", b"#!/bin/sh\nexit 0\n"),
            ("one that talks nonsense", b"#!/bin/sh\nyes nonsense >&0\n"),
        ] {
            let path = who.write(&folder.path().join("sandbox-executor"), content);
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            let who = who.clone().with("SANDBOXD_EXECUTOR", path.display());
            let health = refuses(&who, what, &["executor"]);
            assert_eq!(health["dependencies"]["isolation"]["status"], "unhealthy", "{what}: {health}");
        }
    }
}
