//! Commands and code in a sandbox.

use crate::clock::now;
use crate::doors::command;
use crate::doors::ended::Ended;
use crate::doors::v1::wire::{Amount, seconds};
use crate::{Body, Caller, Id, Problem, Scope, State};
use axum::Json;
use engine::control::Program;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(exec)).routes(routes!(code))
}

/// A command.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SandboxCommand)]
struct Exec {
    /// What is executed, without a shell. With its arguments in it where `args` is empty; quotes and `\` keep them
    /// together.
    #[schema(example = "python3 -c 'print(6 * 7)'")]
    command: String,
    /// Its arguments.
    #[serde(default)]
    args: Vec<String>,
    /// Its environment.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Where it runs; `/workspace` if it is left out.
    #[serde(default)]
    working_dir: Option<String>,
    /// How long it may take: seconds, or text. 30 seconds if it is left out.
    #[serde(default)]
    timeout: Option<Amount>,
    /// Only `false`: the streams of `/api/v1/sessions` show output while it comes.
    #[serde(default)]
    stream: bool,
    /// Its input.
    #[serde(default)]
    input: Option<String>,
}

/// Run a command in a sandbox
#[utoipa::path(
    post, path = "/sandboxes/{id}/exec", tag = "sandboxes", request_body = Exec, params(("id" = String, Path, description = "Of the sandbox")),
    responses((status = 200, description = "How it ended; `exit_code` is 124 where its time was over", body = Value),
        (status = 404, description = "There is no such sandbox", body = Value), (status = 409, description = "Its state says no", body = Value))
)]
async fn exec(
    state: State,
    caller: Caller,
    id: Id,
    Body(wanted): Body<Exec>,
) -> Result<Json<Value>, Problem> {
    not_streamed(wanted.stream)?;
    let mut program = command::words(wanted.command, wanted.args, wanted.working_dir.as_deref())?;
    program.env = wanted.environment;
    program.stdin = wanted.input;
    program.limits.timeout_ms = seconds("timeout", wanted.timeout.as_ref())?;
    let Ended { code, stdout, stderr, seconds, .. } = run(&state, &caller, &id, program).await?;
    Ok(Json(
        json!({"exit_code": code, "stdout": stdout, "stderr": stderr, "duration": seconds, "timestamp": now(), "stream_id": null}),
    ))
}

/// A program.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SandboxCode)]
struct Code {
    /// Its text.
    #[schema(example = "print(6 * 7)")]
    code: String,
    /// Its language; what the ending of `filename` says if it is left out.
    #[serde(default)]
    language: Option<String>,
    /// The name of its file.
    #[serde(default)]
    filename: Option<String>,
    /// Its environment.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Only empty: nothing is installed for a program.
    #[serde(default)]
    packages: Vec<String>,
    /// How long it may take: seconds, or text. 30 seconds if it is left out.
    #[serde(default)]
    timeout: Option<Amount>,
    /// Only `false`: the streams of `/api/v1/sessions` show output while it comes.
    #[serde(default)]
    stream: bool,
}

/// Run a program in a sandbox
#[utoipa::path(
    post, path = "/sandboxes/{id}/code", tag = "sandboxes", request_body = Code, params(("id" = String, Path, description = "Of the sandbox")),
    responses((status = 200, description = "How it ended; `exit_code` is 124 where its time was over", body = Value),
        (status = 404, description = "There is no such sandbox", body = Value), (status = 409, description = "Its state says no", body = Value))
)]
async fn code(
    state: State,
    caller: Caller,
    id: Id,
    Body(wanted): Body<Code>,
) -> Result<Json<Value>, Problem> {
    not_streamed(wanted.stream)?;
    let program = wanted.program(&state)?;
    let Ended { code, stdout, stderr, seconds, language } = run(&state, &caller, &id, program).await?;
    Ok(Json(
        json!({"output": stdout, "error": stderr, "exit_code": code, "language": language, "duration": seconds, "timestamp": now(), "stream_id": null}),
    ))
}

impl Code {
    fn program(self, state: &State) -> Result<Program, Problem> {
        if self.code.is_empty() {
            return Err(Problem::invalid_field("code", "is empty"));
        }
        if !self.packages.is_empty() {
            return Err(Problem::invalid_field("packages", "nothing is installed for a program")
                .hint("leave it empty; what the host has is there"));
        }
        let catalogue = state.engine().catalogue();
        let by_file = |name: &str| catalogue.by_file(name.as_ref(), self.code.as_bytes());
        let language = match (self.language, self.filename.as_deref().and_then(by_file)) {
            (Some(language), _) => language,
            (None, Some(runtime)) => runtime.name.clone(),
            (None, None) => return Err(Problem::invalid_field("language", "is missing")),
        };
        let mut program =
            Program { language, code: self.code, filename: self.filename, ..Program::default() };
        program.env = self.environment;
        program.limits.timeout_ms = seconds("timeout", self.timeout.as_ref())?;
        Ok(program)
    }
}

fn not_streamed(stream: bool) -> Result<(), Problem> {
    match stream {
        false => Ok(()),
        true => Err(Problem::invalid_field("stream", "output is not streamed here")
            .hint("`POST /api/v1/sessions/{session_id}/execute` does, with `Accept: text/event-stream`")),
    }
}

async fn run(state: &State, caller: &Caller, id: &Id, program: Program) -> Result<Ended, Problem> {
    caller.require(Scope::Run)?;
    let done = state.plane().execute(&caller.of_engine(), Some(id.as_str()), program, None).await?;
    Ended::of(&done)
}
