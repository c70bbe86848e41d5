//! What tools are called with. Schemas are made of these types, so a field is described where it is read.

use crate::Problem;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::control::{Mode, ProgramFile};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Reads what a tool was called with. What is wrong with it names the field.
pub(super) fn read<T: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, Problem> {
    let value = Value::Object(arguments.unwrap_or_default());
    serde_path_to_error::deserialize(value).map_err(|error| {
        let (path, why) = (error.path().to_string(), error.inner().to_string());
        if let Some(field) = why.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
            return Problem::invalid_field(field, format!("Missing required parameter: {field}"));
        }
        match why.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next()) {
            Some(field) => Problem::invalid_field(field, "there is no such parameter")
                .hint("the input schema of the tool lists those there are"),
            None => Problem::invalid_field(path, why),
        }
    })
}

/// How code is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunMode {
    /// As a file of its language.
    #[default]
    Script,
    /// For the value that its function `handler(event)` returns.
    Handler,
    /// For the value of its last expression.
    Evaluate,
    /// By a shell.
    Shell,
}

impl From<RunMode> for Mode {
    fn from(mode: RunMode) -> Mode {
        match mode {
            RunMode::Script => Mode::Script,
            RunMode::Handler => Mode::Handler,
            RunMode::Evaluate => Mode::Evaluate,
            RunMode::Shell => Mode::Shell,
        }
    }
}

/// Content of a file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum FileContent {
    /// As text.
    Text(String),
    /// As base64.
    Bytes {
        /// The content, as base64.
        base64: String,
    },
}

/// Files as the control plane wants them.
pub(super) fn program_files(files: BTreeMap<String, FileContent>) -> Result<Vec<ProgramFile>, Problem> {
    let one = |(path, content)| {
        let content = match content {
            FileContent::Text(text) => text.into_bytes(),
            FileContent::Bytes { base64 } => STANDARD
                .decode(base64)
                .map_err(|_| Problem::invalid_field(format!("files.{path}"), "is no base64"))?,
        };
        Ok(ProgramFile { path, content, executable: false })
    };
    files.into_iter().map(one).collect()
}

/// What `execute_code` is called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecuteCode {
    /// Language of the code.
    pub(super) language: String,
    /// The code to run.
    pub(super) code: String,
    /// A session to run it in: its files stay for later calls with the same id. It is made when it is first used. Without
    /// one the code runs in a fresh sandbox, which is quicker.
    #[serde(default)]
    pub(super) session_id: Option<String>,
    /// What `handler(event)` is called with. Implies mode `handler`.
    #[serde(default, deserialize_with = "as_it_is")]
    pub(super) event: Option<Value>,
    /// Seconds it may take.
    #[serde(default)]
    #[schemars(range(min = 0.1, max = 3600.0))]
    pub(super) timeout: Option<f64>,
    /// Name of its file, with or without ending.
    #[serde(default)]
    pub(super) filename: Option<String>,
    /// Keep its file in the session, so that later code can import it. Needs `session_id` and `filename`.
    #[serde(default)]
    pub(super) save: bool,
    /// Begin the session anew first.
    #[serde(default)]
    pub(super) reset_session: bool,
    /// Its standard input.
    #[serde(default)]
    pub(super) stdin: Option<String>,
    /// Files beside it: content by path.
    #[serde(default)]
    pub(super) files: BTreeMap<String, FileContent>,
    /// How it is run.
    #[serde(default)]
    pub(super) mode: Option<RunMode>,
    /// Python packages to install into the session first, such as `requests` or `requests==2.32.3`. Needs `session_id`.
    #[serde(default)]
    pub(super) packages: Vec<String>,
}

/// An event of `null` is one.
fn as_it_is<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What `validate_code` is called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ValidateCode {
    /// Language of the code.
    pub(super) language: String,
    /// The code to check.
    pub(super) code: String,
    /// Name of its file, with or without ending.
    #[serde(default)]
    pub(super) filename: Option<String>,
    /// Keep its file in the session if it is valid. Needs `session_id` and `filename`.
    #[serde(default)]
    pub(super) save: bool,
    /// The session to keep it in.
    #[serde(default)]
    pub(super) session_id: Option<String>,
}

/// What `reset_session` is called with.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ResetSession {
    /// End the session `default-<language>`, or `all` that `execute_code` has made.
    pub(super) language: Option<String>,
    /// End this session.
    pub(super) session_id: Option<String>,
}

/// Nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// What a sandbox may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum NetworkMode {
    /// Nothing but itself.
    #[default]
    None,
    /// What the host reaches, if the operator allows that.
    Bridge,
    /// The same.
    Host,
}

/// What `create_sandbox` is called with.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CreateSandbox {
    /// What it is made from: a template, or an image that stands for one, such as `python:3.11` or `ubuntu:22.04`.
    pub(super) image: Option<String>,
    /// Where its files are: `/workspace`.
    pub(super) workspace_dir: Option<String>,
    /// Environment of its programs.
    pub(super) environment: BTreeMap<String, String>,
    /// Cores, such as `0.5`.
    #[schemars(regex(pattern = r"^\d+(\.\d+)?$"))]
    pub(super) cpu_limit: Option<String>,
    /// Memory, such as `512M`.
    #[schemars(regex(pattern = r"^\d+[KMGT]?B?$"))]
    pub(super) memory_limit: Option<String>,
    /// Storage, such as `256M`. Files live in memory, so it is within that.
    #[schemars(regex(pattern = r"^\d+[KMGT]?B?$"))]
    pub(super) disk_limit: Option<String>,
    /// What it may reach.
    pub(super) network_mode: NetworkMode,
}

