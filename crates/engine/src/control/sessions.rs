//! Sessions: made, shown, used, paused.

mod ending;

use super::dependencies::Dependencies;
use super::error::ControlError;
use super::live::What;
use super::nodes::Placement;
use super::session::{LiveSession, NewSession, SessionSpec, SessionView};
use super::templates::TemplateSpec;
use super::{Caller, ControlPlane, Name, locked, now};
use crate::limits::Wanted;
use crate::storage::{
    Claim, Claimed, Cursor, Json, Page, Session, SessionFilter, SessionMode, SessionStatus, StoreError,
    Transition,
};
use crate::{EngineError, SandboxSpec};
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

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
        let mut spec = self.settle(&new.spec, &template)?;
        if new.mode == SessionMode::Ephemeral {
            if new.spec.max_concurrent.is_some_and(|wanted| wanted > 1) {
                let wrong = EngineError::invalid("max_concurrent", "an ephemeral session is for one program");
                return Err(wrong.with_hint("leave it out, or make a persistent session").into());
            }
            spec.max_concurrent = None;
        }
        let turn = match &new.install {
            Some(install) if install.packages.is_empty() => {
                spec.dependencies = Some(Dependencies::of_nothing(install));
                None
            }
            Some(install) => {
                self.check_install(install)?;
                spec = spec.with(install)?;
                Some(self.turns.reserve(&caller.tenant, &caller.bounds)?)
            }
            None => None,
        };
        let room = self.room(caller, &id)?;
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
        let plane = self.clone();
        let made = async move {
            let live = plane.furnish(row, spec, room).await?;
            let view = live.view();
            if let Some(install) = new.install {
                plane.begin_install(&live, install.index, turn)?;
            }
            Ok((view, true))
        };
        finished(made).await
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
        let mut spec: SessionSpec = row.spec.read()?;
        spec.dependencies = spec.dependencies.map(Dependencies::abandoned);
        if spec.dependencies.as_ref().is_some_and(Dependencies::is_missed) {
            return Err(ControlError::conflict("session", "has failed: its packages could not be installed"));
        }
        let room = self.room(caller, id)?;
        // Of any number of callers one goes on; the others find it in the making.
        self.store.move_session(&row, SessionStatus::Creating, now(), Some("it is used again")).await?;
        row.status = SessionStatus::Creating;
        let plane = self.clone();
        finished(async move { plane.furnish(row, spec, room).await }).await
    }

    /// Gives a session that is in the making its sandbox, and what it had in its workspace. Its room is held until then.
    async fn furnish(
        self: &Arc<ControlPlane>,
        row: Session,
        spec: SessionSpec,
        _room: Room,
    ) -> Result<Arc<LiveSession>, ControlError> {
        let defaults = &self.settings.defaults;
        let wanted = SandboxSpec {
            limits: spec.limits.or(defaults.limits),
            network: spec.network.unwrap_or(defaults.network),
            profile: defaults.profile,
            allow_weaker: defaults.allow_weaker.clone(),
            languages: spec.languages.clone(),
            max_concurrent: self.concurrent(&spec),
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
        let ready = Session {
            status: SessionStatus::Ready,
            sandbox_id: Some(sandbox.id().to_owned()),
            last_activity_at: now(),
            ended_at: None,
            transitions: row.transitions + 1,
            ..row.clone()
        };
        let key = (Arc::from(row.owner.as_str()), row.id.clone());
        let live = Arc::new(LiveSession::new(ready, spec, sandbox, &self.settings));
        // Whoever reads that it is ready shall find it here.
        locked(&self.sessions).live.insert(key, live.clone());
        if let Err(error) = self.store.move_session(&row, SessionStatus::Ready, now(), None).await {
            self.close(&live).await;
            return Err(error.into());
        }
        tokio::spawn(self.clone().mind(live.clone()));
        Ok(live)
    }

    /// Notices when the sandbox of a session is gone before its time.
    async fn mind(self: Arc<ControlPlane>, live: Arc<LiveSession>) {
        live.sandbox.gone().await;
        if live.closing.swap(true, Relaxed) {
            return;
        }
        self.forget_session(&live);
        let _ = self
            .store
            .move_session(&live.row(), SessionStatus::Failed, now(), Some("its sandbox is gone"))
            .await;
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
        let mut spec: SessionSpec = session.spec.read()?;
        if !session.status.is_live() {
            spec.dependencies = spec.dependencies.map(Dependencies::abandoned);
        }
        let defaults = &self.settings.defaults;
        let limits = self.engine.limits(spec.limits.or(defaults.limits)).ok();
        let network = spec.network.unwrap_or(defaults.network);
        let max_concurrent = self.concurrent(&spec);
        Ok(SessionView { session, spec, limits, network, max_concurrent, running: 0, queued: 0 })
    }

    /// How many programs of a session run at once: no more than may now, whatever it was made with.
    fn concurrent(&self, spec: &SessionSpec) -> u32 {
        spec.max_concurrent.unwrap_or(1).min(self.settings.max_concurrent).max(1)
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
        let max_concurrent = asked.max_concurrent.or(template.max_concurrent);
        self.check_concurrent(max_concurrent)?;
        let metadata = asked.metadata.clone();
        Ok(SessionSpec { limits, env, languages, network, max_concurrent, metadata, dependencies: None })
    }

    /// Whether this caller may have one more session. What is returned holds its place until it is there.
    fn room(self: &Arc<ControlPlane>, caller: &Caller, id: &str) -> Result<Room, ControlError> {
        let mut sessions = locked(&self.sessions);
        let coming = || sessions.coming.iter().map(|((owner, _), many)| (owner, *many));
        let counted = || sessions.live.keys().map(|(owner, _)| (owner, 1)).chain(coming());
        let own: usize = counted().filter(|(owner, _)| **owner == caller.tenant).map(|(_, many)| many).sum();
        let all: usize = counted().map(|(_, many)| many).sum();
        let later = Duration::from_secs(10);
        if own >= caller.bounds.sessions {
            return Err(ControlError::too_many("sessions", &format!("there are {own} already"), later));
        }
        if all >= self.settings.max_sessions {
            let why = format!("there are {all} sessions already");
            return Err(ControlError::Busy { why, retry_after: later });
        }
        let name = (caller.tenant.clone(), id.to_owned());
        *sessions.coming.entry(name.clone()).or_default() += 1;
        Ok(Room { plane: self.clone(), name })
    }
}

/// Waits for something that is done even if nobody waits for it any more: what is stored as being in the making shall
/// not be so for ever.
async fn finished<T: Send + 'static>(
    work: impl Future<Output = Result<T, ControlError>> + Send + 'static,
) -> Result<T, ControlError> {
    tokio::spawn(work).await.map_err(|e| EngineError::Broken(e.to_string()))?
}

/// The place of a session that is in the making.
struct Room {
    plane: Arc<ControlPlane>,
    name: Name,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut sessions = locked(&self.plane.sessions);
        if let Entry::Occupied(mut coming) = sessions.coming.entry(self.name.clone()) {
            *coming.get_mut() -= 1;
            if *coming.get() == 0 {
                coming.remove();
            }
        }
        drop(sessions);
        self.plane.settled.notify_waiters();
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
