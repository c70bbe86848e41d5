//! `/workspace/se`: sessions that are there when they are used. Paths, fields and answers of the founding shared
//! environment; what it left open to everybody is a caller's own here.

mod documents;
mod files;
mod handler;
mod outputs;
mod read;
mod run;
mod sessions;

use super::v1::wire::{Amount, millicores, seconds, size};
use crate::{Problem, State};
use engine::control::{Caller, NewSession, SessionSpec};
use engine::limits::Wanted;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(sessions::door())
        .merge(run::door())
        .merge(handler::door())
        .merge(files::door())
        .merge(documents::door())
        .merge(read::door())
}

/// What needs no token.
pub(super) fn open_door() -> OpenApiRouter<State> {
    sessions::open_door()
}

/// What sessions are made from.
const TEMPLATE: &str = "python-basic";
/// Languages they have.
const LANGUAGES: [&str; 2] = ["python", "bash"];
/// How long one program may take, in milliseconds, where nobody says.
const TIMEOUT: u64 = 300_000;
/// Their storage, where nobody says.
const SIZE: u64 = 100 << 20;
/// Least memory: what Python takes to start, and a bit.
const LEAST_MEMORY: u64 = 64 << 20;

/// What somebody may say of a session.
#[derive(Default)]
struct Wish<'a> {
    size: Option<&'a Amount>,
    memory: Option<&'a Amount>,
    cpus: Option<&'a Amount>,
    timeout: Option<&'a Amount>,
}

/// A session as it is made here. Files live in memory, so there is twice as much of that, if there can be.
fn new_session(state: &State, id: &str, wish: &Wish<'_>) -> Result<NewSession, Problem> {
    let most = state.engine().ceiling();
    let disk = size("size", wish.size)?.unwrap_or(SIZE.min(most.disk_bytes));
    let memory = disk.saturating_mul(2).clamp(LEAST_MEMORY.min(most.memory_bytes), most.memory_bytes);
    let limits = Wanted {
        disk_bytes: Some(disk),
        memory_bytes: Some(size("memory_limit", wish.memory)?.unwrap_or(memory)),
        cpu_millis: millicores("cpu_quota", wish.cpus)?,
        timeout_ms: Some(seconds("timeout", wish.timeout)?.unwrap_or(TIMEOUT.min(most.timeout_ms))),
        ..Wanted::default()
    };
    let languages = LANGUAGES.map(str::to_owned).to_vec();
    Ok(NewSession {
        id: Some(id.to_owned()),
        template: Some(TEMPLATE.to_owned()),
        spec: SessionSpec { limits, languages, ..SessionSpec::default() },
        ..NewSession::default()
    })
}

/// The session is there from here on, whether it was before or not.
async fn ensure(state: &State, caller: &Caller, id: &str) -> Result<(), Problem> {
    let new = new_session(state, id, &Wish::default())?;
    state.plane().session_or_new(caller, id, || new.clone()).await?;
    Ok(())
}
