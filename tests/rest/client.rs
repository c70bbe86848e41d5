//! A server of its own for each test, and a client that says what it is told to. Each test binary uses a part of it.
#![allow(dead_code)]

use crate::support::{Running, Sandboxd};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// Longer than anything here should take, counted from the start of the server.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Served {
    pub(crate) running: Option<Running>,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) state: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}: {}", self.status, self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Its JSON, if this is its status.
    pub(crate) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }
}

impl Served {
    pub(crate) fn start(who: &Sandboxd, more: &[&str]) -> Served {
        let folder = who.folder();
        let state = folder.path().join("state");
        Served { _folder: Some(folder), ..Served::on(who, state, more) }
    }

    pub(crate) fn on(who: &Sandboxd, state: PathBuf, more: &[&str]) -> Served {
        let at = state.display().to_string();
        let mut words = vec!["serve", "--port", "0", "--state-dir", &at];
        words.extend(more);
        let running = who.command(words).start();
        running.until_it_complains("\"ready\"");
        let said = running.complained();
        let (_, rest) = said.split_once("http://").unwrap_or_else(|| panic!("{said}"));
        let address = rest.split([',', '/']).next().unwrap().parse().unwrap();
        let token = std::fs::read_to_string(state.join("token")).unwrap().trim().to_owned();
        Served { running: Some(running), address, token, state, _folder: None }
    }

    /// As if the power went. Where its state is, which stays as long as what is returned with it.
    pub(crate) fn kill(mut self) -> (PathBuf, Option<tempfile::TempDir>) {
        let running = self.running.take().unwrap();
        running.signal(Signal::KILL);
        running.out(PATIENCE);
        (self.state.clone(), self._folder.take())
    }

    /// As an operator ends it. What it said.
    pub(crate) fn stop(mut self) -> String {
        let running = self.running.take().unwrap();
        running.signal(Signal::TERM);
        let out = running.out(PATIENCE);
        assert_eq!(out.code, 0, "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stderr).into_owned()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.send("POST", path, &[("content-type", "application/json")], &body)
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], b"")
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.send_as(&self.token, method, path, headers, body)
    }

    pub(crate) fn send_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut reader = self.open(token, method, path, headers, body);
        let (status, headers) = head(&mut reader);
        let mut content = Vec::new();
        let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        if chunked {
            while let Some(chunk) = chunk(&mut reader) {
                content.extend(chunk);
            }
        } else {
            reader.read_to_end(&mut content).unwrap();
        }
        Answer { status, headers, body: content }
    }

    /// Sends a request, and leaves the answer to be read.
    pub(crate) fn open(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "x-api-key") {
            text += &format!("authorization: Bearer {token}\r\n");
        }
        for usual in [("host", "localhost"), ("connection", "close")] {
            if !headers.iter().any(|(name, _)| *name == usual.0) {
                text += &format!("{}: {}\r\n", usual.0, usual.1);
            }
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || matches!(method, "POST" | "PUT") {
            text += &format!("content-length: {}\r\n", body.len());
        }
        stream.write_all((text + "\r\n").as_bytes()).unwrap();
        // Who is refused is answered before everything is said.
        let _ = stream.write_all(body);
        BufReader::new(stream)
    }
}

pub(crate) fn head(reader: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {line:?}")).parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
            None => return (status, headers),
        }
    }
}

/// A piece of an answer that comes in pieces; none at its end.
pub(crate) fn chunk(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let size = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut bytes = vec![0; size + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(size);
    (size > 0).then_some(bytes)
}
