//! An agent with a server of its own, talked to by its standard streams as clients of MCP do.

use super::program::Task;
use super::server::Executes;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

pub(super) struct Agent {
    child: Child,
    says: Option<ChildStdin>,
    hears: BufReader<ChildStdout>,
    asked: u64,
}

impl Agent {
    pub(super) fn start(state: &Path) -> Result<Agent> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["mcp", "--workspace-dir"]).arg(state);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let says = child.stdin.take();
        let hears = BufReader::new(child.stdout.take().context("a server that says nothing")?);
        let mut agent = Agent { child, says, hears, asked: 0 };
        agent.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "sandboxd bench", "version": env!("CARGO_PKG_VERSION")},
            }),
        )?;
        agent.say("{\"jsonrpc\": \"2.0\", \"method\": \"notifications/initialized\"}\n")?;
        Ok(agent)
    }

    fn say(&mut self, line: &str) -> Result<()> {
        self.says.as_mut().context("nobody listens")?.write_all(line.as_bytes())?;
        Ok(())
    }

    /// From the first byte sent to the last one received, in milliseconds, and the result.
    fn ask(&mut self, method: &str, params: &Value) -> Result<(f64, Value)> {
        self.asked += 1;
        let mut question =
            json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}).to_string();
        question.push('\n');
        let mut line = String::new();
        let began = Instant::now();
        self.say(&question)?;
        ensure!(self.hears.read_line(&mut line)? > 0, "the server of the agent hung up");
        let took = began.elapsed().as_secs_f64() * 1000.0;
        let mut answer: Value = serde_json::from_str(&line)?;
        ensure!(answer["id"] == self.asked && answer["result"].is_object(), "{method}: {answer}");
        Ok((took, answer["result"].take()))
    }
}

impl Executes for Agent {
    fn execute(&mut self, task: &Task) -> Result<(f64, Value)> {
        let (took, mut result) =
            self.ask("tools/call", &json!({"name": "execute_code", "arguments": task.as_json()}))?;
        Ok((took, result["structuredContent"].take()))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It ends when nobody talks to it any more.
        drop(self.says.take());
        let _ = self.child.wait();
    }
}
