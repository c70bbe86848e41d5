//! Sessions and the history of their states. A state is changed only by whoever knows which one it was.

use super::change::Change;
use super::claims::{Claim, Claimed};
use super::error::StoreError;
use super::events::{NewEvent, SESSION_CREATED, SESSION_DELETED, SESSION_STATUS};
use super::json::Json;
use super::page::{Cursor, MOST_COUNTED, Page, fetch, page};
use super::session::{Session, SessionStatus, Transition};
use super::statement::{Columns, Statement, values};
use super::{Store, bounds};
use serde_json::json;
use sqlx::any::AnyRow;

const WHAT: &str = "session";
const MISSING: StoreError = StoreError::NotFound { what: WHAT };

/// Longest reason of a change of state, in bytes.
const MAX_REASON: usize = 4096;
/// How much of it an event tells, in characters.
const TOLD_REASON: usize = 200;

/// Which sessions of an owner are listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionFilter<'a> {
    /// Only those in this state.
    pub status: Option<SessionStatus>,
    /// Only those made from this template.
    pub template: Option<&'a str>,
}

macro_rules! select {
    ($rest:literal) => {
        Statement::new(concat!(
            "SELECT owner, id, template, agent_id, mode, status, spec, node, sandbox_id, workspace, idle_ms, \
             lifetime_ms, created_at, last_activity_at, ended_at, transitions FROM sessions ",
            $rest
        ))
    };
}

static INSERT: Statement = Statement::new(
    "INSERT INTO sessions (owner, id, template, agent_id, mode, status, spec, node, sandbox_id, workspace, idle_ms, \
     lifetime_ms, created_at, last_activity_at, due_at, ended_at, transitions) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
);
static INSERT_STATE: Statement = Statement::new(
    "INSERT INTO session_states (owner, session_id, number, from_status, to_status, at, reason) \
     SELECT owner, id, transitions, ?, ?, ?, ? FROM sessions WHERE owner = ? AND id = ?",
);
static MOVE: Statement = Statement::new(
    "UPDATE sessions SET status = ?, last_activity_at = ?, ended_at = ?, due_at = ?, transitions = transitions + 1 \
     WHERE owner = ? AND id = ? AND status = ? AND created_at = ?",
);
static TOUCH: Statement = Statement::new(
    "UPDATE sessions SET last_activity_at = ?, due_at = ? WHERE owner = ? AND id = ? AND last_activity_at < ? \
     AND ended_at IS NULL",
);
static PLACE: Statement =
    Statement::new("UPDATE sessions SET node = ?, sandbox_id = ? WHERE owner = ? AND id = ?");
static SPEC: Statement = Statement::new("UPDATE sessions SET spec = ? WHERE owner = ? AND id = ?");
static KEEP: Statement = Statement::new("UPDATE sessions SET workspace = ? WHERE owner = ? AND id = ?");
static DELETE: Statement =
    Statement::new("DELETE FROM sessions WHERE owner = ? AND id = ? AND created_at = ?");
static DELETE_STATES: Statement =
    Statement::new("DELETE FROM session_states WHERE owner = ? AND session_id = ?");
pub(crate) static SELECT: Statement = select!("WHERE owner = ? AND id = ?");
pub(crate) static BY_AGENT: Statement =
    select!("WHERE owner = ? AND agent_id = ? AND status = ? ORDER BY created_at DESC LIMIT 1");
pub(crate) static DUE: Statement = select!(
    "WHERE status = ? AND due_at <= ? AND due_at >= ? AND (due_at > ? OR owner > ? OR (owner = ? AND id > ?)) \
     ORDER BY due_at, owner, id LIMIT ?"
);
pub(crate) static LIST: Statement = select!(
    "WHERE owner = ? AND created_at <= ? AND (created_at < ? OR id < ?) AND (? = '' OR template = ?) \
     ORDER BY created_at DESC, id DESC LIMIT ?"
);
pub(crate) static LIST_STATUS: Statement = select!(
    "WHERE owner = ? AND status = ? AND created_at <= ? AND (created_at < ? OR id < ?) \
     AND (? = '' OR template = ?) ORDER BY created_at DESC, id DESC LIMIT ?"
);
pub(crate) static COUNT: Statement = Statement::new(
    "SELECT COUNT(*) FROM (SELECT id FROM sessions WHERE owner = ? AND created_at <= ? \
     AND (? = '' OR template = ?) LIMIT ?) AS found",
);
pub(crate) static COUNT_STATUS: Statement = Statement::new(
    "SELECT COUNT(*) FROM (SELECT id FROM sessions WHERE owner = ? AND status = ? AND created_at <= ? \
     AND (? = '' OR template = ?) LIMIT ?) AS found",
);
pub(crate) static HISTORY: Statement = Statement::new(
    "SELECT number, from_status, to_status, at, reason FROM session_states \
     WHERE owner = ? AND session_id = ? AND number > ? ORDER BY number LIMIT ?",
);

