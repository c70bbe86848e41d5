//! A run through the server, its record stored, beside a request that does nothing and beside the bare command.
//!
//! Three servers take turns: one that has run nothing yet, one that has many records of earlier runs, and one of an
//! agent, by standard input and output.

use super::Bench;
use super::agent::Agent;
use super::program::{Ready, Task};
use super::results::{Results, ServerRow};
use super::statistics::Summary;
use crate::args::BenchPart;
use anyhow::{Context, Result, bail, ensure};
use engine::storage::{DatabaseUrl, Json, Objects, Outcome, Store, StoreSettings, Submission};
use futures_util::StreamExt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records that are written at once.
const AT_ONCE: usize = 256;
/// How long a pool has to be filled again after a run.
const REFILL: Duration = Duration::from_millis(10);
/// How often a run may find no interpreter waiting.
const TRIES: usize = 20;
/// Whose records they are: those of the token.
const OWNER: &str = "default";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// The bare command.
    Bare,
    /// One that is answered at once.
    Empty,
    /// A program, and nothing stored before it.
    Execute,
    /// A program, and many stored before it.
    ExecuteAfterMany,
    /// A program, as a tool of MCP.
    Tool,
}

impl Request {
    const ALL: [Request; 5] =
        [Request::Bare, Request::Empty, Request::Execute, Request::ExecuteAfterMany, Request::Tool];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Request::Bare => "bare command",
            Request::Empty => "GET /health/live",
            Request::Execute => "POST /api/v1/execute",
            Request::ExecuteAfterMany => "the same, after many",
            Request::Tool => "execute_code by MCP, stdio",
        }
    }
}

pub(super) fn steps(bench: &Bench, programs: &[Arc<Ready>]) -> u64 {
    python(programs).map_or(0, |_| bench.effort.rounds as u64 + 1)
}

fn python(programs: &[Arc<Ready>]) -> Option<&Arc<Ready>> {
    programs.iter().find(|ready| ready.program.part == BenchPart::Python)
}

