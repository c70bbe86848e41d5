//! Lifecycle events in the order they were committed. Their numbers grow without ever going back, so that whoever has
//! seen one can ask for what came after it and misses nothing.
//!
//! The number is taken from a row that stays locked until the event is committed: what has a smaller number is visible
//! before what has a greater one, however many servers write.

use super::change::Change;
use super::error::StoreError;
use super::json::Json;
use super::page::fetch;
use super::statement::{Columns, Statement, values};
use super::{Store, bounds};
use sqlx::any::AnyRow;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Who may see it.
    pub owner: String,
    /// What kind of thing, such as `session.ready`.
    pub kind: String,
    /// What it happened to.
    pub subject: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// More about it.
    pub body: Json,
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

static NEXT: Statement = Statement::new("UPDATE counters SET value = value + 1 WHERE name = 'events'");
static INSERT: Statement = Statement::new(
    "INSERT INTO events (sequence, owner, kind, subject, at, body) \
     SELECT value, ?, ?, ?, ?, ? FROM counters WHERE name = 'events'",
);
pub(crate) static LIST: Statement = Statement::new(
    "SELECT sequence, owner, kind, subject, at, body FROM events WHERE sequence > ? ORDER BY sequence LIMIT ?",
);
pub(crate) static LIST_OWNER: Statement = Statement::new(
    "SELECT sequence, owner, kind, subject, at, body FROM events WHERE owner = ? AND sequence > ? \
     ORDER BY sequence LIMIT ?",
);
pub(crate) static LATEST: Statement = Statement::new("SELECT value FROM counters WHERE name = 'events'");

impl Store {
    /// Stores an event.
    pub async fn add_event(&self, event: &NewEvent) -> Result<(), StoreError> {
        bounds::id("owner", &event.owner)?;
        bounds::id("kind", &event.kind)?;
        bounds::id("subject", &event.subject)?;
        event.body.check("body")?;
        let e = event.clone();
        let row = values![e.owner, e.kind, e.subject, e.at, &e.body];
        let change = Change::new(WHAT, &NEXT, values![]).and(Change::new(WHAT, &INSERT, row));
        self.write(change).await.map(drop)
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
