//! Sessions: made, used, paused, ended.

use super::error::ControlError;
use super::live::What;
use super::nodes::Placement;
use super::running::Ground;
use super::session::{LiveSession, NewSession, SessionSpec, SessionView};
use super::templates::TemplateSpec;
use super::{Caller, ControlPlane, locked, now};
use crate::limits::Wanted;
use crate::storage::{
    Claim, Claimed, Cursor, Json, Page, Session, SessionFilter, SessionMode, SessionStatus, StoreError,
    Transition,
};
use crate::{EngineError, SandboxSpec};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How much of the time a session may do nothing passes before it is stored that it did something.
const SHARE: i64 = 10;
/// And at least this long, in milliseconds.
const SELDOM: i64 = 1000;
/// How long a sandbox may take to go.
const FAREWELL: Duration = Duration::from_secs(5);

const NO_SESSION: ControlError = ControlError::NotFound { what: "session" };

impl ControlPlane {
    /// Makes a session, or finds the one this agent has, or the one an earlier request with the same idempotency key
    /// made. Whether it was made now.
    pub async fn create_session(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        new: NewSession,
        key: Option<&str>,
    ) -> Result<(SessionView, bool), ControlError> {
        if self.is_ending() {
            return Err(ControlError::ending());
        }
        if let (Some(agent), None) = (&new.agent_id, &new.id)
            && let Some(found) = self.store.session_of_agent(&caller.tenant, agent).await?
            && let Some(live) = self.live_session(&caller.tenant, &found.id)
        {
            live.touch();
            return Ok((live.view(), false));
        }
        let id = match &new.id {
            Some(id) => checked_id(id)?.to_owned(),
            None => new_id(),
        };
        let template_id = new.template.clone().unwrap_or_else(|| self.settings.default_template.clone());
        let template: TemplateSpec = self.template(&template_id).await?.spec.read()?;
        if template.inactive {
            return Err(ControlError::conflict("template", "is not active"));
        }
        let spec = self.settle(&new.spec, &template)?;
        let room = self.room(caller)?;
        let agent_nodes = match &new.agent_id {
            Some(agent) => self.store.nodes_of_agent(&caller.tenant, agent).await?,
            None => Vec::new(),
        };
        let node = self.place(&Placement {
            template: &template_id,
            languages: &spec.languages,
            persistent: new.mode == SessionMode::Persistent,
            agent_nodes: &agent_nodes,
        })?;
        let at = now();
        let row = Session {
            owner: caller.tenant.to_string(),
            id: id.clone(),
            template: template_id,
            agent_id: new.agent_id.clone(),
            mode: new.mode,
            status: SessionStatus::Creating,
            spec: Json::of(&spec)?,
            node: Some(node),
            sandbox_id: None,
            workspace: None,
            idle_ms: within("idle", new.idle_ms.unwrap_or(self.settings.session_idle_ms))?,
            lifetime_ms: within("lifetime", new.lifetime_ms.unwrap_or(self.settings.session_lifetime_ms))?,
            created_at: at,
            last_activity_at: at,
            ended_at: None,
            transitions: 1,
        };
        let claim = match key {
            Some(key) => {
                let asked = Json::of(&new)?;
                Some(Claim::new(
                    &caller.tenant,
                    &format!("session\n{key}"),
                    asked.as_str().as_bytes(),
                    &id,
                    at,
                )?)
            }
            None => None,
        };
        match self.store.create_session(&row, claim.as_ref()).await? {
            Claimed::Won => {}
            Claimed::Before { made, .. } => return Ok((self.session(caller, &made).await?, false)),
            Claimed::Different => return Err(ControlError::KeyReused),
        }
        let live = self.furnish(row, spec).await;
        drop(room);
        Ok((live?.view(), true))
    }

    /// One session of this caller.
    pub async fn session(&self, caller: &Caller, id: &str) -> Result<SessionView, ControlError> {
        if let Some(live) = self.live_session(&caller.tenant, id) {
            return Ok(live.view());
        }
        self.view(self.stored(&caller.tenant, id).await?)
    }

    /// Sessions of this caller, the newest first.
    pub async fn sessions(
        &self,
        caller: &Caller,
        filter: SessionFilter<'_>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<SessionView>, ControlError> {
        let Page { items, next } = self.store.sessions(&caller.tenant, filter, after, limit).await?;
        let view = |session: Session| match self.live_session(&caller.tenant, &session.id) {
            Some(live) => Ok(live.view()),
            None => self.view(session),
        };
        Ok(Page { items: items.into_iter().map(view).collect::<Result<_, _>>()?, next })
    }

