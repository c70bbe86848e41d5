//! Sandboxes that stay, and commands and code in them.

use super::arguments::{CreateSandbox, ExecCommand, NetworkMode, RunCode, RunLanguage, program_files};
use super::running::{Asked, Ran};
use super::{Connection, blocks, detect, record, tools};
use crate::clock::rfc3339;
use crate::doors::command;
use crate::doors::ended::Ended;
use crate::doors::sandboxes::wire;
use crate::{Problem, Scope};
use engine::Network;
use engine::control::{NewSession, Program, SessionSpec, SessionView};
use engine::limits::{Wanted, bytes, cores};
use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};

/// Where everything is.
pub(super) const WORKSPACE: &str = "/workspace";
/// What a sandbox is made from that does not say.
const IMAGE: &str = "multi-language";
/// Longest code.
const LONGEST: usize = 1 << 20;

impl Connection {
    pub(super) async fn create_sandbox(
        &self,
        asked: &Asked,
        wanted: CreateSandbox,
    ) -> Result<CallToolResult, Problem> {
        asked.caller.require(Scope::Run)?;
        in_workspace("workspace_dir", wanted.workspace_dir.as_deref())?;
        let text = |field: &str, value: &Option<String>, read: fn(&str) -> Result<u64, String>| {
            value
                .as_deref()
                .map(|text| {
                    read(text.trim_end_matches('B')).map_err(|why| Problem::invalid_field(field, why))
                })
                .transpose()
        };
        let limits = Wanted {
            cpu_millis: text("cpu_limit", &wanted.cpu_limit, cores)?,
            memory_bytes: text("memory_limit", &wanted.memory_limit, bytes)?,
            disk_bytes: text("disk_limit", &wanted.disk_limit, bytes)?,
            ..Wanted::default()
        };
        let network = match wanted.network_mode {
            NetworkMode::None => None,
            NetworkMode::Bridge | NetworkMode::Host => Some(Network::Host),
        };
        let image = wanted.image.unwrap_or_else(|| IMAGE.to_owned());
        let new = NewSession {
            id: Some(uuid::Uuid::new_v4().to_string()),
            template: Some(wire::template_of(&image).unwrap_or(&image).to_owned()),
            spec: SessionSpec { limits, env: wanted.environment, network, ..SessionSpec::default() },
            ..NewSession::default()
        };
        let view = self.mcp.plane().create_named(&asked.of_engine(), new).await?;
        let facts = json!({
            "sandbox_id": view.session.id,
            "container_id": container(&view),
            "status": wire::word(view.session.status),
            "working_dir": WORKSPACE,
            "created_at": rfc3339(view.session.created_at),
            "config": {
                "image": image,
                "environment": view.spec.env,
                "cpu_limit": wanted.cpu_limit,
                "memory_limit": wanted.memory_limit,
                "disk_limit": wanted.disk_limit,
                "network_mode": if network.is_some() { "host" } else { "none" },
            },
        });
        Ok(told("Sandbox created successfully:", facts))
    }

    pub(super) fn list_sandboxes(&self, asked: &Asked) -> Result<CallToolResult, Problem> {
        asked.caller.require(Scope::Run)?;
        let shown = |view: &SessionView| {
            json!({
                "id": view.session.id,
                "container_id": container(view),
                "status": wire::word(view.session.status),
                "created_at": rfc3339(view.session.created_at),
                "updated_at": rfc3339(view.session.last_activity_at),
            })
        };
        let all: Vec<Value> = self.mcp.plane().standing(&asked.of_engine()).iter().map(shown).collect();
        let words = match all.len() {
            0 => "No active sandboxes found".to_owned(),
            count => format!("Found {count} active sandboxes:\n{}", pretty(&json!(all))),
        };
        Ok(blocks::plain(words, object(json!({"count": all.len(), "sandboxes": all}))))
    }

    pub(super) async fn terminate_sandbox(
        &self,
        asked: &Asked,
        id: String,
    ) -> Result<CallToolResult, Problem> {
        asked.caller.require(Scope::Run)?;
        self.mcp.plane().terminate_session(&asked.of_engine(), &id).await?;
        let words = format!("Sandbox {id} terminated successfully");
        Ok(blocks::plain(words, object(json!({"sandbox_id": id}))))
    }

