//! Executions as callers see them: asked for and waited for, or submitted and followed, and always stored.

use super::error::ControlError;
use super::live::{Happening, Live, What};
use super::program::Program;
use super::running::{Ground, Order};
use super::{Caller, ControlPlane, locked, now, traced};
use crate::storage::{
    Claim, Claimed, Cursor, ExecutionStatus, Json, Page, Progress, StoreError, StoredExecution, Submission,
};
use crate::{ArtifactRecord, EngineError, Event};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// How often an execution is looked for that runs elsewhere.
const GLANCE: Duration = Duration::from_millis(200);

/// An execution that is over.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its id.
    pub id: String,
    /// How it ended.
    pub status: ExecutionStatus,
    /// The record, as JSON.
    pub record: Arc<Json>,
    /// Whether it was run for an earlier request with the same idempotency key.
    pub replayed: bool,
    /// Files new or changed in the workspace, with their contents where those were asked for. Only whoever had it run in
    /// place has them.
    pub artifacts: Vec<ArtifactRecord>,
}

/// Who is told what a program does, while it does it.
pub type Hear<'a> = &'a (dyn Fn(Event) + Send + Sync);

/// An execution that was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its id.
    pub id: String,
    /// When, in milliseconds since 1970.
    pub created_at: i64,
    /// Whether an earlier request with the same idempotency key submitted it.
    pub replayed: bool,
}

impl ControlPlane {
    /// Runs a program, in a sandbox of its own or in a session, and waits for what comes of it. When it is returned, the
    /// result is stored, where results are kept. Whoever does not wait ends the run, unless it has an idempotency key.
    #[tracing::instrument(name = "control.execute", target = "sandboxd::trace", skip_all)]
    pub async fn execute(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: Option<&str>,
        program: Program,
        key: Option<&str>,
    ) -> Result<Done, ControlError> {
        if key.is_some() {
            let accepted = self.submit(caller, session, program, key).await?;
            let done = self.wait(caller, &accepted.id).await?;
            return Ok(Done { replayed: accepted.replayed, ..done });
        }
        self.execute_heard(caller, session, program, &|_| {}).await
    }

    /// The same for somebody who wants to hear of it meanwhile. It is told in between, so it should not take long.
    pub async fn execute_heard(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: Option<&str>,
        program: Program,
        hear: Hear<'_>,
    ) -> Result<Done, ControlError> {
        let ground = self.ground(caller, session).await?;
        let request = self.request(caller, &ground, &program).await?;
        let submission = Submission {
            id: new_id(),
            owner: caller.tenant.to_string(),
            session_id: session.map(str::to_owned),
            language: self.engine.check(&request)?,
            created_at: now(),
            request: Json::of(&program.brief())?,
        };
        if let Ground::Fresh = ground {
            self.breaker.pass()?;
        }
        let way = self.way(&ground, (&caller.tenant, &caller.bounds), self.settings.session_queue)?;
        let order = Order { ground, request, submission };
        let span = traced::execution(&order);
        self.run_at_once(order, way, hear).instrument(span).await
    }

    /// Stores a program that is to be run, and has it run when it is its turn.
    #[tracing::instrument(name = "control.submit", target = "sandboxd::trace", skip_all)]
    pub async fn submit(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: Option<&str>,
        program: Program,
        key: Option<&str>,
    ) -> Result<Accepted, ControlError> {
        let ground = self.ground(caller, session).await?;
        let request = self.request(caller, &ground, &program).await?;
        let language = self.engine.check(&request)?;
        let way = self.way(&ground, (&caller.tenant, &caller.bounds), self.settings.session_queue)?;
        let (id, created_at) = (new_id(), now());
        let asked = Json::of(&program)?;
        let claim = match key {
            Some(key) => {
                let what = format!("{}\n{}", session.unwrap_or_default(), asked.as_str());
                Some(Claim::new(&caller.tenant, key, what.as_bytes(), &id, created_at)?)
            }
            None => None,
        };
        let submission = Submission {
            id,
            owner: caller.tenant.to_string(),
            session_id: session.map(str::to_owned),
            language,
            created_at,
            request: asked,
        };
        let too_large = |error| match error {
            StoreError::TooLong { limit, .. } => ControlError::TooLarge { field: "files", limit },
            other => other.into(),
        };
        match self.store.submit(&submission, claim.as_ref()).await.map_err(too_large)? {
            Claimed::Won => {
                let id = submission.id.clone();
                let live = self.enlist(&submission, caller.tenant.clone());
                let order = Order { ground, request, submission };
                let span = traced::submitted(&order);
                let run = self.clone().run_submitted(order, way, live, program.idempotent);
                tokio::spawn(run.instrument(span));
                Ok(Accepted { id, created_at, replayed: false })
            }
            Claimed::Before { made, at } => Ok(Accepted { id: made, created_at: at, replayed: true }),
            Claimed::Different => Err(ControlError::KeyReused),
        }
    }

