//! A program as doors hand it in, as it is stored, and as the engine wants it.

use super::error::ControlError;
use crate::limits::Wanted;
use crate::runtime::plan::Purpose;
use crate::{Input, Request, SourceFile};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a program is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// As a file of its language.
    #[default]
    Script,
    /// By a shell, whatever its language.
    Shell,
    /// For the value of its function `handler`.
    Handler,
    /// For the value of its last expression.
    Evaluate,
    /// Not at all: only whether it is well-formed.
    Check,
}

/// A program, and how it shall be run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Name or alias of the language.
    pub language: String,
    /// Its text.
    pub code: String,
    /// How it is run.
    #[serde(default)]
    pub mode: Mode,
    /// What its handler is called with; an empty object without one.
    #[serde(default, deserialize_with = "as_it_is", skip_serializing_if = "Option::is_none")]
    pub event: Option<Value>,
    /// What differs from the usual context of a handler.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    /// The name of its file; without one it gets the language's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Files beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ProgramFile>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Its limits, where they shall differ from the defaults.
    #[serde(default)]
    pub limits: Wanted,
    /// The template that says what it gets, where it runs in a sandbox of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Whether it may be run again when nobody knows how far it got.
    #[serde(default)]
    pub idempotent: bool,
    /// Whether contents of new and changed files are wanted, not only their names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contents: bool,
}

/// An event of `null` is one.
fn as_it_is<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A file beside a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFile {
    /// Path in the workspace.
    pub path: String,
    /// Its content.
    pub content: Vec<u8>,
    /// Whether it may be executed.
    pub executable: bool,
}

/// The same, as it is written.
#[derive(Serialize, Deserialize)]
struct WrittenFile {
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    executable: bool,
}

impl Serialize for ProgramFile {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let base64 = Some(STANDARD.encode(&self.content));
        WrittenFile { path: self.path.clone(), base64, executable: self.executable }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ProgramFile {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<ProgramFile, D::Error> {
        let WrittenFile { path, base64, executable } = WrittenFile::deserialize(deserializer)?;
        let content = STANDARD.decode(base64.unwrap_or_default()).map_err(serde::de::Error::custom)?;
        Ok(ProgramFile { path, content, executable })
    }
}

/// What is kept of a program that is over: enough to answer questions about it.
#[derive(Serialize)]
pub(crate) struct Brief<'a> {
    language: &'a str,
    code: &'a str,
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    args: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: &'a BTreeMap<String, String>,
    limits: Wanted,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<&'a str>,
}

impl Program {
    /// What is kept of it when it is over.
    pub(crate) fn brief(&self) -> Brief<'_> {
        Brief {
            language: &self.language,
            code: &self.code,
            mode: self.mode,
            filename: self.filename.as_deref(),
            args: &self.args,
            env: &self.env,
            limits: self.limits,
            template: self.template.as_deref(),
        }
    }

    /// As the engine wants it.
    pub(crate) fn request(&self, owner: &str, defaults: &Defaults) -> Result<Request, ControlError> {
        let language = match self.mode {
            Mode::Script | Mode::Handler | Mode::Evaluate | Mode::Check if self.language.is_empty() => {
                return Err(ControlError::invalid("language", "is missing"));
            }
            Mode::Script | Mode::Handler | Mode::Evaluate | Mode::Check => self.language.as_str(),
            Mode::Shell if matches!(self.language.as_str(), "" | "bash" | "shell") => "bash",
            Mode::Shell if self.language == "sh" => "sh",
            Mode::Shell => {
                return Err(ControlError::invalid("language", "mode `shell` runs `bash` or `sh`"));
            }
        };
        let mut env = defaults.env.clone();
        env.extend(self.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        let mut request = Request::new(language, self.code.as_str());
        request.main.path = self.filename.clone().unwrap_or_default();
        request.files = self.files.iter().map(ProgramFile::source).collect();
        request.mode = self.engine_mode()?;
        request.purpose = if self.mode == Mode::Check { Purpose::Check } else { Purpose::Run };
        request.contents = self.contents;
        request.args = self.args.clone();
        request.env = env.into_iter().collect();
        request.stdin = self.stdin.as_ref().map(|input| Input::Whole(input.as_bytes().to_vec()));
        // What an event asks for is asked for by this program, so it comes before what is usual.
        request.limits = self.limits;
        request.limits = request.wanted()?.or(defaults.limits);
        request.network = defaults.network;
        request.profile = defaults.profile;
        request.allow_weaker = defaults.allow_weaker.clone();
        request.template = defaults.template.clone();
        request.owner = owner.to_owned();
        Ok(request)
    }

    fn engine_mode(&self) -> Result<crate::Mode, ControlError> {
        if self.mode == Mode::Handler {
            let event = self.event.clone().unwrap_or_else(|| Map::new().into());
            return Ok(crate::Mode::Handler { event, context: self.context.clone() });
        }
        for (field, given) in [("event", self.event.is_some()), ("context", !self.context.is_empty())] {
            if given {
                return Err(ControlError::invalid(field, "goes with mode `handler`"));
            }
        }
        Ok(if self.mode == Mode::Evaluate { crate::Mode::Evaluate } else { crate::Mode::Script })
    }
}

impl ProgramFile {
    fn source(&self) -> SourceFile {
        SourceFile { path: self.path.clone(), content: self.content.clone(), executable: self.executable }
    }
}

/// What a program gets that does not ask for something else.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Limits.
    pub limits: Wanted,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// What it may reach.
    pub network: crate::Network,
    /// System calls it may make.
    pub profile: crate::Profile,
    /// Layers whose absence is accepted.
    pub allow_weaker: Vec<crate::Layer>,
    /// The template that says so, if that says anything about the programs that wait.
    pub template: Option<Arc<crate::Warmth>>,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults {
            limits: Wanted::default(),
            env: BTreeMap::new(),
            network: crate::Network::None,
            profile: crate::Profile::Default,
            allow_weaker: Vec::new(),
            template: None,
        }
    }
}
