//! Words that several routes share: limits as people write them, programs, and executions as they are shown.

use crate::Problem;
use crate::clock::rfc3339;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::control::{Mode, Program, ProgramFile};
use engine::limits::{Wanted, bytes, cores, duration};
use engine::storage::{ExecutionStatus, Progress, StoredExecution};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A number, or text with a unit.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub(in crate::doors) enum Amount {
    /// In the unit that is usual for the field: seconds, bytes, cores.
    Number(f64),
    /// With its unit, such as `30s`, `512Mi`, `500m`.
    Text(String),
}

/// What a program, or a session as a whole, may use. What is left out has a default.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    /// Wall time: seconds, or text such as `500ms`.
    pub(super) timeout: Option<Amount>,
    /// CPU time: seconds, or text.
    pub(super) cpu_time: Option<Amount>,
    /// Memory: bytes, or text such as `512Mi`.
    pub(super) memory: Option<Amount>,
    /// Cores: a number, or text such as `500m`.
    pub(super) cpus: Option<Amount>,
    /// Processes and threads.
    pub(super) pids: Option<u64>,
    /// Storage: bytes, or text.
    pub(super) disk: Option<Amount>,
    /// Files and directories.
    pub(super) inodes: Option<u64>,
    /// Open files of one process.
    pub(super) open_files: Option<u64>,
    /// Bytes of each output stream that are kept.
    pub(super) output: Option<Amount>,
}

impl Limits {
    pub(super) fn wanted(&self) -> Result<Wanted, Problem> {
        Ok(Wanted {
            timeout_ms: seconds("timeout", self.timeout.as_ref())?,
            cpu_time_ms: seconds("cpu_time", self.cpu_time.as_ref())?,
            memory_bytes: size("memory", self.memory.as_ref())?,
            cpu_millis: millicores("cpus", self.cpus.as_ref())?,
            pids: self.pids,
            disk_bytes: size("disk", self.disk.as_ref())?,
            disk_inodes: self.inodes,
            open_files: self.open_files,
            output_bytes: size("output", self.output.as_ref())?,
        })
    }
}

/// Milliseconds, of seconds or of text.
pub(in crate::doors) fn seconds(field: &str, amount: Option<&Amount>) -> Result<Option<u64>, Problem> {
    read(field, amount, duration, 1000.0)
}

/// Bytes.
pub(in crate::doors) fn size(field: &str, amount: Option<&Amount>) -> Result<Option<u64>, Problem> {
    read(field, amount, bytes, 1.0)
}

/// Thousandths of a core.
pub(in crate::doors) fn millicores(field: &str, amount: Option<&Amount>) -> Result<Option<u64>, Problem> {
    read(field, amount, cores, 1000.0)
}

/// How many; what is out of range stays so, for whoever knows the range.
pub(super) fn count(number: i64) -> u32 {
    number.clamp(0, i64::from(u32::MAX)) as u32
}

fn read(
    field: &str,
    amount: Option<&Amount>,
    text: impl Fn(&str) -> Result<u64, String>,
    unit: f64,
) -> Result<Option<u64>, Problem> {
    match amount {
        None => Ok(None),
        Some(Amount::Text(words)) => text(words).map(Some).map_err(|why| Problem::invalid_field(field, why)),
        Some(Amount::Number(number)) => {
            let value = number * unit;
            if !value.is_finite() || !(0.0..=1e18).contains(&value) {
                return Err(Problem::invalid_field(field, format!("{number} is out of range")));
            }
            Ok(Some(value.round() as u64))
        }
    }
}

/// A file beside a program: its text, or an object with `text` or `base64`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ProgramFile)]
pub(super) enum FileIn {
    /// Its text.
    Text(String),
    /// Its content in one of two forms.
    Content(FileContent),
}

/// The content of a file.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileContent {
    /// As text.
    text: Option<String>,
    /// As base64.
    base64: Option<String>,
    /// Whether it may be executed.
    executable: bool,
}