    pub(super) async fn exec_command(
        &self,
        asked: &Asked,
        wanted: ExecCommand,
    ) -> Result<CallToolResult, Problem> {
        let directory = wanted.working_dir.as_deref();
        let mut program = command::words(wanted.command.clone(), Vec::new(), directory)?;
        program.env = wanted.environment;
        program.limits.timeout_ms = Some(seconds(wanted.timeout)?.unwrap_or(30) * 1000);
        let ran = self.run(asked, Some(&wanted.sandbox_id), program).await?;
        let head =
            format!("Command: {}\nWorking Directory: {}", wanted.command, directory.unwrap_or(WORKSPACE));
        let more = json!({"command": wanted.command, "working_dir": directory.unwrap_or(WORKSPACE)});
        self.ended(asked, &head, &ran, Some(&wanted.sandbox_id), more).await
    }

    pub(super) async fn run_code(&self, asked: &Asked, wanted: RunCode) -> Result<CallToolResult, Problem> {
        in_workspace("working_dir", wanted.working_dir.as_deref())?;
        let (language, sure) = self.told_language(wanted.language.as_deref(), &wanted.code)?;
        let program = Program {
            language: language.clone(),
            code: checked(wanted.code)?,
            limits: Wanted {
                timeout_ms: Some(seconds(wanted.timeout)?.unwrap_or(30) * 1000),
                ..Wanted::default()
            },
            ..Program::default()
        };
        let ran = self.run(asked, Some(&wanted.sandbox_id), program).await?;
        let head = format!("Language: {language}\nWorking Directory: {WORKSPACE}");
        let more =
            json!({"language": language, "detection_confidence": sure, "was_auto_detected": sure.is_some()});
        self.ended(asked, &head, &ran, Some(&wanted.sandbox_id), more).await
    }

    /// `run_python` and its like.
    pub(super) async fn run_language(
        &self,
        asked: &Asked,
        tool: &str,
        wanted: RunLanguage,
    ) -> Result<CallToolResult, Problem> {
        in_workspace("working_dir", wanted.working_dir.as_deref())?;
        let of_tool =
            tools::LANGUAGES.iter().find(|(name, _, _)| *name == tool).map(|(_, language, _)| *language);
        if of_tool.is_some() && wanted.language.is_some() {
            return Err(Problem::invalid_field("language", "there is no such parameter")
                .hint(format!("`{}` takes code of any language", tools::ANY_LANGUAGE)));
        }
        let (mut language, sure) =
            self.told_language(of_tool.or(wanted.language.as_deref()), &wanted.code)?;
        let mut code = checked(wanted.code)?;
        for (name, value) in &wanted.options {
            match (language.as_str(), name.as_str(), value.as_str()) {
                ("bash" | "sh", "shell", Some(shell)) => language.clone_from(&self.language(shell)?.name),
                ("bash" | "sh", "set_flags", Some(flags))
                    if flags.chars().all(|c| c.is_ascii_alphanumeric() || " -+".contains(c)) =>
                {
                    code = format!("set {flags}\n{code}");
                }
                _ => {
                    return Err(Problem::invalid_field(
                        format!("options.{name}"),
                        "there is no such option, or not with this value",
                    )
                    .hint(
                        "shells have `shell` and `set_flags`; other languages run with what this host has",
                    ));
                }
            }
        }
        let session = wanted.sandbox_id.as_deref();
        self.install(asked, session, wanted.packages).await?;
        let program = Program {
            language: language.clone(),
            code,
            files: program_files(wanted.files)?,
            env: wanted.environment,
            stdin: wanted.stdin,
            limits: Wanted {
                timeout_ms: Some(seconds(wanted.timeout)?.unwrap_or(usual_seconds(&language)) * 1000),
                ..Wanted::default()
            },
            contents: true,
            ..Program::default()
        };
        let ran = self.run(asked, session, program).await?;
        let more = json!({"language": language, "detected_language": language, "detection_confidence": sure, "was_auto_detected": sure.is_some()});
        let mut result = self.ended(asked, &format!("Language: {language}"), &ran, session, more).await?;
        result.content.extend(blocks::artifacts(&ran, session));
        Ok(result)
    }

