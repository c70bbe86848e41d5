//! `sandboxd top`: what a server does at the moment, again and again.

use super::client::Client;
use super::metrics::Numbers;
use super::{RemoteError, facts, sessions};
use crate::args::remote::TopArgs;
use crate::{report, show};
use anyhow::Result;
use crossterm::{cursor, execute, queue, style, terminal};
use reqwest::Method;
use serde::Serialize;
use serde_json::Value;
use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Sessions that stand, in the words of the API.
const STANDING: [&str; 3] = ["ready", "paused", "creating"];
/// Newest executions among which those are found that are not over.
const NEWEST: usize = 50;
/// The shortest pause between two looks, in milliseconds.
const SHORTEST: u64 = 100;
const CTRL_C: u8 = 3;

pub(super) async fn run(client: &Client, args: &TopArgs) -> Result<ExitCode> {
    let pause = Duration::from_millis(args.interval.max(SHORTEST));
    if args.once || (!args.json && !std::io::stdout().is_terminal()) {
        let view = View::look(client).await?;
        match args.json {
            true => show::print_json(&view)?,
            false => show::print(&view.page(client.name()))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        return lines(client, pause).await;
    }
    watch(client, pause).await
}

/// An object on a line each time, until nobody reads them.
async fn lines(client: &Client, pause: Duration) -> Result<ExitCode> {
    loop {
        let line = serde_json::to_string(&View::look(client).await?)? + "\n";
        let mut out = std::io::stdout();
        match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            written => written?,
        }
        tokio::time::sleep(pause).await;
    }
}

/// A page on the terminal, until somebody has seen enough. One look that fails is told there, and not the end.
async fn watch(client: &Client, pause: Duration) -> Result<ExitCode> {
    // Before the terminal is changed: who asks wrongly wants to read why.
    let mut page = View::look(client).await?.page(client.name());
    let mut enough = Enough::new()?;
    let screen = Screen::take()?;
    screen.draw(&page)?;
    loop {
        let next = async {
            tokio::time::sleep(pause).await;
            View::look(client).await
        };
        let seen = tokio::select! {
            seen = next => seen,
            () = enough.told() => return Ok(ExitCode::SUCCESS),
        };
        match seen {
            Ok(view) => {
                page = view.page(client.name());
                screen.draw(&page)?;
            }
            Err(error) => screen.draw(&format!("{}\n\n{page}", report::one_line(&format!("{error:#}"))))?,
        }
    }
}

/// Whoever can say that they have seen enough.
struct Enough {
    keys: mpsc::Receiver<u8>,
    terminate: Signal,
    interrupt: Signal,
}

impl Enough {
    fn new() -> std::io::Result<Enough> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Enough { keys: keys(), terminate, interrupt })
    }

    async fn told(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                Some(key) = self.keys.recv() => if matches!(key, b'q' | b'Q' | CTRL_C) {
                    return;
                },
            }
        }
    }
}

/// What is typed, by a thread that nobody waits for.
fn keys() -> mpsc::Receiver<u8> {
    let (typed, keys) = mpsc::channel(16);
    if std::io::stdin().is_terminal() {
        std::thread::spawn(move || {
            for key in std::io::stdin().lock().bytes().map_while(Result::ok) {
                if typed.blocking_send(key).is_err() {
                    return;
                }
            }
        });
    }
    keys
}

/// The terminal, which is as it was when this is gone.
struct Screen {
    raw: bool,
}

impl Screen {
    fn take() -> Result<Screen> {
        let raw = std::io::stdin().is_terminal();
        if raw {
            terminal::enable_raw_mode()?;
        }
        let screen = Screen { raw };
        execute!(std::io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// As much of the page as there is room for.
    fn draw(&self, page: &str) -> Result<()> {
        // Some terminals do not know how large they are.
        let size = terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0);
        let (width, height) = size.unwrap_or((80, 24));
        let mut out = std::io::stdout().lock();
        queue!(out, cursor::MoveTo(0, 0))?;
        for (number, line) in page.lines().take(usize::from(height)).enumerate() {
            if number > 0 {
                queue!(out, cursor::MoveToNextLine(1))?;
            }
            let line: String = line.chars().take(usize::from(width)).collect();
            queue!(out, style::Print(line), terminal::Clear(terminal::ClearType::UntilNewLine))?;
        }
        queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown))?;
        out.flush()?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(std::io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        if self.raw {
            let _ = terminal::disable_raw_mode();
        }
    }
}

/// What a server does at one moment, as far as the caller may see it.
#[derive(Serialize)]
struct View {
    /// None where it tells no numbers.
    server: Option<Numbers>,
    /// Hosts that make sandboxes, and what they can bear; none for those who may not know.
    nodes: Vec<Value>,
    /// Those that stand, the busy ones first.
    sessions: Vec<Value>,
    /// Those that are not over.
    executions: Vec<Value>,
}

