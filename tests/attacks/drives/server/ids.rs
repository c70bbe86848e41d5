//! Ids and paths: somebody else's, and such as are none.

use super::{Session, python, verdict};
use crate::seen::cut;
use crate::served::Served;
use crate::stage::Stage;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// What lies in the session of the one who is robbed.
const WORD: &str = "word-of-the-first-tenant";
/// Whoever has the scope may make these, and nobody else's are reached: the same id is another one for each tenant.
const MADE_BY_USE: &str = "/workspace/se/";
/// Fewest routes that have to say that there is nothing, so that this is about something.
const LEAST: usize = 40;

/// The methods and paths with an id in them, from the description that the server gives of itself.
fn routes(served: &Served) -> Vec<(String, String)> {
    let document = served.get(&served.operator, "/openapi.json").is(200);
    let paths = document["paths"].as_object().cloned().unwrap_or_default();
    let of = |(path, methods): (String, Value)| {
        let methods: Vec<String> =
            methods.as_object().into_iter().flat_map(|all| all.keys().cloned()).collect();
        methods.into_iter().map(move |method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = paths.into_iter().flat_map(of).filter(|(_, path)| path.contains("id}")).collect();
    // Those that make something come last.
    all.sort_by_key(|(_, path)| path.starts_with(MADE_BY_USE));
    all
}

/// A path with its parameters filled in.
fn filled(path: &str, id: &str, file: &str) -> String {
    let mut path = path.replace("{stream}", "stdout");
    for name in ["{id}", "{session_id}", "{execution_id}", "{container_id}", "{template_id}"] {
        path = path.replace(name, id);
    }
    path.replace("{path}", file).replace("{filepath}", file)
}

/// What a client would say there.
fn said(method: &str, path: &str) -> (&'static str, Vec<u8>) {
    const FORM: &[u8] =
        b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"note\"\r\n\r\nx\r\n--B--\r\n";
    let body = match path.rsplit('/').next().unwrap_or_default() {
        _ if method == "GET" || method == "DELETE" => return ("application/json", Vec::new()),
        _ if path.contains("/upload") => return ("multipart/form-data; boundary=B", FORM.to_vec()),
        _ if path.contains("/sessions/") && method == "PUT" => {
            return ("application/octet-stream", b"x".to_vec());
        }
        "directories" => json!({"path": "new"}),
        "move" => json!({"from": "secret", "to": "gone"}),
        "exec" => json!({"command": "cat secret"}),
        "code" => json!({"language": "python", "code": "print(open('secret').read())"}),
        "execute" | "execute-sync" => python("print(open('secret').read())"),
        "pause" | "resume" | "terminate" | "cancel" | "start" | "stop" | "restart" => {
            return ("application/json", Vec::new());
        }
        _ => json!({"content": "x", "path": "new", "name": "x"}),
    };
    ("application/json", body.to_string().into_bytes())
}

/// An answer without what tells one request from another.
fn plain(answer: &crate::client::Answer, id: &str) -> (u16, String) {
    let mut said: Value = serde_json::from_slice(&answer.body).unwrap_or(answer.text().into());
    for part in [
        &["request_id"][..],
        &["error", "request_id"],
        &["error", "timestamp"],
        &["detail", "request_id"],
        &["timestamp"],
    ] {
        let pointer = format!("/{}", part.join("/"));
        if let Some(value) = said.pointer_mut(&pointer) {
            *value = Value::Null;
        }
    }
    (answer.status, said.to_string().replace(id, "ID"))
}

/// What is somebody else's looks as if it were not there, on every route there is.
pub(super) fn foreign_ids_on_every_route(stage: &Stage) -> Result<(), String> {
    let served = stage.served();
    let [one, other] = [&served.tenants[0], &served.tenants[1]];
    let vault = Session::make(&served, one, "vault-a");
    vault.put("secret", WORD.as_bytes());
    let done = vault.run(&python("print(open('secret').read())"));
    let execution = done["execution_id"].as_str().or(done["id"].as_str()).ok_or("no id of an execution")?;
    let containers = served.get(one, "/api/v1/containers").is(200);
    let container = containers["items"][0]["id"].as_str().ok_or("no container")?;
    let (mut wrong, mut absent) = (Vec::new(), 0);
    for (method, path) in routes(&served) {
        let theirs = match path.as_str() {
            path if path.contains("{execution_id}") => execution,
            path if path.contains("{container_id}") => container,
            _ => "vault-a",
        };
        // As long, and of the same kind.
        let nobodys =
            format!("{}{}", &theirs[..theirs.len() - 1], if theirs.ends_with('b') { 'c' } else { 'b' });
        let (kind, body) = said(&method, &path);
        let answers = [theirs, nobodys.as_str()].map(|id| {
            let answer =
                served.send(other, &method, &filled(&path, id, "secret"), &[("content-type", kind)], &body);
            stage.show(&answer.body);
            if answer.text().contains(WORD) {
                wrong.push(format!("{method} {path} shows what is somebody else's"));
            }
            plain(&answer, id)
        });
        absent += usize::from(answers[0].0 == 404);
        let same = match path.starts_with(MADE_BY_USE) {
            true => answers[0].0 == answers[1].0,
            false => answers[0] == answers[1] && !(200..300).contains(&answers[0].0),
        };
        if !same || answers[0].0 >= 500 {
            let [theirs, nobodys] = &answers;
            let words = format!("{} {}, {} {}", theirs.0, cut(&theirs.1), nobodys.0, cut(&nobodys.1));
            wrong.push(format!("{method} {path}: {words}"));
        }
    }
    if absent < LEAST {
        wrong.push(format!("only {absent} routes say that there is nothing"));
    }
    for id in ["vault-a", "vault-b"] {
        served.delete(other, &format!("/workspace/se/session/{id}"));
    }
    let found = served.get(one, &vault.path("/files/secret"));
    if found.status != 200 || found.body != WORD.as_bytes() {
        wrong.push(format!("it was changed: {} {}", found.status, cut(&found.text())));
    }
    verdict(wrong)
}

const NO_IDS: [&str; 9] = [
    "..",
    "%2e%2e",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "a%2fb",
    "a%00b",
    "%F0%9F%92%A9",
    "-x",
    "a%0d%0aset-cookie:%20x=1",
    "%ff%fe",
];
const NO_PATHS: [&str; 10] = [
    "../../../../etc/passwd",
    "%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2fetc%2fpasswd",
    "/etc/passwd",
    "x%00/etc/passwd",
    "link",
    "link/passwd",
    "etc/passwd",
    "etc/../../etc/passwd",
];

/// No id and no path gets anywhere that is no id, and no path beneath the workspace.
pub(super) fn ids_and_paths_that_are_none(stage: &Stage) -> Result<(), String> {
    let served = stage.served();
    let token = &served.tenants[0];
    let session = Session::make(&served, token, "paths");
    session.run(&python("import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/etc', 'etc')"));
    let long = "a".repeat(10_000);
    let mut wrong = Vec::new();
    let mut try_it = |method: &str, path: &str, filled: String| {
        let (kind, body) = said(method, path);
        let answer = served.send(token, method, &filled, &[("content-type", kind)], &body);
        stage.show(&answer.body);
        let leaked = answer.text().contains("root:") || answer.header("set-cookie").is_some();
        if !(400..500).contains(&answer.status) || leaked {
            wrong.push(format!("{}: {method} {}: {}", answer.status, cut(&filled), cut(&answer.text())));
        }
    };
    for (method, path) in routes(&served) {
        for id in NO_IDS.into_iter().chain([long.as_str()]) {
            try_it(&method, &path, filled(&path, id, "x"));
        }
        if path.contains("path}") && path.contains("/sessions/") {
            for file in NO_PATHS {
                // Removing or replacing a link does no more than that.
                if method == "GET" || !matches!(file, "link" | "etc") {
                    try_it(&method, &path, filled(&path, "paths", file));
                }
            }
        }
    }
    verdict(wrong)
}

/// Takes turns in what a name stands for, as fast as it can.
const SWAPS: &str = "\
import os, shutil, time
def quietly(work, *args):
    try:
        work(*args)
    except OSError:
        pass
os.mkdir('real')
open('real/passwd', 'w').write('mine')
end = time.time() + 1.2
while time.time() < end or not os.path.exists('d/passwd'):
    # Who writes into a directory that is not there makes it.
    if os.path.exists('real'):
        shutil.rmtree('d', ignore_errors=True)
    quietly(os.rename, 'real', 'd')
    if time.time() > end:
        continue
    quietly(os.rename, 'd', 'real')
    for target in ('/etc', 'real'):
        quietly(os.symlink, target, 'd')
        quietly(os.unlink, 'd')
";

/// Files of a session while its program swaps directories for links to elsewhere.
pub(super) fn files_while_a_program_swaps_them(stage: &Stage) -> Result<(), String> {
    let served = stage.served();
    let token = &served.tenants[0];
    let session = Session::make(&served, token, "swaps");
    served.post(token, &session.path("/execute"), &python(SWAPS)).is(201);
    let (mut wrong, mut rounds, mut mine) = (Vec::new(), 0, 0);
    let deadline = Instant::now() + Duration::from_millis(1200);
    while Instant::now() < deadline && wrong.is_empty() {
        rounds += 1;
        let asked = [
            ("GET", "/files/d/passwd"),
            ("PUT", "/files/d/new"),
            ("GET", "/files?path=d"),
            ("GET", "/archive?path=d&format=zip"),
        ];
        for (method, path) in asked {
            let (kind, body) = said(method, "/sessions/");
            let headers = [("content-type", kind)];
            // What is gone in the middle of an answer is cut.
            let Ok(answer) = served.ask(token, method, &session.path(path), &headers, &body) else {
                continue;
            };
            let text = answer.text();
            let outside = text.contains("root:") || text.contains("hosts");
            if outside || !matches!(answer.status, 200 | 400..=499) {
                wrong.push(format!("{method} {path}: {} {}", answer.status, cut(&text)));
            }
            if path.ends_with("passwd") && answer.status == 200 {
                mine += usize::from(text == "mine");
                if text != "mine" {
                    wrong.push(format!("it read {:?}", cut(&text)));
                }
            }
        }
    }
    if rounds < 5 {
        wrong.push(format!("only {rounds} rounds"));
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        // The program may still be at it.
        let last = served.ask(token, "GET", &session.path("/files/d/passwd"), &[], b"");
        let last = last.map(|answer| (answer.status, answer.text()));
        if last.as_ref().is_ok_and(|(status, text)| *status == 200 && text == "mine") {
            return verdict(wrong);
        }
        if Instant::now() > deadline {
            wrong.push(format!("in the end {last:?}, after {mine} times"));
            return verdict(wrong);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
