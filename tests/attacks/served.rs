//! A `sandboxd serve` that lives as long as the columns that come in by REST, and a client of it.
//!
//! It listens on a socket in the file system: a packet in the network of the commands is somebody who got out.

use crate::client::{Answer, chunk, head};
use crate::seen::cut;
use crate::support::{Running, Sandboxd, host};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longest silence of an answer: longer than any program may take.
const PATIENCE: Duration = Duration::from_secs(95);

/// One place of each kind waits, and nobody is told to come back later.
const SETTINGS: [&str; 6] = [
    "pool.min=1",
    "pool.max=1",
    "pool.idle_timeout=20s",
    "tenants.requests_per_minute=0",
    "tenants.queued=1000",
    "log.format=json",
];

/// A program for each kind of interpreter that is loaded for everybody, so that all are there before the first case.
const GREETINGS: [&str; 2] = ["print(1)", "import numpy, pandas\nprint(1)"];

pub(crate) struct Served {
    running: Running,
    socket: PathBuf,
    pub(crate) state: PathBuf,
    /// The layer it lacks.
    pub(crate) mutant: Option<String>,
    pub(crate) operator: String,
    /// Tokens of two who have nothing to do with each other. The first one runs the cases.
    pub(crate) tenants: [String; 2],
    /// How much of its log was looked at.
    heard: AtomicUsize,
}

impl Served {
    /// A new server with a state of its own in an empty directory of this person.
    pub(crate) fn start(person: &Sandboxd, folder: &Path, mutant: Option<String>) -> Result<Served, String> {
        let (state, socket) = (folder.join("state"), folder.join("socket"));
        let (at, on) = (state.display().to_string(), socket.display().to_string());
        let mut words = vec!["serve", "--unix-socket", &on, "--state-dir", &at];
        words.extend(SETTINGS.iter().flat_map(|setting| ["--set", *setting]));
        let running = person.command(words).start();
        running.until_it_complains("\"ready\"");
        let operator = std::fs::read_to_string(state.join("token")).map_err(|e| format!("its token: {e}"))?;
        let operator = operator.trim().to_owned();
        let (tenants, heard) = Default::default();
        let mut served = Served { running, socket, state, mutant, operator, tenants, heard };
        served.tenants = ["one", "other"].map(|tenant| served.key(tenant));
        for code in GREETINGS {
            served.run(&served.tenants[0], &json!({"language": "python", "code": code}));
        }
        Ok(served)
    }

    /// Ends it as an operator does; one that is dead already is only waited for.
    pub(crate) fn stop(self) {
        if self.lives() {
            self.running.signal(Signal::TERM);
        }
        self.running.out(Duration::from_secs(3600));
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    pub(crate) fn lives(&self) -> bool {
        host::status(self.pid(), "State").is_some_and(|state| !state.starts_with(['Z', 'X']))
    }

    /// How much memory it has, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let text = host::status(self.pid(), "VmRSS").unwrap_or_default();
        text.trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) << 10
    }

    /// All it has logged.
    pub(crate) fn log(&self) -> String {
        self.running.complained()
    }

    /// What it has logged since the last time.
    pub(crate) fn news(&self) -> String {
        let log = self.running.complained();
        let from = self.heard.swap(log.len(), Ordering::Relaxed);
        log.get(from..).unwrap_or_default().to_owned()
    }

    /// How many places of its pool wait; none if it does not answer.
    pub(crate) fn waiting(&self) -> usize {
        let numbers = self.ask(&self.operator, "GET", "/metrics", &[], b"").map(|answer| answer.text());
        let lines = numbers.unwrap_or_default();
        let sizes = lines.lines().filter(|line| line.starts_with("sandbox_warm_pool_size{"));
        sizes.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
    }

    /// A key of a tenant that may run programs and reach files.
    pub(crate) fn key(&self, tenant: &str) -> String {
        let wish = json!({"name": tenant, "tenant": tenant, "scopes": ["run", "files"]});
        let made = self.post(&self.operator, "/api/v1/keys", &wish).is(201);
        made["token"].as_str().unwrap_or_default().to_owned()
    }

    /// The record of a program that is run to its end.
    pub(crate) fn run(&self, token: &str, program: &Value) -> Value {
        self.post(token, "/api/v1/execute", program).is(200)
    }

    pub(crate) fn get(&self, token: &str, path: &str) -> Answer {
        self.send(token, "GET", path, &[], b"")
    }

    pub(crate) fn delete(&self, token: &str, path: &str) -> Answer {
        self.send(token, "DELETE", path, &[], b"")
    }

    pub(crate) fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.send(token, "POST", path, &[("content-type", "application/json")], &body)
    }

    /// Says something and panics unless it is answered.
    pub(crate) fn send(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.ask(token, method, path, headers, body)
            .unwrap_or_else(|e| panic!("{method} {} is not answered: {e}", cut(path)))
    }

    /// The same, or why there is no answer.
    pub(crate) fn ask(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Answer> {
        let mut reader = self.open(token, method, path, headers, body)?;
        // What comes first decides whether there is anything to read a head of.
        if std::io::BufRead::fill_buf(&mut reader)?.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (status, headers) = head(&mut reader);
        let of = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let length = of("content-length").and_then(|length| length.parse::<usize>().ok());
        let mut content = vec![0; length.unwrap_or(0)];
        if of("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = chunk(&mut reader) {
                content.extend(chunk);
            }
        } else if length.is_some() {
            // No further: who is refused early may find the connection broken behind the answer.
            reader.read_exact(&mut content)?;
        } else {
            reader.read_to_end(&mut content)?;
        }
        Ok(Answer { status, headers, body: content })
    }

    /// Says something, and leaves the answer to be read.
    pub(crate) fn open(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<BufReader<UnixStream>> {
        let upgrade = headers.iter().any(|(name, _)| *name == "upgrade");
        let after = if upgrade { "upgrade" } else { "close" };
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: {after}\r\n");
        text += &format!("authorization: Bearer {token}\r\n");
        text.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        if !body.is_empty() || matches!(method, "POST" | "PUT") {
            text += &format!("content-length: {}\r\n", body.len());
        }
        let mut stream = self.connect()?;
        stream.write_all((text + "\r\n").as_bytes())?;
        // Who is refused is answered before everything is said.
        let _ = stream.write_all(body);
        Ok(BufReader::new(stream))
    }

    pub(crate) fn connect(&self) -> std::io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}
