//! Documents that are fetched into a session, from a store that does not always behave.

use crate::old::Served;
use crate::support::Sandboxd;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A store. Where documents are and what they are like its ids say.
struct Store {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Store {
    fn start() -> Store {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let store = Store { address: listener.local_addr().unwrap(), heard: Arc::default() };
        let heard = store.heard.clone();
        // It ends with the process: nobody connects any more.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = heard.clone();
                std::thread::spawn(move || answer(stream, &heard));
            }
        });
        store
    }

    fn url(&self) -> String {
        format!("http://{}/api", self.address)
    }

    /// Each request line, with what came as authorization.
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}

fn answer(mut stream: TcpStream, heard: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut request, mut token) = (String::new(), String::new());
    let _ = reader.read_line(&mut request);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
        if let Some(rest) = line.to_lowercase().strip_prefix("authorization: ") {
            token = rest.trim().to_owned();
        }
        line.clear();
    }
    heard.lock().unwrap().push(format!("{} {token}", request.trim_end().trim_end_matches(" HTTP/1.1")));
    let whole = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    };
    let endless = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    let id = request.split("docid=").nth(1).unwrap_or_default().split([' ', '&']).next().unwrap_or_default();
    // Whoever has heard enough hangs up.
    let _ = match id {
        "missing" => stream.write_all(whole("404 Not Found", "secret words").as_bytes()),
        "moved" => {
            let place = format!("302 Found\r\nlocation: http://{}/elsewhere", stream.local_addr().unwrap());
            stream.write_all(whole(&place, "").as_bytes())
        }
        "short" => stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this"),
        "endless" => {
            let mut sent = stream.write_all(endless.as_bytes());
            for _ in 0..100_000 {
                sent = sent.and_then(|()| stream.write_all(&[b'x'; 4096]));
                if sent.is_err() {
                    break;
                }
            }
            sent
        }
        "silent" => {
            let begun = stream.write_all(format!("{endless}a").as_bytes());
            std::thread::sleep(Duration::from_secs(20));
            begun
        }
        id => stream.write_all(whole("200 OK", &format!("document {id}")).as_bytes()),
    };
}

fn fetch(served: &Served, session: &str, wanted: Value) -> Value {
    served.post(&format!("/workspace/se/download_from_efast/{session}"), &wanted).is(200)
}

