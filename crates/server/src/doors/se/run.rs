//! Commands and code in a session.

use super::super::v1::wire::{Amount, seconds};
use super::ensure;
use super::outputs::Outputs;
use crate::doors::command;
use crate::doors::ended::Ended;
use crate::{Body, Caller, Id, Problem, Scope, State};
use axum::Json;
use engine::control::{Caller as Owner, Program};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(execute)).routes(routes!(execute_code))
}

/// A command.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WorkspaceCommand)]
struct Command {
    /// A line for the shell.
    #[schema(example = "ls -la | head")]
    command: String,
    /// More arguments for it. The shell leaves them as they are.
    #[serde(default)]
    args: Vec<String>,
    /// How long it may take: seconds, or text.
    #[serde(default)]
    timeout: Option<Amount>,
}

/// Run a command in a session, which is made if there is none
#[utoipa::path(
    post, path = "/workspace/se/execute/{session_id}", tag = "workspace", request_body = Command,
    params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, description = "How it ended; `returncode` is 124 where its time was over", body = Value),
        (status = 422, description = "A field is wrong", body = Value))
)]
async fn execute(
    state: State,
    caller: Caller,
    id: Id,
    Body(wanted): Body<Command>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let mut program = command::line(wanted.command, wanted.args)?;
    program.limits.timeout_ms = seconds("timeout", wanted.timeout.as_ref())?;
    Ok(Json(run(&state, &caller.of_engine(), &id, program).await?))
}

/// What a script is written in.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = WorkspaceScriptType)]
enum ScriptType {
    /// Python.
    #[default]
    Python,
    /// Bash.
    #[serde(alias = "bash")]
    Shell,
}

/// A script.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WorkspaceScript)]
struct Script {
    /// Its text.
    #[schema(example = "print(6 * 7)")]
    code: String,
    /// Its file in the session, which stays there. `.py` or `.sh` is added where it is missing.
    #[serde(default)]
    filename: Option<String>,
    /// Its arguments.
    #[serde(default)]
    args: Vec<String>,
    /// What it is written in.
    #[serde(default)]
    script_type: ScriptType,
    /// Global variables whose values are answered, as `output_variables`. Those that are no JSON come as text, and
    /// those that are not there are left out.
    #[serde(default)]
    output_params: Vec<String>,
    /// How long it may take: seconds, or text.
    #[serde(default)]
    timeout: Option<Amount>,
}

impl Script {
    fn program(self) -> Result<Program, Problem> {
        if self.code.is_empty() {
            return Err(Problem::invalid_field("code", "is empty"));
        }
        let (language, ending) = match self.script_type {
            ScriptType::Python => ("python", ".py"),
            ScriptType::Shell => ("bash", ".sh"),
        };
        let name = match self.filename.filter(|name| !name.is_empty()) {
            None => format!("script_{}{ending}", crate::clock::now_ms() / 1000),
            Some(name) if name.ends_with(ending) => name,
            Some(name) => name + ending,
        };
        let name = name.strip_prefix("/workspace/").unwrap_or(&name).to_owned();
        let mut program =
            Program { filename: Some(name), code: self.code, args: self.args, ..Program::default() };
        program.language = language.to_owned();
        program.limits.timeout_ms = seconds("timeout", self.timeout.as_ref())?;
        Ok(program)
    }
}

/// Run a script in a session, which is made if there is none
#[utoipa::path(
    post, path = "/workspace/se/execute_code/{session_id}", tag = "workspace", request_body = Script,
    params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, description = "How it ended; `returncode` is 124 where its time was over", body = Value),
        (status = 422, description = "A field is wrong", body = Value))
)]
async fn execute_code(
    state: State,
    caller: Caller,
    id: Id,
    Body(mut wanted): Body<Script>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Run)?;
    let (caller, names) = (caller.of_engine(), std::mem::take(&mut wanted.output_params));
    let mut program = wanted.program()?;
    let outputs = Outputs::of(&mut program, &names)?;
    let answer = run(&state, &caller, &id, program).await;
    let Some(outputs) = outputs else { return Ok(Json(answer?)) };
    let values = outputs.take(&state, &caller, id.as_str()).await;
    let mut answer = answer?;
    answer["output_variables"] = values?;
    Ok(Json(answer))
}

async fn run(state: &State, caller: &Owner, id: &Id, program: Program) -> Result<Value, Problem> {
    ensure(state, caller, id.as_str()).await?;
    let done = state.plane().execute(caller, Some(id.as_str()), program, None).await?;
    let Ended { code, stdout, stderr, .. } = Ended::of(&done)?;
    Ok(json!({"stdout": stdout, "stderr": stderr, "returncode": code}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(filename: Option<&str>, kind: &str) -> String {
        let script = json!({"code": "1", "filename": filename, "script_type": kind});
        let program = serde_json::from_value::<Script>(script).unwrap().program().unwrap();
        program.filename.unwrap()
    }

    #[test]
    fn a_script_has_the_ending_of_its_language() {
        assert_eq!(named(Some("a"), "python"), "a.py");
        assert_eq!(named(Some("a.py"), "python"), "a.py");
        assert_eq!(named(Some("a.py"), "shell"), "a.py.sh");
        assert_eq!(named(Some("/workspace/b/a"), "shell"), "b/a.sh");
        for (name, ending) in [(named(None, "python"), ".py"), (named(Some(""), "shell"), ".sh")] {
            let number = name.strip_prefix("script_").and_then(|rest| rest.strip_suffix(ending)).unwrap();
            assert!(number.parse::<u64>().unwrap() > 1_600_000_000, "{name}");
        }
    }
}
