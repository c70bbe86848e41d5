//! Values of variables that a script leaves behind. The interpreter writes them to a file when it ends; what the script
//! prints is never looked at.

use crate::doors::command::OUTPUTS;
use crate::{Problem, State};
use axum::http::StatusCode;
use engine::control::{Caller, ControlError, Program, ProgramFile};
use serde_json::Value;

/// What writes them: Python looks for a module of this name when it starts.
const KEEPER: &str = include_str!("outputs.py");
const KEEPER_FILE: &str = "sitecustomize.py";
/// Most variables, and most bytes of their values.
const MOST: usize = 100;
const MOST_BYTES: u64 = 1 << 20;

/// Where the values will be.
pub(super) struct Outputs {
    directory: String,
}

impl Outputs {
    /// Has a Python program leave its values behind, if any are wanted.
    pub(super) fn of(program: &mut Program, names: &[String]) -> Result<Option<Outputs>, Problem> {
        let wrong = |why: &str| Problem::invalid_field("output_params", why);
        if names.is_empty() {
            return Ok(None);
        }
        if program.language != "python" {
            return Err(wrong("only Python has them"));
        }
        if names.len() > MOST || names.iter().any(|name| name.len() > 255) {
            return Err(wrong("are too many, or too long").hint("up to 100 names of up to 255 bytes"));
        }
        let directory = format!("{OUTPUTS}{}", uuid::Uuid::new_v4().simple());
        let file = |name: &str, content: Vec<u8>| ProgramFile {
            path: format!("{directory}/{name}"),
            content,
            executable: false,
        };
        program.files.push(file(KEEPER_FILE, KEEPER.into()));
        program.files.push(file("names.json", Value::from(names.to_vec()).to_string().into_bytes()));
        program.env.insert("PYTHONPATH".into(), format!("/workspace/{directory}"));
        Ok(Some(Outputs { directory }))
    }

    /// The values, by name. A program that did not end by itself has left none.
    pub(super) async fn take(self, state: &State, caller: &Caller, session: &str) -> Result<Value, Problem> {
        let values = self.read(state, caller, session).await;
        // A session that is gone has taken it along.
        let _ = state.plane().remove_file(caller, session, &self.directory, true).await;
        values
    }

    async fn read(&self, state: &State, caller: &Caller, session: &str) -> Result<Value, Problem> {
        let path = format!("{}/values.json", self.directory);
        let file = match state.plane().open_file(caller, session, &path).await {
            Ok(file) => file,
            Err(ControlError::NotFound { .. }) => return Ok(Value::Object(Default::default())),
            Err(error) => return Err(error.into()),
        };
        if file.entry.size > MOST_BYTES {
            let why = format!("their values take more than {MOST_BYTES} bytes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", why).field("output_params"));
        }
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < file.entry.size {
            match file.read(bytes.len() as u64).await? {
                piece if piece.is_empty() => break,
                piece => bytes.extend(piece),
            }
        }
        serde_json::from_slice(&bytes)
            .map_err(|_| Problem::invalid_field("output_params", "what was left behind is no JSON"))
    }
}
