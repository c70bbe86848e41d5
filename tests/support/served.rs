//! `sandboxd serve` with a port and a state of its own, and a client that sends exactly what it is told to.

use super::{Running, Sandboxd};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tempfile::TempDir;

/// Longer than any answer should take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Served {
    running: Option<Running>,
    address: SocketAddr,
    /// The operator's.
    pub(crate) token: String,
    _folder: TempDir,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The answer, if it has this status.
    pub(crate) fn is(&self, status: u16) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{}\n{text}", self.head);
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Served {
    pub(crate) fn by(who: &Sandboxd) -> Served {
        let folder = who.folder();
        let state = folder.path().join("state");
        let run = who.command(["serve", "--port", "0"]).arg("--state-dir", &state);
        let running = run.start();
        running.until_it_complains("\"ready\"");
        let said = running.complaints();
        let address = said.split("http://").nth(1).and_then(|rest| rest.split([',', '/', ' ', '\n']).next());
        let address = address.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{said}"));
        let token = std::fs::read_to_string(state.join("token")).unwrap().trim().to_owned();
        Served { running: Some(running), address, token, _folder: folder }
    }

    /// A key of another tenant.
    pub(crate) fn key_of(&self, tenant: &str) -> String {
        let key = json!({"name": tenant, "tenant": tenant, "scopes": ["run", "files"]});
        self.post("/api/v1/keys", &key).is(201)["token"].as_str().unwrap().to_owned()
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path}"), &self.token, "", b"")
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.send(&format!("DELETE {path}"), &self.token, "", b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.json(&format!("POST {path}"), &self.token, body)
    }

    /// A request with JSON.
    pub(crate) fn json(&self, line: &str, token: &str, body: &Value) -> Reply {
        self.send(line, token, "Content-Type: application/json\r\n", body.to_string().as_bytes())
    }

    /// A form with one file.
    pub(crate) fn form(&self, path: &str, name: &str, content: &[u8]) -> Reply {
        let mut body = format!(
            "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        )
        .into_bytes();
        body.extend(content);
        body.extend(b"\r\n--edge--\r\n");
        let kind = "Content-Type: multipart/form-data; boundary=edge\r\n";
        self.send(&format!("POST {path}"), &self.token, kind, &body)
    }

    /// Any request; without a token if that is empty.
    pub(crate) fn send(&self, line: &str, token: &str, headers: &str, body: &[u8]) -> Reply {
        let token = match token {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let length = match body.is_empty() {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let head = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}{headers}{length}\r\n"
        );
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // It may be refused before it is complete.
        let _ = stream.write_all(body);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap_or_else(|e| panic!("{line}: {e}"));
        let end =
            bytes.windows(4).position(|part| part == b"\r\n\r\n").unwrap_or_else(|| panic!("{line}")) + 4;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head, body: bytes.split_off(end) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.signal(Signal::TERM);
        if !std::thread::panicking() {
            let out = running.out(Duration::from_secs(600));
            assert_eq!(out.code, 0, "{}", String::from_utf8_lossy(&out.stderr));
        }
    }
}