/// How a program is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunMode {
    /// As a file of its language.
    #[default]
    Script,
    /// By a shell.
    Shell,
    /// For the value of its function `handler`, which is called with `event`, and `context` if it takes two parameters.
    Handler,
    /// For the value of its last expression.
    Evaluate,
}

/// A program.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Program)]
pub(super) struct ProgramIn {
    /// Its text.
    #[schema(example = "print(6 * 7)")]
    pub(super) code: String,
    /// Its language: a name or an alias, see `GET /api/v1/runtimes`.
    #[serde(default)]
    #[schema(example = "python")]
    pub(super) language: String,
    /// How it is run.
    #[serde(default)]
    pub(super) mode: RunMode,
    /// What its handler is called with, in mode `handler`. `__timeout` in it is the time limit in seconds, between 1 and
    /// 3600, unless `timeout` or `limits.timeout` is there.
    #[serde(default, deserialize_with = "as_it_is")]
    #[schema(value_type = Option<Value>, example = json!({"name": "Ada"}))]
    pub(super) event: Option<Value>,
    /// What differs from the usual context of a handler: `function_name`, `function_version`, `request_id`,
    /// `log_group_name`, `log_stream_name`, `remaining_time_in_millis`, `memory_limit_in_mb`, `invoked_function_arn`.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub(super) context: Map<String, Value>,
    /// The name of its file; the usual one of its language if it is left out.
    #[serde(default)]
    pub(super) filename: Option<String>,
    /// Files beside it, by path.
    #[serde(default)]
    pub(super) files: BTreeMap<String, FileIn>,
    /// Its arguments.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// Its environment.
    #[serde(default, alias = "env_vars")]
    pub(super) env: BTreeMap<String, String>,
    /// Its input.
    #[serde(default)]
    pub(super) stdin: Option<String>,
    /// Wall time: seconds, or text such as `500ms`. The same as `limits.timeout`.
    #[serde(default)]
    pub(super) timeout: Option<Amount>,
    /// What it may use.
    #[serde(default)]
    pub(super) limits: Limits,
    /// The template that says what it gets, in a sandbox of its own: limits, environment, network, and interpreters that
    /// wait with its modules loaded. A program of a session has the session's.
    #[serde(default, alias = "template")]
    #[schema(example = "python-datascience")]
    pub(super) template_id: Option<String>,
    /// Whether it may be run again when the server ended while it ran.
    #[serde(default)]
    pub(super) idempotent: bool,
}

/// An event of `null` is one.
fn as_it_is<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl ProgramIn {
    pub(super) fn program(self) -> Result<Program, Problem> {
        let mut limits = self.limits.wanted()?;
        limits.timeout_ms = limits.timeout_ms.or(seconds("timeout", self.timeout.as_ref())?);
        let mut files = Vec::new();
        for (path, file) in self.files {
            let wrong = |why: &str| Problem::invalid_field(format!("files.{path}"), why);
            let (content, executable) = match file {
                FileIn::Text(text) => (text.into_bytes(), false),
                FileIn::Content(FileContent { text: Some(text), base64: None, executable }) => {
                    (text.into_bytes(), executable)
                }
                FileIn::Content(FileContent { text: None, base64: Some(text), executable }) => {
                    (STANDARD.decode(text).map_err(|_| wrong("is no base64"))?, executable)
                }
                FileIn::Content(_) => return Err(wrong("has to have `text` or `base64`")),
            };
            files.push(ProgramFile { path, content, executable });
        }
        if self.code.is_empty() {
            return Err(Problem::invalid_field("code", "is empty"));
        }
        Ok(Program {
            language: self.language,
            code: self.code,
            mode: match self.mode {
                RunMode::Script => Mode::Script,
                RunMode::Shell => Mode::Shell,
                RunMode::Handler => Mode::Handler,
                RunMode::Evaluate => Mode::Evaluate,
            },
            event: self.event,
            context: self.context,
            filename: self.filename,
            files,
            args: self.args,
            env: self.env,
            stdin: self.stdin,
            limits,
            template: self.template_id,
            idempotent: self.idempotent,
            contents: false,
        })
    }
}