/// What `terminate_sandbox` is called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SandboxId {
    /// Id of the sandbox.
    pub(super) sandbox_id: String,
}

/// What `exec_command` is called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecCommand {
    /// Id of the sandbox.
    pub(super) sandbox_id: String,
    /// What is executed, with its arguments. Quotes and `\` keep words together; there is no shell.
    #[schemars(length(min = 1))]
    pub(super) command: String,
    /// Where it runs; `/workspace` if it is left out.
    #[serde(default)]
    pub(super) working_dir: Option<String>,
    /// Its environment.
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Seconds it may take; 30 if it is left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 300))]
    pub(super) timeout: Option<u64>,
}

/// What `run_code` is called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCode {
    /// Id of the sandbox.
    pub(super) sandbox_id: String,
    /// The code to run.
    pub(super) code: String,
    /// Its language; told from the code if it is left out.
    #[serde(default)]
    pub(super) language: Option<String>,
    /// Where it runs: `/workspace`.
    #[serde(default)]
    pub(super) working_dir: Option<String>,
    /// Seconds it may take; 30 if it is left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 300))]
    pub(super) timeout: Option<u64>,
}

/// What the tools for one language are called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunLanguage {
    /// Id of a sandbox to run it in; without one it gets a fresh one.
    #[serde(default)]
    pub(super) sandbox_id: Option<String>,
    /// The code to run.
    pub(super) code: String,
    /// Its language; told from the code if it is left out.
    #[serde(default)]
    pub(super) language: Option<String>,
    /// Python packages to install into the sandbox first. Needs `sandbox_id`.
    #[serde(default)]
    pub(super) packages: Vec<String>,
    /// Files beside it: content by path.
    #[serde(default)]
    pub(super) files: BTreeMap<String, FileContent>,
    /// Further options of the language.
    #[serde(default)]
    pub(super) options: Map<String, Value>,
    /// Its environment.
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Where it runs: `/workspace`.
    #[serde(default)]
    pub(super) working_dir: Option<String>,
    /// Seconds it may take.
    #[serde(default)]
    #[schemars(range(min = 1, max = 300))]
    pub(super) timeout: Option<u64>,
    /// Its standard input.
    #[serde(default)]
    pub(super) stdin: Option<String>,
}

/// How content is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Encoding {
    /// As it is.
    #[default]
    Utf8,
    /// As base64.
    Base64,
}

impl Encoding {
    pub(super) fn word(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf8",
            Encoding::Base64 => "base64",
        }
    }
}

/// What `upload_file` is called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UploadFile {
    /// Id of the sandbox.
    pub(super) sandbox_id: String,
    /// Path of the file, in `/workspace`.
    #[schemars(length(min = 1, max = 1024))]
    pub(super) path: String,
    /// Its content.
    pub(super) content: String,
    /// How that is written.
    #[serde(default)]
    pub(super) encoding: Encoding,
    /// Its permissions, such as `0644`.
    #[serde(default)]
    #[schemars(regex(pattern = r"^0[0-7]{3}$"))]
    pub(super) mode: Option<String>,
    /// Keep what was there before, under its name and `.bak`.
    #[serde(default = "yes")]
    pub(super) create_backup: bool,
    /// Replace what was there before, without keeping it.
    #[serde(default)]
    pub(super) force_overwrite: bool,
    /// Read it back and compare.
    #[serde(default = "yes")]
    pub(super) validate_checksum: bool,
}

fn yes() -> bool {
    true
}

/// What `write_file` is called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    /// Id of the sandbox.
    pub(super) sandbox_id: String,
    /// Path of the file, in `/workspace`.
    pub(super) path: String,
    /// Its content.
    pub(super) content: String,
    /// How that is written.
    #[serde(default)]
    pub(super) encoding: Encoding,
}

/// What `download_file` is called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DownloadFile {
    /// Id of the sandbox.
    pub(super) sandbox_id: String,
    /// Path of the file, in `/workspace`.
    pub(super) path: String,
    /// How its content is wanted.
    #[serde(default)]
    pub(super) encoding: Encoding,
}

/// What `read_file` is called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    /// Id of the sandbox.
    pub(super) sandbox_id: String,
    /// Path of the file, in `/workspace`.
    pub(super) path: String,
    /// How its content is wanted.
    #[serde(default)]
    pub(super) encoding: Encoding,
    /// Most bytes of it.
    #[serde(default = "a_mebibyte")]
    #[schemars(range(min = 1, max = 10_485_760))]
    pub(super) max_size: u64,
}

fn a_mebibyte() -> u64 {
    1 << 20
}

/// What `list_files` is called with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFiles {
    /// Id of the sandbox.
    pub(super) sandbox_id: String,
    /// Which directory; `/workspace` if it is left out.
    #[serde(default)]
    pub(super) path: Option<String>,
    /// Also what is below its directories.
    #[serde(default)]
    pub(super) recursive: bool,
}