    /// The language that was named, or the one that code looks like and how much.
    fn told_language(&self, named: Option<&str>, code: &str) -> Result<(String, Option<f64>), Problem> {
        if let Some(name) = named {
            return Ok((self.language(name)?.name.clone(), None));
        }
        match detect::detect(code, &self.mcp.0.languages) {
            Some((language, sure)) if sure >= detect::LEAST => Ok((language.name.clone(), Some(sure))),
            found => {
                let sure = found.map_or(0.0, |(_, sure)| sure);
                Err(Problem::invalid_field(
                    "language",
                    format!("the code does not tell it (confidence {sure:.2})"),
                )
                .hint("name it"))
            }
        }
    }

    /// How a program ended, in the words of these tools. Another exit code than 0 is an error here.
    async fn ended(
        &self,
        asked: &Asked,
        head: &str,
        ran: &Ran,
        session: Option<&str>,
        more: Value,
    ) -> Result<CallToolResult, Problem> {
        let Ended { code, stdout, stderr, seconds, language } = Ended::of(&ran.done)?;
        let execution = record::execution(&ran.done, session);
        if let Some(session) = session {
            self.tell_of_changes(asked, session, &execution).await;
        }
        let late = execution["status"] == "timed_out";
        let mut facts = object(json!({
            "sandbox_id": session,
            "exit_code": code,
            "stdout": stdout,
            "stderr": stderr,
            "stdout_size": stdout.len(),
            "stderr_size": stderr.len(),
            "execution_time_ms": seconds * 1000.0,
            "working_dir": WORKSPACE,
            "language": language,
            "timed_out": late,
            "execution": execution,
        }));
        facts.extend(object(more));
        if code != 0 {
            facts.insert("error_code".into(), json!(if late { "TIMEOUT" } else { "EXECUTION_FAILED" }));
        }
        let words = format!(
            "{head}\nExit Code: {code}\nExecution Time: {seconds:.3}s\n\nSTDOUT:\n{stdout}\nSTDERR:\n{stderr}"
        );
        let mut result = blocks::plain(words, facts);
        result.is_error = Some(code != 0);
        Ok(result)
    }
}

/// What people who know containers call it.
fn container(view: &SessionView) -> String {
    format!("sandbox-{}", view.session.id.chars().take(8).collect::<String>())
}

fn told(head: &str, facts: Value) -> CallToolResult {
    blocks::plain(format!("{head}\n{}", pretty(&facts)), object(facts))
}

pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn checked(code: String) -> Result<String, Problem> {
    match code.len() {
        _ if code.trim().is_empty() => Err(Problem::invalid_field("code", "is empty")),
        0..=LONGEST => Ok(code),
        _ => Err(Problem::invalid_field("code", "is longer than 1 MiB").hint("pass large data as a file")),
    }
}

fn seconds(timeout: Option<u64>) -> Result<Option<u64>, Problem> {
    match timeout {
        None | Some(1..=300) => Ok(timeout),
        Some(_) => Err(Problem::invalid_field("timeout", "is not from 1 to 300")),
    }
}

/// How long code of a language may take that does not say.
fn usual_seconds(language: &str) -> u64 {
    match language {
        "rust" => 120,
        "python" | "java" => 60,
        "typescript" | "cpp" | "csharp" => 45,
        _ => 30,
    }
}

/// Programs begin in the workspace and nowhere else.
fn in_workspace(field: &str, directory: Option<&str>) -> Result<(), Problem> {
    match directory.map(|path| path.trim_end_matches('/')) {
        None | Some("" | "." | WORKSPACE) => Ok(()),
        Some(_) => Err(Problem::invalid_field(field, "is not `/workspace`")
            .hint("files of a sandbox are in `/workspace`; `exec_command` runs commands elsewhere")),
    }
}
