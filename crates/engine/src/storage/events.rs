//! Lifecycle events in the order they were committed. Their numbers grow without ever going back, so that whoever has
//! seen one can ask for what came after it and misses nothing.
//!
//! The number is taken from a row that stays locked until the event is committed: what has a smaller number is visible
//! before what has a greater one, however many servers write.
//!
//! What changes sessions, templates, keys and executions that were submitted tells so in the same transaction. An
//! execution that is stored in one piece tells so a moment later (`later.rs`).

use super::change::Change;
use super::error::StoreError;
use super::json::Json;
use super::page::fetch;
use super::statement::{Columns, Statement, values};
use super::{Store, bounds};
use serde::Serialize;
use sqlx::any::AnyRow;
use tokio::sync::watch;

/// Whose events those are that happen to what everybody shares. No owner is called so.
pub const EVERYBODY: &str = "*";

/// Every kind of event that is told.
pub const EVENT_KINDS: [&str; 11] = [
    SESSION_CREATED,
    SESSION_STATUS,
    SESSION_DELETED,
    EXECUTION_SUBMITTED,
    EXECUTION_STARTED,
    EXECUTION_FINISHED,
    TEMPLATE_CREATED,
    TEMPLATE_CHANGED,
    TEMPLATE_DELETED,
    KEY_CREATED,
    KEY_REVOKED,
];

pub(crate) const SESSION_CREATED: &str = "session.created";
pub(crate) const SESSION_STATUS: &str = "session.status";
pub(crate) const SESSION_DELETED: &str = "session.deleted";
pub(crate) const EXECUTION_SUBMITTED: &str = "execution.submitted";
pub(crate) const EXECUTION_STARTED: &str = "execution.started";
pub(crate) const EXECUTION_FINISHED: &str = "execution.finished";
pub(crate) const TEMPLATE_CREATED: &str = "template.created";
pub(crate) const TEMPLATE_CHANGED: &str = "template.changed";
pub(crate) const TEMPLATE_DELETED: &str = "template.deleted";
pub(crate) const KEY_CREATED: &str = "key.created";
pub(crate) const KEY_REVOKED: &str = "key.revoked";

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Who may see it.
    pub owner: String,
    /// What kind of thing, such as `session.created`.
    pub kind: String,
    /// What it happened to.
    pub subject: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// More about it.
    pub body: Json,
}

impl NewEvent {
    pub(crate) fn of(
        kind: &str,
        owner: &str,
        subject: &str,
        at: i64,
        body: &impl Serialize,
    ) -> Result<NewEvent, StoreError> {
        let (owner, kind, subject) = (owner.to_owned(), kind.to_owned(), subject.to_owned());
        Ok(NewEvent { owner, kind, subject, at, body: Json::of(body)? })
    }
}

/// Something that happened, with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Greater than those of all earlier ones.
    pub sequence: i64,
    /// What it was.
    pub event: NewEvent,
}

const WHAT: &str = "event";

static NEXT: Statement = Statement::new("UPDATE counters SET value = value + ? WHERE name = 'events'");
static INSERT: Statement = Statement::new(
    "INSERT INTO events (sequence, owner, kind, subject, at, body) \
     SELECT value - ?, ?, ?, ?, ?, ? FROM counters WHERE name = 'events'",
);
/// Whose execution it is, and where, its row knows.
static INSERT_STARTED: Statement = Statement::new(
    "INSERT INTO events (sequence, owner, kind, subject, at, body) \
     SELECT counters.value, unfinished_executions.owner, ?, unfinished_executions.id, ?, ? \
     FROM counters, unfinished_executions WHERE counters.name = 'events' AND unfinished_executions.id = ?",
);
pub(crate) static LIST: Statement = Statement::new(
    "SELECT sequence, owner, kind, subject, at, body FROM events WHERE sequence > ? ORDER BY sequence LIMIT ?",
);
pub(crate) static LIST_OWNER: Statement = Statement::new(
    "SELECT sequence, owner, kind, subject, at, body FROM events WHERE owner = ? AND sequence > ? \
     ORDER BY sequence LIMIT ?",
);
pub(crate) static LATEST: Statement = Statement::new("SELECT value FROM counters WHERE name = 'events'");

/// Events that are committed with what they tell of. They have to come last: their number stays locked until then.
pub(crate) fn change(events: &[NewEvent]) -> Change {
    let mut change = Change::new(WHAT, &NEXT, values![events.len() as i64]);
    for (event, behind) in events.iter().zip((0..events.len()).rev()) {
        let e = event.clone();
        let row = values![behind as i64, e.owner, e.kind, e.subject, e.at, &e.body];
        change = change.and(Change::new(WHAT, &INSERT, row));
    }
    change
}

/// The event of an execution that begins.
pub(crate) fn started(id: &str, at: i64) -> Result<Change, StoreError> {
    let body = Json::of(&serde_json::json!({"status": "running"}))?;
    let row = values![EXECUTION_STARTED, at, &body, id];
    Ok(Change::new(WHAT, &NEXT, values![1]).and(Change::new(WHAT, &INSERT_STARTED, row)))
}

impl Store {
    /// Changes whenever there may be new events.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Looks whether another server has written events since, and lets those know who wait for news.
    pub async fn look_for_news(&self, seen: &mut i64) -> Result<(), StoreError> {
        if self.news.receiver_count() == 0 {
            return Ok(());
        }
        let latest = self.latest_event().await?;
        if latest != *seen {
            *seen = latest;
            self.news.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    /// Returns when the change and its event are committed, or neither is.
    pub(crate) async fn write_told(&self, change: Change, event: NewEvent) -> Result<u64, StoreError> {
        match self.later {
            Some(_) => self.write_news(change.and(self::change(&[event]))).await,
            None => self.write(change).await,
        }
    }

    /// The same for a change that has its event in it.
    pub(crate) async fn write_news(&self, change: Change) -> Result<u64, StoreError> {
        let written = self.write(change).await?;
        self.news.send_modify(|count| *count += 1);
        Ok(written)
    }

    /// Stores an event.
    pub async fn add_event(&self, event: &NewEvent) -> Result<(), StoreError> {
        bounds::id("owner", &event.owner)?;
        bounds::id("kind", &event.kind)?;
        bounds::id("subject", &event.subject)?;
        event.body.check("body")?;
        self.write_news(change(std::slice::from_ref(event))).await.map(drop)
    }

    /// Events behind this number, the oldest first: of everybody, or of one owner.
    pub async fn events(
        &self,
        owner: Option<&str>,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let limit = fetch(limit) - 1;
        match owner {
            Some(owner) => self.all(&LIST_OWNER, values![owner, after, limit], read).await,
            None => self.all(&LIST, values![after, limit], read).await,
        }
    }

    /// The number of the newest event; 0 before the first. It does not go back when events are pruned.
    pub async fn latest_event(&self) -> Result<i64, StoreError> {
        let read = |row: &AnyRow| Columns::of(row).next();
        self.one(&LATEST, values![], read).await?.ok_or(StoreError::NotFound { what: WHAT })
    }
}

fn read(row: &AnyRow) -> Result<Event, StoreError> {
    let mut row = Columns::of(row);
    let sequence = row.next()?;
    let event = NewEvent {
        owner: row.next()?,
        kind: row.next()?,
        subject: row.next()?,
        at: row.next()?,
        body: Json::stored(row.next()?),
    };
    Ok(Event { sequence, event })
}