impl Store {
    /// Stores a new session, with its claim if it has one. Without one, an id that is taken is a conflict.
    pub async fn create_session(
        &self,
        session: &Session,
        claim: Option<&Claim>,
    ) -> Result<Claimed, StoreError> {
        session.check()?;
        let s = session.clone();
        let (owner, id) = (session.owner.as_str(), session.id.as_str());
        let due = session.due_at(session.last_activity_at);
        let row = values![
            s.owner,
            s.id,
            s.template,
            s.agent_id,
            s.mode,
            s.status,
            &s.spec,
            s.node,
            s.sandbox_id,
            s.workspace,
            s.idle_ms,
            s.lifetime_ms,
            s.created_at,
            s.last_activity_at,
            due,
            s.ended_at,
        ];
        let state = values![None::<String>, s.status, s.created_at, None::<String>, owner, id];
        let change = Change::new(WHAT, &INSERT, row).and(Change::new(WHAT, &INSERT_STATE, state));
        let Session { template, status, created_at, .. } = session;
        let body = json!({"status": status.word(), "template": template});
        let event = NewEvent::of(SESSION_CREATED, owner, id, *created_at, &body)?;
        match claim {
            Some(claim) => {
                let written = self.write_told(claim.change().and(change), event).await;
                self.claimed(claim, written).await
            }
            None => self.write_told(change, event).await.map(|_| Claimed::Won),
        }
    }

    /// One session of this owner.
    pub async fn session(&self, owner: &str, id: &str) -> Result<Session, StoreError> {
        self.one(&SELECT, values![owner, id], Session::read).await?.ok_or(MISSING)
    }