    /// One execution of this caller.
    pub async fn execution(&self, caller: &Caller, id: &str) -> Result<StoredExecution, ControlError> {
        match self.store.execution(&caller.tenant, id).await {
            Err(StoreError::NotFound { .. }) => Err(NO_EXECUTION),
            other => Ok(other?),
        }
    }

    /// Executions of this caller, or of one of its sessions, the newest first.
    pub async fn executions(
        &self,
        caller: &Caller,
        session: Option<&str>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<StoredExecution>, ControlError> {
        Ok(self.store.executions(&caller.tenant, session, after, limit).await?)
    }

    /// Waits until an execution is over.
    pub async fn wait(&self, caller: &Caller, id: &str) -> Result<Done, ControlError> {
        loop {
            if let Some(live) = self.live_of(caller, id) {
                live.over().await;
            }
            let found = self.with_output(self.execution(caller, id).await?).await?;
            if let Progress::Finished { record, .. } = found.progress {
                let record = Arc::new(record);
                let (id, status) = (id.to_owned(), found.status);
                return Ok(Done { id, status, record, replayed: false, artifacts: Vec::new() });
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Has an execution end. Whether there was anything to end.
    pub async fn cancel(&self, caller: &Caller, id: &str) -> Result<bool, ControlError> {
        if let Some(live) = self.live_of(caller, id) {
            let (_, runs) = live.since(u64::MAX - 1);
            live.cancel.cancel();
            return Ok(runs);
        }
        match self.execution(caller, id).await?.progress {
            Progress::Finished { .. } => Ok(false),
            Progress::Unfinished { .. } => {
                Err(ControlError::conflict("execution", "belongs to another server"))
            }
        }
    }

    /// What happens to an execution, from behind a number on: 0 for all of it.
    pub async fn follow(&self, caller: &Caller, id: &str, after: u64) -> Result<Follow, ControlError> {
        if let Some(live) = self.live_of(caller, id) {
            return Ok(Follow { from: From::Live(live), after });
        }
        let found = self.execution(caller, id).await?;
        let Progress::Finished { finished_at, record, .. } = &found.progress else {
            return Err(ControlError::conflict("execution", "belongs to another server"));
        };
        let mut all = Vec::new();
        for name in ["stdout", "stderr"] {
            let bytes = self.output(&found, name).await?;
            if !bytes.is_empty() {
                let what =
                    if name == "stdout" { What::Stdout(bytes.into()) } else { What::Stderr(bytes.into()) };
                all.push(what);
            }
        }
        all.push(What::Finished(Arc::new(record.clone())));
        let numbered = (1..).zip(all).filter(|(sequence, _)| *sequence > after);
        let happenings = numbered.map(|(sequence, what)| Happening { sequence, at: *finished_at, what });
        Ok(Follow { from: From::Record(happenings.collect()), after })
    }

    /// Everything an execution wrote to a stream, wherever it is kept.
    pub async fn output(&self, execution: &StoredExecution, name: &str) -> Result<Vec<u8>, ControlError> {
        use tokio::io::AsyncReadExt;
        let Progress::Finished { record, objects, .. } = &execution.progress else { return Ok(Vec::new()) };
        if objects.iter().any(|object| object.name == name) {
            let mut content = self.store.attachment(execution, name, None).await?;
            let mut bytes = Vec::new();
            content.bytes.read_to_end(&mut bytes).await.map_err(|e| StoreError::Unavailable {
                message: e.to_string(),
                retry_after: Duration::from_secs(1),
            })?;
            return Ok(bytes);
        }
        let record: serde_json::Value = record.read()?;
        let exact = record[format!("{name}_base64")].as_str().and_then(|text| STANDARD.decode(text).ok());
        Ok(exact.unwrap_or_else(|| record[name].as_str().unwrap_or_default().as_bytes().to_vec()))
    }

    /// The same with all of its output in its record, also where that is kept apart.
    pub async fn with_output(&self, mut execution: StoredExecution) -> Result<StoredExecution, ControlError> {
        for name in ["stdout", "stderr"] {
            let Progress::Finished { objects, .. } = &execution.progress else { continue };
            if !objects.iter().any(|object| object.name == name) {
                continue;
            }
            let bytes = self.output(&execution, name).await?;
            let Progress::Finished { record, .. } = &mut execution.progress else { continue };
            let mut whole: serde_json::Value = record.read()?;
            whole[name] = String::from_utf8_lossy(&bytes).into();
            if std::str::from_utf8(&bytes).is_err() {
                whole[format!("{name}_base64")] = STANDARD.encode(&bytes).into();
            }
            *record = Json::of(&whole)?;
        }
        Ok(execution)
    }

    pub(super) fn enlist(&self, submission: &Submission, owner: Arc<str>) -> Arc<Live> {
        let session = submission.session_id.clone();
        let live = Live::new(submission.id.clone(), owner, session, self.settings.stream_bytes);
        let live = Arc::new(live);
        live.note(What::Status(ExecutionStatus::Pending));
        locked(&self.live).by_id.insert(submission.id.clone(), live.clone());
        live
    }

    fn live_of(&self, caller: &Caller, id: &str) -> Option<Arc<Live>> {
        locked(&self.live).by_id.get(id).filter(|live| live.owner == caller.tenant).cloned()
    }

    /// Executions of a session that are not over.
    pub(super) fn live_in(&self, owner: &str, session: &str) -> Vec<Arc<Live>> {
        let live = locked(&self.live);
        let here = |live: &&Arc<Live>| &*live.owner == owner && live.session.as_deref() == Some(session);
        live.by_id.values().filter(here).cloned().collect()
    }

    /// Where a program of this caller runs.
    async fn ground(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: Option<&str>,
    ) -> Result<Ground, ControlError> {
        if self.is_ending() {
            return Err(ControlError::ending());
        }
        Ok(match session {
            Some(id) => Ground::Session(self.session_to_use(caller, id).await?),
            None => Ground::Fresh,
        })
    }

    /// A program as it is run on this ground.
    pub(super) async fn request(
        &self,
        caller: &Caller,
        ground: &Ground,
        program: &Program,
    ) -> Result<crate::Request, ControlError> {
        match (ground, &program.template) {
            (Ground::Fresh, None) => program.request(&caller.tenant, &self.settings.defaults),
            (Ground::Fresh, Some(id)) => self.request_of_template(caller, id, program).await,
            (Ground::Session(session), None) => program.request(&caller.tenant, session.defaults()),
            (Ground::Session(_), Some(_)) => {
                Err(EngineError::invalid("template_id", "the session is made from one already")
                    .with_hint("leave it out, or run the program in a sandbox of its own")
                    .into())
            }
        }
    }
}

const NO_EXECUTION: ControlError = ControlError::NotFound { what: "execution" };

/// The time, to a fraction of a microsecond, by which ids sort; then 122 bits by which nobody guesses another one.
pub(super) fn new_id() -> String {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let within = u64::from(time.subsec_nanos() % 1_000_000) * 0x1_0000 / 1_000_000;
    format!("exec_{:012x}{within:04x}{}", time.as_millis(), uuid::Uuid::new_v4().simple())
}

/// What happens to an execution, one piece after the other.
#[derive(Debug)]
pub struct Follow {
    from: From,
    after: u64,
}

#[derive(Debug)]
enum From {
    Live(Arc<Live>),
    Record(Vec<Happening>),
}

impl Follow {
    /// What happened next; nothing when it is over and everything was told.
    pub async fn next(&mut self) -> Vec<Happening> {
        let found = match &mut self.from {
            From::Record(rest) => std::mem::take(rest),
            From::Live(live) => loop {
                let (found, more) = live.since(self.after);
                if !found.is_empty() || !more {
                    break found;
                }
                live.news(self.after).await;
            },
        };
        if let Some(last) = found.last() {
            self.after = last.sequence;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AP-06: whoever has seen ten thousand ids knows nothing of the next one but what time it will be.
    #[test]
    fn ids_sort_by_time_and_the_rest_of_them_is_random() {
        let ids: Vec<String> = (0..10_000).map(|_| new_id()).collect();
        let tails: Vec<u128> = ids
            .iter()
            .map(|id| {
                crate::storage::Submission { id: id.clone(), ..submission() }.check().unwrap();
                u128::from_str_radix(&id[21..], 16).unwrap()
            })
            .collect();
        assert_eq!(tails.iter().collect::<std::collections::HashSet<_>>().len(), ids.len(), "one came twice");
        let times: Vec<&str> = ids.iter().map(|id| &id[..21]).collect();
        assert!(times.is_sorted(), "the clock of a test does not go backwards");
        // Six bits of a UUID say that it is one. Each other one is set in about half of them: six standard deviations
        // of 10 000 throws are 300.
        let counts = (0..128).map(|bit| tails.iter().filter(|tail| **tail >> bit & 1 == 1).count());
        let even = counts.filter(|count| count.abs_diff(5_000) < 300).count();
        assert_eq!(even, 122);
        // Nor does one tell of the next: as many rise as fall, and neighbours differ in half of the bits.
        let pairs = || tails.windows(2).map(|pair| (pair[0], pair[1]));
        assert!(pairs().filter(|(a, b)| a < b).count().abs_diff(5_000) < 300);
        let differ: u32 = pairs().map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!(differ.abs_diff(61 * 9_999) < 9_999, "{differ}");
    }

    fn submission() -> Submission {
        Submission {
            id: String::new(),
            owner: "me".into(),
            session_id: None,
            language: "python".into(),
            created_at: 1,
            request: Json::of(&()).unwrap(),
        }
    }
}
