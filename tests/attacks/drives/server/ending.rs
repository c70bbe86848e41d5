//! Ends: clients that leave, programs that are cancelled, sessions that many want at once, a state that is broken.

use super::{is_over, python, status, submit, verdict};
use crate::client::Answer;
use crate::seen::cut;
use crate::served::Served;
use crate::stage::Stage;
use crate::support::{Running, in_parallel};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A moment that differs from one to the next, and is the same each time.
fn moment(number: usize, most: u64) -> Duration {
    Duration::from_micros((number as u64 + 1).wrapping_mul(2_654_435_761) % (most * 1000))
}

/// Who hangs up ends what was begun for it, at whatever moment, and however it was followed.
pub(super) fn clients_who_leave(stage: &Stage) -> Result<(), String> {
    const MANY: usize = 30;
    let served = stage.served();
    let served = &*served;
    let token = served.key("leaves");
    let numbers: Vec<usize> = (0..MANY).collect();
    let body =
        json!({"language": "python", "code": "import time; time.sleep(20)", "timeout": "25s"}).to_string();
    let mut wrong = in_parallel(&numbers, |number| {
        let accept = if number % 2 == 0 { "application/json" } else { "text/event-stream" };
        let headers = [("content-type", "application/json"), ("accept", accept)];
        let stream = served.open(&token, "POST", "/api/v1/execute", &headers, body.as_bytes());
        std::thread::sleep(moment(*number, 150));
        stream.map(drop).map_err(|e| format!("number {number}: {e}"))
    });
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let all = served.get(&token, "/api/v1/executions?limit=100").is(200);
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let left = items.iter().filter(|one| !one["status"].as_str().is_some_and(is_over)).count();
        if left == 0 {
            let done = items.iter().filter(|one| one["status"] == "completed").count();
            if done > 0 {
                wrong.push(format!("{done} ended as if somebody had waited"));
            }
            return verdict(wrong);
        }
        if Instant::now() > deadline {
            wrong.push(format!("{left} of {MANY} go on 2 s later"));
            return verdict(wrong);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Cancelled once, twice, and when it is over already: one end, that stays.
pub(super) fn cancels_at_random(stage: &Stage) -> Result<(), String> {
    const MANY: usize = 24;
    let served = stage.served();
    let served = &*served;
    let token = &served.tenants[0];
    let numbers: Vec<usize> = (0..MANY).collect();
    let wrong = in_parallel(&numbers, |number| {
        let id = submit(served, token, &python("import time; print('begun', flush=True); time.sleep(.1)"));
        std::thread::sleep(moment(*number, 200));
        let cancel = || served.post(token, &format!("/api/v1/executions/{id}/cancel"), &Value::Null).status;
        let answers = [cancel(), cancel()];
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut end = status(served, token, &id);
        while !is_over(&end) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
            end = status(served, token, &id);
        }
        let last = cancel();
        let again = status(served, token, &id);
        let events = served.get(token, &format!("/api/v1/executions/{id}/stream")).text();
        let ends = events.matches("event: finished").count();
        let known = matches!(end.as_str(), "completed" | "failed" | "cancelled");
        let right =
            known && end == again && ends == 1 && answers.iter().chain([&last]).all(|code| *code == 200);
        match right {
            true => Ok(()),
            false => {
                Err(format!("{id}: `{end}`, then `{again}`, {ends} ends, answers {answers:?} and {last}"))
            }
        }
    });
    verdict(wrong)
}

/// Many make, use, fill and remove a session of one name.
pub(super) fn many_at_one_session(stage: &Stage) -> Result<(), String> {
    const MANY: usize = 48;
    const PATH: &str = "/api/v1/sessions/crowded";
    let served = stage.served();
    let served = &*served;
    let token = &served.tenants[0];
    let numbers: Vec<usize> = (0..MANY).collect();
    let mut wrong = in_parallel(&numbers, |number| {
        let bytes = [("content-type", "application/octet-stream")];
        let answer = match number % 4 {
            0 => served.post(token, "/api/v1/sessions", &json!({"id": "crowded", "memory": "64M"})),
            1 => served.post(
                token,
                &format!("{PATH}/execute-sync"),
                &python("print(open('n', 'a').write('x'))"),
            ),
            2 => served.send(token, "PUT", &format!("{PATH}/files/n"), &bytes, b"12345"),
            _ => served.delete(token, PATH),
        };
        match answer.status {
            200 | 201 | 204 | 404 | 409 | 410 | 429 => Ok(()),
            other => Err(format!("kind {}: {other} {}", number % 4, cause(served, &answer))),
        }
    });
    served.delete(token, PATH);
    let after = served.post(token, &format!("{PATH}/execute-sync"), &python("print(1)")).status;
    if !matches!(after, 404 | 409) {
        wrong.push(format!("a program for a session that is gone: {after}"));
    }
    verdict(wrong)
}

/// What a problem says, and what the log says of it.
fn cause(served: &Served, answer: &Answer) -> String {
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let id = said["request_id"].as_str().unwrap_or("none");
    let log = served.log();
    let lines = log.lines().filter(|line| line.contains(id) && !line.contains("sandboxd::access"));
    format!("{} {}", cut(&answer.text()), lines.collect::<Vec<_>>().join(" "))
}

/// A server of its own on a state directory, as it starts or does not.
fn server(stage: &Stage, state: &Path) -> Running {
    let socket = stage.folder().join("socket");
    let words = ["serve", "--set", "pool.enabled=false", "--set", "log.format=json"];
    stage.person.command(words).arg("--unix-socket", socket).arg("--state-dir", state).start()
}

/// Starts it, sees whether it says that it is ready, and ends it: what it said, and whether it was ready.
fn tried(stage: &Stage, state: &Path) -> (String, bool) {
    let mut running = server(stage, state);
    let deadline = Instant::now() + Duration::from_secs(20);
    while running.is_running() && !running.complained().contains("\"ready\"") && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let ready = running.is_running();
    if ready {
        running.signal(Signal::TERM);
    }
    let out = running.out(Duration::from_secs(60));
    (out.complaint(), ready)
}

/// Files of a directory that are databases.
fn databases(state: &Path) -> Vec<PathBuf> {
    let files = crate::traces::below(state, &|_| true);
    files
        .into_iter()
        .filter(|path| std::fs::read(path).is_ok_and(|all| all.starts_with(b"SQLite format 3")))
        .collect()
}

/// A database that is cut off, or has other bytes in it: refused in words, and left as it is for whoever can mend it.
pub(super) fn a_broken_database(stage: &Stage) -> Result<(), String> {
    let state = stage.folder().join("state");
    let (said, ready) = tried(stage, &state);
    let found = databases(&state);
    let [database] = &found[..] else { return Err(format!("no database: {}", cut(&said))) };
    if !ready {
        return Err(format!("it does not start at all: {}", cut(&said)));
    }
    let good = std::fs::read(database).map_err(|e| e.to_string())?;
    let mut flipped = good.clone();
    flipped[100..400].iter_mut().for_each(|byte| *byte ^= 0x55);
    let broken = [
        ("cut off", good[..good.len() / 2].to_vec()),
        ("with other bytes in it", flipped),
        ("no database", vec![b'x'; good.len()]),
    ];
    let mut wrong = Vec::new();
    for (how, bytes) in broken {
        for side in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{side}", database.display()));
        }
        std::fs::write(database, &bytes).map_err(|e| e.to_string())?;
        let (said, ready) = tried(stage, &state);
        stage.show(said.as_bytes());
        if ready {
            wrong.push(format!("{how}: it starts as if nothing were wrong"));
        } else if !said.contains("error: ") || said.contains("panicked") {
            wrong.push(format!("{how}: it does not say why: {}", cut(&said)));
        }
        if std::fs::read(database).map_err(|e| e.to_string())?.len() != bytes.len() {
            wrong.push(format!("{how}: it was written over"));
        }
    }
    std::fs::write(database, &good).map_err(|e| e.to_string())?;
    let (said, ready) = tried(stage, &state);
    if !ready {
        wrong.push(format!("with the right bytes again it does not start: {}", cut(&said)));
    }
    verdict(wrong)
}