impl View {
    async fn look(client: &Client) -> Result<View> {
        let mut sessions = Vec::new();
        for state in STANDING {
            sessions.extend(client.list(&["api", "v1", "sessions"], &[("status", state)], None).await?);
        }
        sessions.sort_by_key(|session| std::cmp::Reverse(busy(session)));
        let mut executions = client.list(&["api", "v1", "executions"], &[], Some(NEWEST)).await?;
        executions.retain(|execution| execution["completed_at"].is_null());
        Ok(View { server: numbers(client).await?, nodes: nodes(client).await?, sessions, executions })
    }

    fn page(&self, name: &str) -> String {
        let waiting: u64 = self.sessions.iter().filter_map(|session| session["queued"].as_u64()).sum();
        let mut page = format!("sandboxd at {}", report::one_line(name));
        if let Some(server) = &self.server {
            page += &format!(
                ", up {}, {} requests, {} connections",
                facts::duration(server.uptime_seconds as i64),
                server.requests,
                server.connections
            );
        }
        page += &format!(
            "\nsessions that stand: {}, programs that are not over: {}, those that wait in sessions: {waiting}\n",
            self.sessions.len(),
            self.executions.len()
        );
        if let Some(server) = self.server.as_ref().filter(|server| !server.pool.is_empty()) {
            let mut table = show::table(&["POOL", "WAITING", "WANTED", "HITS", "MISSES"]);
            for (language, shelf) in &server.pool {
                let numbers = [shelf.waiting, shelf.wanted, shelf.hits, shelf.misses];
                let mut row = vec![report::one_line(language)];
                row.extend(numbers.map(|number| number.to_string()));
                table.add_row(row);
            }
            page += &format!("\n{table}\n");
        }
        if !self.nodes.is_empty() {
            page += &format!("\n{}\n", node_table(&self.nodes));
        }
        if !self.executions.is_empty() {
            let mut table = show::table(&["EXECUTION", "STATE", "LANGUAGE", "SESSION", "SINCE"]);
            for execution in &self.executions {
                let mut row: Vec<String> = ["id", "status", "language", "session_id"]
                    .map(|name| facts::cell(&execution[name]))
                    .into();
                row.push(facts::ago(&execution["created_at"]));
                table.add_row(row);
            }
            page += &format!("\n{table}\n");
        }
        if !self.sessions.is_empty() {
            page += &format!("\n{}\n", sessions::table(&self.sessions));
        }
        page.trim_end().to_owned()
    }
}

fn node_table(nodes: &[Value]) -> comfy_table::Table {
    let mut table = show::table(&["NODE", "STATE", "CPU", "MEMORY", "SESSIONS", "RUNNING", "WAITING"]);
    let part = |value: &Value| value.as_f64().map_or("-".into(), |part| format!("{:.0} %", part * 100.0));
    for node in nodes {
        let load = &node["load"];
        table.add_row([
            facts::cell(&node["id"]),
            facts::cell(&node["status"]),
            format!("{} of {} cores", part(&load["cpu"]), facts::cell(&node["cpu_cores"])),
            format!("{} of {}", part(&load["memory"]), facts::size(&node["memory_bytes"])),
            format!("{} of {}", facts::cell(&load["sessions"]), facts::cell(&node["max_sessions"])),
            facts::cell(&load["running"]),
            facts::cell(&load["queued"]),
        ]);
    }
    table
}

/// How much a session has to do.
fn busy(session: &Value) -> u64 {
    let number = |name: &str| session[name].as_u64().unwrap_or_default();
    number("running") + number("queued")
}

/// Hosts, if this caller may know of them.
async fn nodes(client: &Client) -> Result<Vec<Value>> {
    let found = permitted(client.get(&["api", "v1", "nodes"], &[]).await)?;
    Ok(found
        .and_then(|mut found| found.get_mut("items")?.as_array_mut().map(std::mem::take))
        .unwrap_or_default())
}

/// None of what is not there for this caller.
fn permitted<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.downcast_ref::<RemoteError>().and_then(RemoteError::status) {
            Some(403 | 404) => Ok(None),
            _ => Err(error),
        },
    }
}

/// The numbers, if there are any for this caller.
async fn numbers(client: &Client) -> Result<Option<Numbers>> {
    let answer = client.send(client.request(Method::GET, &["metrics"], &[])?).await;
    let Some(response) = permitted(answer)? else { return Ok(None) };
    let text = response.bytes().await.map_err(|error| client.failed(error))?;
    Ok(Some(Numbers::read(&String::from_utf8_lossy(&text))))
}