fn listed(served: &Served, session: &str) -> Vec<String> {
    let files = served.get(&format!("/workspace/se/files/{session}?recursive=true")).is(200);
    let names = files["files"].as_array().unwrap().iter().filter(|file| file["type"] != "directory");
    names.map(|file| file["filename"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn documents_come_into_the_session() {
    let store = Store::start();
    let url = format!("documents.url={}", store.url());
    for who in Sandboxd::everybody() {
        let served = Served::with(&who, &["--set", &url, "--set", "documents.token=ours"]);
        let wanted = json!({
            "file_params": [
                {"docid": "gns://A/B", "savename": "b.txt"},
                {"docid": "C", "rev": "7"},
                {"docid": "missing"},
            ],
            "save_path": "/workspace/in",
        });
        let done = fetch(&served, "s", wanted);
        assert_eq!(
            (&done["success_count"], &done["failed_count"], &done["total_count"], &done["save_path"]),
            (&json!(2), &json!(1), &json!(3), &json!("/workspace/in")),
            "{done}"
        );
        let text = "document gns%3A%2F%2FA%2FB";
        assert_eq!(
            done["results"][0],
            json!({"index": 0, "docid": "gns://A/B", "savename": "b.txt", "success": true,
                "file_path": "/workspace/in/b.txt", "size": text.len()}),
        );
        assert_eq!(done["results"][1]["file_path"], "/workspace/in/C", "{done}");
        let lost = &done["results"][2];
        assert_eq!((&lost["success"], &lost["index"]), (&json!(false), &json!(2)), "{done}");
        assert_eq!(lost["error"], "the answer of the store was 404", "nothing of its words is told");
        let seen = served.post("/workspace/se/execute/s", &json!({"command": "cat in/b.txt"})).is(200);
        assert_eq!(seen["stdout"], text);
        assert_eq!(listed(&served, "s"), ["in/C", "in/b.txt"]);
        assert_eq!(
            store.heard(),
            [
                "GET /api/download?docid=gns%3A%2F%2FA%2FB bearer ours",
                "GET /api/download?docid=C&rev=7 bearer ours",
                "GET /api/download?docid=missing bearer ours",
            ]
        );
    }
}

#[test]
fn a_store_that_misbehaves_fails_its_document_and_no_other() {
    let store = Store::start();
    let set = [format!("documents.url={}", store.url()), "documents.max_size=64K".into()];
    let served = Served::with(&Sandboxd::caller(), &["--set", &set[0], "--set", &set[1]]);
    let wanted = json!({"file_params": [
        {"docid": "endless"}, {"docid": "short"}, {"docid": "moved"},
        {"docid": "x", "savename": "../x"}, {"docid": "x", "savename": "/etc/x"}, {"docid": "///"}, {"docid": "good"},
    ], "token": "theirs"});
    let done = fetch(&served, "s", wanted);
    assert_eq!(done["success_count"], 1, "{done}");
    let said = |index: usize| done["results"][index]["error"].as_str().unwrap_or_default().to_owned();
    assert!(said(0).contains("65536") || said(0).contains("64 KiB"), "{done}");
    assert!(said(2).ends_with("302"), "{done}");
    for refused in 3..6 {
        assert!(said(refused).contains("path"), "{done}");
    }
    assert_eq!(done["results"][6]["file_path"], "/workspace/good");
    assert_eq!(listed(&served, "s"), ["good"], "nothing is left of what came in part");
    let heard = store.heard();
    assert_eq!(
        heard.len(),
        4,
        "what has no place is not asked for, and nobody is followed elsewhere: {heard:?}"
    );
    assert!(heard.iter().all(|line| line.ends_with("bearer theirs")), "{heard:?}");

    let began = Instant::now();
    let late =
        fetch(&served, "s", json!({"file_params": [{"docid": "silent"}, {"docid": "good"}], "timeout": 1}));
    assert_eq!((&late["failed_count"], &late["results"][1]["success"]), (&json!(2), &json!(false)), "{late}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn callers_choose_among_stores_and_not_beyond() {
    let (first, other, foreign) = (Store::start(), Store::start(), Store::start());
    let set = [format!("documents.url={}", first.url()), format!("documents.other_urls={}", other.url())];
    let more = ["--set", &set[0], "--set", &set[1], "--set", "documents.token=ours"];
    let served = Served::with(&Sandboxd::caller(), &more);
    let from = |url: &str| json!({"file_params": [{"docid": "1"}], "efast_url": url});
    assert_eq!(fetch(&served, "s", from(&first.url()))["success_count"], 1);
    assert_eq!(fetch(&served, "s", from(&other.url()))["success_count"], 1);
    assert_eq!(first.heard(), ["GET /api/download?docid=1 bearer ours"]);
    assert_eq!(other.heard(), ["GET /api/download?docid=1 "], "the token of one store is not for another");
    for url in [foreign.url(), "http://169.254.169.254/".into(), format!("{}/more", first.url())] {
        served.post("/workspace/se/download_from_efast/s", &from(&url)).is(403);
    }
    for (field, value) in [
        ("file_params", json!([])),
        ("file_params", json!(vec![json!({"docid": "1"}); 101])),
        ("file_params", json!([{"docid": ""}])),
        ("token", json!("a\r\nb")),
        ("efast_url", json!("file:///etc/passwd")),
    ] {
        let mut wanted = from(&first.url());
        wanted[field] = value;
        served.post("/workspace/se/download_from_efast/s", &wanted).is(422);
    }
    assert!(foreign.heard().is_empty() && first.heard().is_empty());
}