/// What a session may reach.
#[derive(Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Network)]
pub(super) enum NetworkIn {
    /// Nothing but itself.
    None,
    /// Everything this host can reach, if the operator allows that.
    Host,
}

impl From<NetworkIn> for engine::Network {
    fn from(network: NetworkIn) -> engine::Network {
        match network {
            NetworkIn::None => engine::Network::None,
            NetworkIn::Host => engine::Network::Host,
        }
    }
}

/// An execution as it is shown: what was asked for, how far it got, and what came of it.
pub(in crate::doors) fn shown(execution: &StoredExecution) -> Result<Value, Problem> {
    let asked: Value = execution.submission.request.read()?;
    let submission = &execution.submission;
    let (record, attempts, started, finished) = match &execution.progress {
        Progress::Finished { record, finished_at, .. } => (record.read()?, 0, None, Some(*finished_at)),
        Progress::Unfinished { attempts, started_at, .. } => (Value::Null, *attempts, *started_at, None),
    };
    let metrics = &record["metrics"];
    let duration_ms = metrics["duration_ms"].as_f64();
    let started = record["started_at"].as_str().map(str::to_owned).or(started.map(rfc3339));
    let mebibytes = metrics["memory_peak_bytes"].as_f64().map(|bytes| bytes / 1_048_576.0);
    Ok(json!({
        "id": submission.id,
        "execution_id": submission.id,
        "session_id": submission.session_id,
        "template_id": asked["template"],
        "status": execution.status.word(),
        "outcome": record["status"],
        "language": submission.language,
        "code": asked["code"],
        "timeout": asked["limits"]["timeout_ms"].as_f64().map(|ms| ms / 1000.0),
        "exit_code": exit_code(execution.status, &record),
        "signal": record["signal"],
        "error_message": record["error"]["message"],
        "error": record["error"],
        "execution_time": duration_ms.map(|ms| ms / 1000.0),
        "stdout": record["stdout"].as_str().unwrap_or_default(),
        "stderr": record["stderr"].as_str().unwrap_or_default(),
        "stdout_truncated": record["stdout_truncated"].as_bool().unwrap_or(false),
        "stderr_truncated": record["stderr_truncated"].as_bool().unwrap_or(false),
        "artifacts": artifacts(&record),
        "return_value": record["return_value"],
        "return_value_set": record["return_value_set"].as_bool().unwrap_or(false),
        "metrics": {
            "duration_ms": duration_ms,
            "cpu_time_ms": metrics["cpu_time_ms"],
            "peak_memory_mb": mebibytes,
            "memory_peak_bytes": metrics["memory_peak_bytes"],
            "io_read_bytes": metrics["io_read_bytes"],
            "io_write_bytes": metrics["io_write_bytes"],
            "processes_peak": metrics["processes_peak"],
        },
        "isolation": record["isolation"],
        "retry_count": (attempts - 1).max(0),
        "created_at": rfc3339(submission.created_at),
        "started_at": started,
        "completed_at": finished.map(rfc3339),
    }))
}

/// The exit code, or -1 where time ended it: the founding platform's word for that.
fn exit_code(status: ExecutionStatus, record: &Value) -> Value {
    match status {
        ExecutionStatus::Timeout => json!(-1),
        _ => record["exit_code"].clone(),
    }
}

fn artifacts(record: &Value) -> Vec<Value> {
    let list = record["artifacts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = |artifact: &Value| {
        json!({
            "path": artifact["path"],
            "size": artifact["size"],
            "mime_type": artifact["mime"],
            "type": "artifact",
            "checksum": artifact["sha256"],
            "created_at": record["finished_at"],
        })
    };
    list.iter().map(shown).collect()
}
