//! What one tenant leaves behind, and whether another finds it.

use super::{Session, python, verdict};
use crate::seen::cut;
use crate::stage::Stage;
use crate::support::in_parallel;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;

fn program(stage: &Stage, name: &str) -> Result<Value, String> {
    let path = stage.place.world.path("programs").join(name);
    Ok(python(&std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?))
}

/// Lines of a program that looks at everything it has.
fn looked(record: &Value) -> Result<BTreeSet<String>, String> {
    let text = record["stdout"].as_str().unwrap_or_default();
    let lines: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let ended = record["status"] == "success" || record["outcome"] == "success";
    match ended && lines.len() > 50 {
        true => Ok(lines),
        false => Err(format!("it saw only {} things: {}", lines.len(), cut(&record.to_string()))),
    }
}

/// What a program sees before and after another tenant has spoilt what it could, alone and in a session.
pub(super) fn what_a_tenant_leaves(stage: &Stage) -> Result<(), String> {
    let served = stage.served();
    let [one, other] = [&served.tenants[0], &served.tenants[1]];
    let (look, poison) = (program(stage, "zy_05_look.py")?, program(stage, "zy_05_poison.py")?);
    let mut wrong = Vec::new();
    let mut compare = |where_: &str, before: BTreeSet<String>, after: BTreeSet<String>| {
        wrong.extend(after.difference(&before).map(|line| format!("{where_}: there is now {}", cut(line))));
        wrong.extend(
            before.difference(&after).map(|line| format!("{where_}: there is no longer {}", cut(line))),
        );
    };
    let before = looked(&served.run(other, &look))?;
    for _ in 0..2 {
        let done = served.run(one, &poison);
        let text = done["stdout"].as_str().unwrap_or_default();
        if !text.ends_with("spoilt\n") {
            return Err(format!("the first one did nothing: {}", cut(&done.to_string())));
        }
    }
    compare("alone", before.clone(), looked(&served.run(other, &look))?);
    let within = |token: &str, program: &Value| Session::make(&served, token, "reused").run(program);
    let before = looked(&within(other, &look))?;
    within(one, &poison);
    compare("in a session", before, looked(&within(other, &look))?);
    verdict(wrong)
}

const LEAVES: &str = "\
import os
found = [p for d in ('.', '/tmp', '/dev/shm', os.path.expanduser('~')) for p in os.listdir(d) if p.startswith('left-')]
for d in ('.', '/tmp', '/dev/shm'):
    open(f'{d}/left-NUMBER', 'w').write('TENANT')
print('NUMBER', 'TENANT', found)
";

/// Two tenants take from one pool, all at once: each gets its own answer, and a place where nobody was.
pub(super) fn many_tenants_at_once(stage: &Stage) -> Result<(), String> {
    const MANY: usize = 80;
    let served = stage.served();
    let served = &*served;
    let numbers: Vec<usize> = (0..MANY).collect();
    let ids = Mutex::new(BTreeSet::new());
    let mut wrong = in_parallel(&numbers, |number| {
        let tenant = number % 2;
        let code = LEAVES.replace("NUMBER", &number.to_string()).replace("TENANT", &tenant.to_string());
        let record = served.run(&served.tenants[tenant], &python(&code));
        ids.lock().unwrap().insert(record["execution_id"].to_string());
        match record["stdout"] == format!("{number} {tenant} []\n") {
            true => Ok(()),
            false => Err(format!("number {number}: {}", cut(&record.to_string()))),
        }
    });
    let ids = ids.into_inner().unwrap();
    if ids.len() != MANY {
        wrong.push(format!("{} names for {MANY} runs", ids.len()));
    }
    verdict(wrong)
}

/// Output that is too long for a record, and such as is no text, is whole on every way to it.
pub(super) fn output_is_whole_everywhere(stage: &Stage) -> Result<(), String> {
    const LONG: usize = 200_000;
    let served = stage.served();
    let token = &served.tenants[0];
    let mut wrong = Vec::new();
    let mut check = |way: &str, record: &Value| {
        for (stream, letter) in [("stdout", "o"), ("stderr", "e")] {
            let text = record[stream].as_str().unwrap_or_default();
            if text != letter.repeat(LONG) {
                wrong.push(format!("{way}: {stream} has {} of {LONG} bytes", text.len()));
            }
        }
    };
    let program =
        python(&format!("import sys\nsys.stdout.write('o' * {LONG})\nsys.stderr.write('e' * {LONG})"));
    let done = served.run(token, &program);
    check("at once", &done);
    let id = done["execution_id"].as_str().unwrap_or_default();
    check("by its id", &served.get(token, &format!("/api/v1/executions/{id}")).is(200));
    let key = nonce();
    let headers = [("content-type", "application/json"), ("idempotency-key", key.as_str())];
    for way in ["with a key", "with a key again"] {
        let body = program.to_string();
        check(way, &served.send(token, "POST", "/api/v1/execute", &headers, body.as_bytes()).is(200));
    }
    check("in a session", &Session::make(&served, token, "long").run(&program));
    for many in [1, LONG] {
        let done = served.run(token, &python(&format!("import os\nos.write(1, b'\\xff\\x00' * {many})")));
        let id = done["execution_id"].as_str().unwrap_or_default();
        let bytes = served.get(token, &format!("/api/v1/executions/{id}/output/stdout")).body;
        if bytes != b"\xff\x00".repeat(many) {
            wrong.push(format!("{} bytes that are no text became {} others", 2 * many, bytes.len()));
        }
    }
    verdict(wrong)
}

/// What nobody has said before.
fn nonce() -> String {
    format!("key-{:?}", std::time::Instant::now()).replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

/// One idempotency key from several sides at once, with another body, and by another tenant.
pub(super) fn one_key_from_many_sides(stage: &Stage) -> Result<(), String> {
    const MANY: usize = 8;
    let served = stage.served();
    let served = &*served;
    let key = nonce();
    let headers = [("content-type", "application/json"), ("idempotency-key", key.as_str())];
    let body = python("import uuid; print(uuid.uuid4())").to_string();
    let send =
        |token: &str, body: &str| served.send(token, "POST", "/api/v1/execute", &headers, body.as_bytes());
    let [one, other] = [&served.tenants[0], &served.tenants[1]];
    let seen = Mutex::new(BTreeSet::new());
    let numbers: Vec<usize> = (0..MANY).collect();
    let mut wrong = in_parallel(&numbers, |_| {
        let answer = send(one, &body);
        let record = answer.is(200);
        seen.lock().unwrap().insert(format!("{} {}", record["execution_id"], record["stdout"]));
        Ok(())
    });
    let seen = seen.into_inner().unwrap();
    if seen.len() != 1 {
        wrong.push(format!("{} runs for one key: {seen:?}", seen.len()));
    }
    let different = send(one, &json!({"language": "python", "code": "print('another')"}).to_string());
    if !matches!(different.status, 409 | 422) {
        wrong.push(format!(
            "the same key for another program: {} {}",
            different.status,
            cut(&different.text())
        ));
    }
    let theirs = send(other, &body).is(200);
    if seen.contains(&format!("{} {}", theirs["execution_id"], theirs["stdout"])) {
        wrong.push("a key gets the answer that somebody else got".into());
    }
    verdict(wrong)
}