pub(super) fn measure(bench: &Bench, programs: &[Arc<Ready>], results: &mut Results) -> Result<()> {
    let Some(ready) = python(programs) else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let [few, many] = ["few", "many"].map(|name| folder.path().join(name));
    bench.bar.set_message("records");
    std::fs::create_dir(&many)?;
    bench.ours.drive(fill(bench, ready, &many))?;
    bench.bar.inc(1);
    let (mut few, mut many) = (Served::start(&few)?, Served::start(&many)?);
    let mut agent = Agent::start(&folder.path().join("agent"))?;
    let mut times = Request::ALL.map(|request| (request, Vec::new()));
    bench.bar.set_message("POST /api/v1/execute");
    // The first rounds start interpreters that are copied later, and are not counted.
    let servers: [&mut dyn Executes; 3] = [&mut few, &mut many, &mut agent];
    for server in servers {
        for _ in 0..3 {
            server.execute(&ready.task(&bench.fresh))?;
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    for round in 0..bench.effort.rounds {
        for turn in 0..times.len() {
            std::thread::sleep(REFILL);
            let count = times.len();
            let (request, times) = &mut times[(round + turn) % count];
            let task = ready.task(&bench.fresh);
            times.push(match request {
                Request::Bare => bench.peers.spawn(&task.words, &task.says)?,
                Request::Empty => few.ask("GET /health/live", "")?.0,
                Request::Execute => few.execute_warm(&task)?,
                Request::ExecuteAfterMany => many.execute_warm(&task)?,
                Request::Tool => agent.execute_warm(&task)?,
            });
        }
        bench.bar.inc(1);
    }
    let median = |wanted: Request| {
        let found = times.iter().find(|(request, _)| *request == wanted);
        found.and_then(|(_, times)| Summary::of(times)).map_or(f64::NAN, |times| times.p50_ms)
    };
    let (bare, empty) = (median(Request::Bare), median(Request::Empty));
    results.server = times
        .iter()
        .filter_map(|(request, times)| {
            let times = Summary::of(times)?;
            Some(ServerRow {
                request: *request,
                title: request.title(),
                records: if *request == Request::ExecuteAfterMany { bench.effort.records } else { 0 },
                ratio_to_bare: times.p50_ms / bare,
                ratio_to_empty: times.p50_ms / empty,
                times,
            })
        })
        .collect();
    Ok(())
}

/// Stores the record of one run many times, as if there had been as many.
async fn fill(bench: &Bench, ready: &Ready, state: &Path) -> Result<()> {
    let url: DatabaseUrl = format!("sqlite://{}/sandboxd.db", state.display()).parse()?;
    let store =
        Store::open(&url, Objects::in_directory(&state.join("objects"))?, StoreSettings::default()).await?;
    let engine = bench.ours.engine(None)?;
    let task = ready.task(&bench.fresh);
    let (_, execution) = super::ours::call(&engine, &task.request).await?;
    let request = Json::of(&serde_json::json!({"code": task.says}))?;
    let writes = (0..bench.effort.records).map(|_| async {
        let mut execution = execution.clone();
        let now = jiff::Timestamp::now().as_millisecond();
        execution.execution_id = format!("exec_{}", uuid::Uuid::now_v7().simple());
        let submission = Submission {
            id: execution.execution_id.clone(),
            owner: OWNER.into(),
            session_id: None,
            language: execution.language.clone(),
            created_at: now,
            request: request.clone(),
        };
        store.record(&submission, &Outcome::of(&execution, now, 1 << 20)?).await?;
        anyhow::Ok(())
    });
    let mut written = futures_util::stream::iter(writes).buffer_unordered(AT_ONCE);
    while let Some(done) = written.next().await {
        done?;
    }
    Ok(())
}

/// Who runs a program for us: how long that took in milliseconds, and its record.
pub(super) trait Executes {
    fn execute(&mut self, task: &Task) -> Result<(f64, serde_json::Value)>;

    /// How long it took when an interpreter waited for it.
    fn execute_warm(&mut self, task: &Task) -> Result<f64> {
        for _ in 0..TRIES {
            let (took, record) = self.execute(task)?;
            ensure!(record["stdout"] == *task.says, "the server answered {record}");
            if record["start"] == "hit" {
                return Ok(took);
            }
            std::thread::sleep(REFILL);
        }
        bail!("{TRIES} runs found no interpreter waiting");
    }
}

/// A server of our own, and a connection to it that is kept.
struct Served {
    child: Child,
    stream: BufReader<TcpStream>,
    token: String,
}

impl Served {
    fn start(state: &Path) -> Result<Served> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", "--port", "0", "--state-dir"]).arg(state);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let said = child.stderr.take().context("a server that says nothing")?;
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let place = lines.by_ref().find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            rest.split([',', '/', ' ', '"']).next().map(str::to_owned)
        });
        // Nobody reads what else it says, but it may say it.
        std::thread::spawn(move || lines.for_each(drop));
        let mut served = None;
        if let Some(place) = place {
            let connected = TcpStream::connect(&place).with_context(|| place.clone())?;
            connected.set_nodelay(true)?;
            connected.set_read_timeout(Some(Duration::from_secs(30)))?;
            served = Some((BufReader::new(connected), std::fs::read_to_string(state.join("token"))?));
        }
        let Some((stream, token)) = served else {
            let _ = child.kill();
            bail!("the server did not start: {}", child.wait()?);
        };
        Ok(Served { child, stream, token: token.trim().to_owned() })
    }

    /// Sends a request and reads the whole answer: how long that took, in milliseconds, and its body.
    fn ask(&mut self, what: &str, body: &str) -> Result<(f64, Vec<u8>)> {
        let head = format!(
            "{what} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        let began = Instant::now();
        self.stream.get_mut().write_all(head.as_bytes())?;
        let (mut length, mut status) = (0, String::new());
        loop {
            let mut line = String::new();
            ensure!(self.stream.read_line(&mut line)? > 0, "the server hung up");
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if status.is_empty() {
                line.clone_into(&mut status);
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        let took = began.elapsed().as_secs_f64() * 1000.0;
        ensure!(status.contains(" 200"), "{what}: {status}: {}", String::from_utf8_lossy(&answer));
        Ok((took, answer))
    }
}

impl Executes for Served {
    fn execute(&mut self, task: &Task) -> Result<(f64, serde_json::Value)> {
        let (took, answer) = self.ask("POST /api/v1/execute", &task.as_json().to_string())?;
        Ok((took, serde_json::from_slice(&answer)?))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