    /// The newest session of this agent that is ready or running.
    pub async fn session_of_agent(&self, owner: &str, agent: &str) -> Result<Option<Session>, StoreError> {
        for status in [SessionStatus::Ready, SessionStatus::Running] {
            let found = self.one(&BY_AGENT, values![owner, agent, status], Session::read).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Where this agent's sessions are or were: the node of the newest one in each state, the newest first.
    pub async fn nodes_of_agent(&self, owner: &str, agent: &str) -> Result<Vec<String>, StoreError> {
        use SessionStatus::{Failed, Ready, Running, Stopped, Terminated};
        let mut found = Vec::new();
        for status in [Ready, Running, Stopped, Terminated, Failed] {
            found.extend(self.one(&BY_AGENT, values![owner, agent, status], Session::read).await?);
        }
        found.sort_by_key(|session| std::cmp::Reverse(session.created_at));
        Ok(found.into_iter().filter_map(|session| session.node).collect())
    }

    /// Sessions of this owner, the newest first.
    pub async fn sessions(
        &self,
        owner: &str,
        filter: SessionFilter<'_>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Session>, StoreError> {
        let (at, id) = after.map_or(Ok((i64::MAX, "")), Cursor::pair)?;
        let template = filter.template.unwrap_or_default();
        let behind = values![at, at, id, template, template, fetch(limit)];
        let (statement, first) = match filter.status {
            Some(status) => (&LIST_STATUS, values![owner, status]),
            None => (&LIST, values![owner]),
        };
        let rows = self.all(statement, first.into_iter().chain(behind).collect(), Session::read).await?;
        Ok(page(rows, limit, |row| Cursor::behind_pair(row.created_at, &row.id)))
    }

    /// How many sessions of this owner there are, up to [`MOST_COUNTED`].
    pub async fn count_sessions(&self, owner: &str, filter: SessionFilter<'_>) -> Result<i64, StoreError> {
        let template = filter.template.unwrap_or_default();
        let rest = values![i64::MAX, template, template, MOST_COUNTED];
        let (statement, first) = match filter.status {
            Some(status) => (&COUNT_STATUS, values![owner, status]),
            None => (&COUNT, values![owner]),
        };
        let read = |row: &AnyRow| Columns::of(row).next::<i64>();
        Ok(self.one(statement, first.into_iter().chain(rest).collect(), read).await?.unwrap_or(0))
    }

    /// Sessions of every owner in this state whose time is over at this moment, the most overdue first. With
    /// `i64::MAX`, all in this state: what is looked through when a server starts.
    pub async fn due_sessions(
        &self,
        status: SessionStatus,
        at: i64,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Session>, StoreError> {
        let (due, key) = after.map_or(Ok((i64::MIN, "")), Cursor::pair)?;
        let (owner, id) = key.split_once('/').unwrap_or_default();
        let row = values![status, at, due, due, owner, owner, id, fetch(limit)];
        let rows = self.all(&DUE, row, Session::read).await?;
        let due = |row: &Session| row.ended_at.unwrap_or_else(|| row.due_at(row.last_activity_at));
        Ok(page(rows, limit, |row| Cursor::behind_pair(due(row), &format!("{}/{}", row.owner, row.id))))
    }

    /// Changes the state of a session, if it is what the caller believes and may become that. A conflict says that it
    /// is another one by now.
    pub async fn move_session(
        &self,
        session: &Session,
        to: SessionStatus,
        at: i64,
        reason: Option<&str>,
    ) -> Result<(), StoreError> {
        reason.map_or(Ok(()), |reason| bounds::text("reason", reason, MAX_REASON))?;
        let (owner, id, from) = (session.owner.as_str(), session.id.as_str(), session.status);
        if !from.may_become(to) {
            return Err(StoreError::Conflict { what: WHAT, why: "cannot go from its state to this one" });
        }
        let ended = matches!(to, SessionStatus::Terminated | SessionStatus::Failed).then_some(at);
        // What has ended waits for its retention to be over, counted from here.
        let due = ended.unwrap_or_else(|| session.due_at(at));
        // Another one may have the name by now.
        let row = values![to, at, ended, due, owner, id, from, session.created_at];
        let brief: Option<String> = reason.map(|reason| reason.chars().take(TOLD_REASON).collect());
        let body = json!({"status": to.word(), "from": from.word(), "reason": brief});
        let event = NewEvent::of(SESSION_STATUS, owner, id, at, &body)?;
        let reason = reason.map(str::to_owned);
        let state = values![from.word().to_owned(), to, at, reason, owner, id];
        let moved = StoreError::Conflict { what: WHAT, why: "is in another state by now" };
        let change = Change::new(WHAT, &MOVE, row).or(moved).and(Change::new(WHAT, &INSERT_STATE, state));
        match self.write_told(change, event).await {
            Err(moved @ StoreError::Conflict { .. }) => self.session(owner, id).await.and(Err(moved)),
            other => other.map(drop),
        }
    }

    /// Notes that something was done with a session that has not ended. Earlier than what is noted is no news.
    pub async fn touch_session(&self, session: &Session, at: i64) -> Result<(), StoreError> {
        let row = values![at, session.due_at(at), session.owner.as_str(), session.id.as_str(), at];
        self.write(Change::new(WHAT, &TOUCH, row)).await.map(drop)
    }

    /// Notes where a session lives.
    pub async fn place_session(
        &self,
        owner: &str,
        id: &str,
        node: Option<&str>,
        sandbox_id: Option<&str>,
    ) -> Result<(), StoreError> {
        node.map_or(Ok(()), |node| bounds::id("node", node))?;
        sandbox_id.map_or(Ok(()), |sandbox| bounds::name("sandbox_id", sandbox))?;
        let row = values![node.map(str::to_owned), sandbox_id.map(str::to_owned), owner, id];
        self.write(Change::new(WHAT, &PLACE, row).or(MISSING)).await.map(drop)
    }

    /// Notes what a session is like by now.
    pub async fn keep_spec(&self, owner: &str, id: &str, spec: &Json) -> Result<(), StoreError> {
        spec.check("spec")?;
        self.write(Change::new(WHAT, &SPEC, values![spec, owner, id]).or(MISSING)).await.map(drop)
    }

    /// Notes which object keeps the workspace of a session.
    pub async fn keep_workspace(
        &self,
        owner: &str,
        id: &str,
        object: Option<&str>,
    ) -> Result<(), StoreError> {
        object.map_or(Ok(()), |object| bounds::name("workspace", object))?;
        let row = values![object.map(str::to_owned), owner, id];
        self.write(Change::new(WHAT, &KEEP, row).or(MISSING)).await.map(drop)
    }

    /// The states a session has been in, the oldest first.
    pub async fn session_history(
        &self,
        owner: &str,
        id: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Transition>, StoreError> {
        let after = after.map_or(Ok((0, "")), Cursor::pair)?.0;
        let rows = self.all(&HISTORY, values![owner, id, after, fetch(limit)], Transition::read).await?;
        Ok(page(rows, limit, |row| Cursor::behind_pair(row.number, id)))
    }

    /// Removes this session, its history, its executions and all their objects, as if it had never been. Another one that
    /// has its name by now stays.
    pub async fn purge_session(&self, session: &Session) -> Result<(), StoreError> {
        let (owner, id) = (session.owner.as_str(), session.id.as_str());
        match self.session(owner, id).await? {
            now if now.created_at == session.created_at => {
                self.purge_executions(owner, id).await?;
                if let Some(workspace) = &now.workspace {
                    self.objects().delete(&workspace.parse()?).await?;
                }
            }
            _ => return Err(MISSING),
        }
        let states = Change::new(WHAT, &DELETE_STATES, values![owner, id]);
        let at = jiff::Timestamp::now().as_millisecond();
        let event = NewEvent::of(SESSION_DELETED, owner, id, at, &json!({}))?;
        let row = Change::new(WHAT, &DELETE, values![owner, id, session.created_at]).or(MISSING);
        self.write_told(states.and(row), event).await.map(drop)
    }
}