    /// Sessions of this caller that have a sandbox at the moment, by id.
    pub fn standing(&self, caller: &Caller) -> Vec<SessionView> {
        let mut views: Vec<SessionView> = self
            .all_live_sessions()
            .iter()
            .map(|live| live.view())
            .filter(|view| view.session.owner == *caller.tenant)
            .collect();
        views.sort_by(|a, b| a.session.id.cmp(&b.session.id));
        views
    }

    /// The states a session has been in, the oldest first.
    pub async fn session_history(
        &self,
        caller: &Caller,
        id: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Transition>, ControlError> {
        self.stored(&caller.tenant, id).await?;
        Ok(self.store.session_history(&caller.tenant, id, after, limit).await?)
    }

    /// Stops every program of a session where it is.
    pub async fn pause_session(&self, caller: &Caller, id: &str) -> Result<SessionView, ControlError> {
        let live = self.live_session_of(caller, id).await?;
        self.step(&live, SessionStatus::Paused, None).await?;
        live.stand_still(true).await?;
        Ok(live.view())
    }

    /// Lets them go on.
    pub async fn resume_session(&self, caller: &Caller, id: &str) -> Result<SessionView, ControlError> {
        let live = self.live_session_of(caller, id).await?;
        self.step(&live, SessionStatus::Ready, None).await?;
        live.stand_still(false).await?;
        Ok(live.view())
    }

    /// Ends a session: its programs, its sandbox and its files. What it was, and its executions, can still be looked at.
    /// Ending it again changes nothing.
    pub async fn terminate_session(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        id: &str,
    ) -> Result<SessionView, ControlError> {
        self.terminate(&caller.tenant, id, None).await?;
        self.session(caller, id).await
    }

    /// Ends a session, and forgets that it ever was.
    pub async fn purge_session(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        id: &str,
    ) -> Result<(), ControlError> {
        self.terminate(&caller.tenant, id, None).await?;
        match self.store.purge_session(&caller.tenant, id).await {
            Err(StoreError::NotFound { .. }) => Err(NO_SESSION),
            other => Ok(other?),
        }
    }

    /// A session, to do something in it. One that has no sandbox at the moment gets one.
    pub(super) async fn session_to_use(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        id: &str,
    ) -> Result<Arc<LiveSession>, ControlError> {
        let live = match self.live_session(&caller.tenant, id) {
            Some(live) => live,
            None => self.revive(caller, id).await?,
        };
        if live.row().status == SessionStatus::Paused {
            return Err(ControlError::conflict("session", "is paused"));
        }
        live.touch();
        Ok(live)
    }

    async fn revive(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        id: &str,
    ) -> Result<Arc<LiveSession>, ControlError> {
        let mut row = self.stored(&caller.tenant, id).await?;
        let why = match row.status {
            SessionStatus::Stopped => None,
            SessionStatus::Failed if row.mode == SessionMode::Persistent => None,
            SessionStatus::Creating => Some("is being made"),
            SessionStatus::Terminated => Some("is terminated"),
            SessionStatus::Failed => Some("has failed"),
            _ => Some("belongs to another server"),
        };
        if let Some(why) = why {
            return Err(ControlError::conflict("session", why));
        }
        let room = self.room(caller)?;
        let spec: SessionSpec = row.spec.read()?;
        // Of any number of callers one goes on; the others find it in the making.
        self.store.move_session(&row, SessionStatus::Creating, now(), Some("it is used again")).await?;
        row.status = SessionStatus::Creating;
        let live = self.furnish(row, spec).await;
        drop(room);
        live
    }

    /// Gives a session that is in the making its sandbox, and what it had in its workspace.
    async fn furnish(
        self: &Arc<ControlPlane>,
        row: Session,
        spec: SessionSpec,
    ) -> Result<Arc<LiveSession>, ControlError> {
        let defaults = &self.settings.defaults;
        let wanted = SandboxSpec {
            limits: spec.limits.or(defaults.limits),
            network: spec.network.unwrap_or(defaults.network),
            profile: defaults.profile,
            allow_weaker: defaults.allow_weaker.clone(),
            languages: spec.languages.clone(),
        };
        let made = async {
            self.breaker.pass()?;
            let opened = self.engine.open(&wanted).await;
            match &opened {
                Ok(_) => self.breaker.worked(),
                Err(EngineError::Broken(why)) => self.breaker.failed(why),
                Err(_) => {}
            }
            let sandbox = opened?;
            if let Some(object) = &row.workspace {
                self.restore(&sandbox, object).await?;
            }
            Ok::<_, ControlError>(sandbox)
        };
        let sandbox = match made.await {
            Ok(sandbox) => sandbox,
            Err(error) => {
                let reason: String = error.to_string().chars().take(1000).collect();
                self.store.move_session(&row, SessionStatus::Failed, now(), Some(&reason)).await?;
                return Err(error);
            }
        };
        self.store.place_session(&row.owner, &row.id, row.node.as_deref(), Some(sandbox.id())).await?;
        let sandbox_id = Some(sandbox.id().to_owned());
        self.store.move_session(&row, SessionStatus::Ready, now(), None).await?;
        let row = Session {
            status: SessionStatus::Ready,
            sandbox_id,
            last_activity_at: now(),
            ended_at: None,
            transitions: row.transitions + 1,
            ..row
        };
        let key = (Arc::from(row.owner.as_str()), row.id.clone());
        let live = Arc::new(LiveSession::new(row, spec, sandbox, &self.settings));
        locked(&self.sessions).live.insert(key, live.clone());
        tokio::spawn(self.clone().mind(live.clone()));
        Ok(live)
    }

    /// Notices when the sandbox of a session is gone before its time.
    async fn mind(self: Arc<ControlPlane>, live: Arc<LiveSession>) {
        live.sandbox.gone().await;
        if live.closing.swap(true, Relaxed) {
            return;
        }
        let row = live.row();
        self.forget_session(&row);
        let _ =
            self.store.move_session(&row, SessionStatus::Failed, now(), Some("its sandbox is gone")).await;
    }

    /// After a program: a session that was for one is over.
    pub(super) async fn left(self: &Arc<ControlPlane>, ground: &Ground) {
        let Ground::Session(live) = ground else { return };
        live.touch();
        let row = live.row();
        if row.mode == SessionMode::Ephemeral {
            let _ = self.terminate(&row.owner, &row.id, Some("its one program is over")).await;
        } else if live.touched() - live.noted.load(Relaxed) >= (row.idle_ms / SHARE).max(SELDOM) {
            let at = live.touched();
            live.noted.store(at, Relaxed);
            let _ = self.store.touch_session(&row, at).await;
        }
    }

    pub(super) async fn terminate(
        self: &Arc<ControlPlane>,
        owner: &str,
        id: &str,
        reason: Option<&str>,
    ) -> Result<(), ControlError> {
        let row = match self.live_session(owner, id) {
            Some(live) => {
                self.close(&live).await;
                live.row()
            }
            None => self.stored(owner, id).await?,
        };
        if row.status == SessionStatus::Terminated {
            return Ok(());
        }
        match self.store.move_session(&row, SessionStatus::Terminated, now(), reason).await {
            // Somebody else ended it, or it failed meanwhile.
            Err(StoreError::Conflict { .. }) => {
                let row = self.stored(owner, id).await?;
                if row.status != SessionStatus::Terminated {
                    self.store.move_session(&row, SessionStatus::Terminated, now(), reason).await?;
                }
            }
            other => other?,
        }
        self.drop_workspace(&self.stored(owner, id).await?).await
    }

    /// Ends everything in a session, and its sandbox.
    pub(super) async fn close(&self, live: &LiveSession) {
        live.closing.store(true, Relaxed);
        let row = live.row();
        for execution in self.live_in(&row.owner, &row.id) {
            execution.cancel.cancel();
        }
        live.sandbox.close();
        let _ = tokio::time::timeout(FAREWELL, live.sandbox.gone()).await;
        self.forget_session(&row);
    }

    pub(super) fn forget_session(&self, row: &Session) {
        locked(&self.sessions).live.remove(&(Arc::from(row.owner.as_str()), row.id.clone()));
    }

    /// Ends sessions whose time is over.
    pub(super) async fn end_due_sessions(self: &Arc<ControlPlane>) {
        let at = now();
        for live in self.all_live_sessions() {
            let view = live.view();
            let busy = view.running > 0;
            let lifetime = Session { idle_ms: -1, ..view.session.clone() };
            let reason = if at >= lifetime.due_at(at) {
                "its lifetime is over"
            } else if !busy && at >= view.session.due_at(view.session.last_activity_at) {
                "it was idle"
            } else {
                continue;
            };
            let _ = self.terminate(&view.session.owner, &view.session.id, Some(reason)).await;
        }
        for status in [SessionStatus::Stopped, SessionStatus::Ready, SessionStatus::Paused] {
            let Ok(due) = self.store.due_sessions(status, at, None, 100).await else { return };
            for row in due.items {
                let here = row.node.as_deref() == Some(&self.settings.node);
                if here && self.live_session(&row.owner, &row.id).is_none() {
                    let _ = self.terminate(&row.owner, &row.id, Some("its time is over")).await;
                }
            }
        }
    }

    pub(super) fn all_live_sessions(&self) -> Vec<Arc<LiveSession>> {
        locked(&self.sessions).live.values().cloned().collect()
    }

    /// Changes the state of a session that lives here.
    async fn step(
        &self,
        live: &LiveSession,
        to: SessionStatus,
        reason: Option<&str>,
    ) -> Result<(), ControlError> {
        let row = live.row();
        if row.status == to {
            return Ok(());
        }
        self.store.move_session(&row, to, now(), reason).await?;
        let mut row = locked(&live.row);
        row.status = to;
        row.transitions += 1;
        drop(row);
        for execution in self.live_in(&live.row().owner, &live.row().id) {
            let status = if to == SessionStatus::Paused { What::Paused } else { What::Resumed };
            execution.note(status);
        }
        live.touch();
        Ok(())
    }

    pub(super) fn live_session(&self, owner: &str, id: &str) -> Option<Arc<LiveSession>> {
        let live = locked(&self.sessions).live.get(&(Arc::from(owner), id.to_owned())).cloned();
        live.filter(|live| !live.closing.load(Relaxed))
    }

    pub(super) async fn live_session_of(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Arc<LiveSession>, ControlError> {
        match self.live_session(&caller.tenant, id) {
            Some(live) => Ok(live),
            None => {
                let row = self.stored(&caller.tenant, id).await?;
                Err(ControlError::conflict("session", format!("is {}", row.status.word())))
            }
        }
    }

    async fn stored(&self, owner: &str, id: &str) -> Result<Session, ControlError> {
        match self.store.session(owner, id).await {
            Err(StoreError::NotFound { .. }) => Err(NO_SESSION),
            other => Ok(other?),
        }
    }

    fn view(&self, session: Session) -> Result<SessionView, ControlError> {
        let spec = session.spec.read()?;
        Ok(SessionView { session, spec, running: 0, queued: 0 })
    }

    /// What a session is like: what was asked for, else what its template says.
    fn settle(&self, asked: &SessionSpec, template: &TemplateSpec) -> Result<SessionSpec, ControlError> {
        let mut env = template.env.clone();
        env.extend(asked.env.clone());
        let named = if asked.languages.is_empty() { &template.languages } else { &asked.languages };
        let mut languages = Vec::new();
        for language in named {
            languages.push(self.engine.catalogue().by_name(language)?.name.clone());
        }
        if languages.is_empty() {
            languages = self.engine.usable_languages();
        }
        let limits: Wanted = asked.limits.or(template.limits);
        self.engine.check_limits(limits)?;
        let network = asked.network.or(template.network);
        self.check_network(network)?;
        Ok(SessionSpec { limits, env, languages, network, metadata: asked.metadata.clone() })
    }

    /// Whether this caller may have one more session. What is returned holds its place until it is there.
    fn room(self: &Arc<ControlPlane>, caller: &Caller) -> Result<Room, ControlError> {
        let mut sessions = locked(&self.sessions);
        let own = sessions.live.keys().filter(|(owner, _)| *owner == caller.tenant).count()
            + sessions.coming.get(&caller.tenant).copied().unwrap_or(0);
        let all = sessions.live.len() + sessions.coming.values().sum::<usize>();
        let later = Duration::from_secs(10);
        if own >= caller.bounds.sessions {
            return Err(ControlError::too_many("sessions", &format!("there are {own} already"), later));
        }
        if all >= self.settings.max_sessions {
            let why = format!("there are {all} sessions already");
            return Err(ControlError::Busy { why, retry_after: later });
        }
        *sessions.coming.entry(caller.tenant.clone()).or_default() += 1;
        Ok(Room { plane: self.clone(), tenant: caller.tenant.clone() })
    }
}

/// The place of a session that is in the making.
struct Room {
    plane: Arc<ControlPlane>,
    tenant: Arc<str>,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut sessions = locked(&self.plane.sessions);
        if let Some(count) = sessions.coming.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                sessions.coming.remove(&self.tenant);
            }
        }
    }
}

/// Unique, and not to be guessed.
fn new_id() -> String {
    format!("sess_{}", uuid::Uuid::new_v4().simple())
}

fn checked_id(id: &str) -> Result<&str, ControlError> {
    let fits = (1..=64).contains(&id.len())
        && id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    match fits {
        true => Ok(id),
        false => Err(EngineError::invalid("id", "is no id")
            .with_hint("1 to 64 of letters, digits, `_` and `-`, the first one a letter or a digit")
            .into()),
    }
}

fn within(field: &str, ms: i64) -> Result<i64, ControlError> {
    match ms {
        -1 | 1.. => Ok(ms),
        _ => Err(EngineError::invalid(field, "is no time")
            .with_hint("at least a millisecond, or -1 for ever")
            .into()),
    }
}
