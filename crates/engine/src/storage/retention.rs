//! Retention: what is old is removed, a piece at a time. A piece is one short change, so whoever writes meanwhile
//! waits for one piece at most.

use super::Store;
use super::bounds;
use super::change::Change;
use super::error::StoreError;
use super::history::read_finished;
use super::objects::ObjectKey;
use super::session::SessionStatus;
use super::statement::{Columns, Statement, Value, values};
use sqlx::any::AnyRow;
use std::time::Duration;

/// How long things are kept after they are over; nothing for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Executions, from when they were asked for.
    pub executions: Option<Duration>,
    /// Events.
    pub events: Option<Duration>,
    /// Idempotency keys.
    pub claims: Option<Duration>,
    /// Sessions that are over, with what is left of them.
    pub sessions: Option<Duration>,
}

/// How much was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Executions.
    pub executions: u64,
    /// Objects of executions.
    pub objects: u64,
    /// Events.
    pub events: u64,
    /// Idempotency keys.
    pub claims: u64,
    /// Sessions.
    pub sessions: u64,
}

/// Rows of a piece.
const PIECE: i64 = 200;
/// An object that belongs to no execution is left alone for this long: its execution may be about to be stored.
const GRACE: Duration = Duration::from_secs(3600);

pub(crate) static OLD_EXECUTIONS: Statement = Statement::new(
    "SELECT id, owner, session_id, language, created_at, '' AS request, status, finished_at, '' AS record, objects \
     FROM executions WHERE id < ? ORDER BY id LIMIT ?",
);
/// Rows of this table are all over, so a range of ids is as good as a list.
static DELETE_EXECUTIONS: Statement = Statement::new("DELETE FROM executions WHERE id >= ? AND id <= ?");
pub(crate) static OLD_EVENTS: Statement =
    Statement::new("SELECT sequence, at FROM events WHERE sequence > ? ORDER BY sequence LIMIT ?");
static DELETE_EVENTS: Statement = Statement::new("DELETE FROM events WHERE sequence <= ?");
pub(crate) static OLD_CLAIMS: Statement =
    Statement::new("SELECT created_at FROM claims WHERE created_at < ? ORDER BY created_at LIMIT ?");
static DELETE_CLAIMS: Statement = Statement::new("DELETE FROM claims WHERE created_at <= ?");

impl Store {
    /// Removes everything that is older than it may be at this moment.
    pub async fn prune(&self, retention: &Retention, now: i64) -> Result<Pruned, StoreError> {
        let mut pruned = Pruned::default();
        if let Some(age) = retention.executions {
            self.prune_executions(before(now, age), &mut pruned).await?;
        }
        if let Some(age) = retention.events {
            pruned.events = self.prune_events(before(now, age)).await?;
        }
        if let Some(age) = retention.claims {
            pruned.claims = self.prune_claims(before(now, age)).await?;
        }
        if let Some(age) = retention.sessions {
            pruned.sessions = self.prune_sessions(before(now, age)).await?;
        }
        Ok(pruned)
    }

    async fn prune_executions(&self, before: i64, pruned: &mut Pruned) -> Result<(), StoreError> {
        let end = bounds::execution_id_at(before);
        loop {
            let rows = self.all(&OLD_EXECUTIONS, values![end.as_str(), PIECE], read_finished).await?;
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
            // Objects first: a row without its objects is pruned again, objects without a row would be forgotten.
            for row in &rows {
                pruned.objects += self.delete_objects(row).await?;
            }
            let range = values![first.submission.id.as_str(), last.submission.id.as_str()];
            pruned.executions += self.write(Change::new("execution", &DELETE_EXECUTIONS, range)).await?;
        }
    }

    async fn prune_events(&self, before: i64) -> Result<u64, StoreError> {
        let read = |row: &AnyRow| {
            let mut row = Columns::of(row);
            Ok((row.next::<i64>()?, row.next::<i64>()?))
        };
        self.pieces(&OLD_EVENTS, &DELETE_EVENTS, i64::MIN, read, |(_, at)| *at < before).await
    }

    async fn prune_claims(&self, before: i64) -> Result<u64, StoreError> {
        let read = |row: &AnyRow| Columns::of(row).next::<i64>().map(|at| (at, at));
        self.pieces(&OLD_CLAIMS, &DELETE_CLAIMS, before, read, |_| true).await
    }

    /// Finds old rows from this bound, and removes those up to the last one.
    async fn pieces(
        &self,
        find: &'static Statement,
        delete: &'static Statement,
        bound: i64,
        read: impl Fn(&AnyRow) -> Result<(i64, i64), StoreError>,
        is_old: impl Fn(&(i64, i64)) -> bool,
    ) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let rows = self.all(find, values![bound, PIECE], &read).await?;
            let Some((last, _)) = rows.iter().take_while(|row| is_old(row)).last() else {
                return Ok(removed);
            };
            removed += self.write(Change::new("row", delete, vec![Value::from(*last)])).await?;
        }
    }

    async fn prune_sessions(&self, before: i64) -> Result<u64, StoreError> {
        let mut removed = 0;
        for status in [SessionStatus::Terminated, SessionStatus::Failed] {
            loop {
                // Whatever is found is removed, so the next piece is again the first.
                let old = self.due_sessions(status, before.saturating_sub(1), None, PIECE as usize).await?;
                for session in &old.items {
                    self.purge_session(session).await?;
                    removed += 1;
                }
                if old.next.is_none() {
                    break;
                }
            }
        }
        Ok(removed)
    }

    /// Removes objects of executions that never came to be, because whoever stored them was killed in between.
    /// Returns how many.
    pub async fn sweep_objects(&self, now: i64) -> Result<u64, StoreError> {
        use futures_util::TryStreamExt;
        let young = bounds::execution_id_at(before(now, GRACE));
        let mut listed = self.objects().list(&ObjectKey::new(&["executions"])?);
        let (mut removed, mut seen) = (0, String::new());
        while let Some(object) = listed.try_next().await? {
            let Some(id) = object.key.segment(1).map(str::to_owned) else { continue };
            if id == seen || id >= young || bounds::execution_id("id", &id).is_err() {
                continue;
            }
            if !self.is_execution(&id).await? {
                removed += self.objects().delete_all(&ObjectKey::new(&["executions", &id])?).await?;
            }
            seen = id;
        }
        Ok(removed)
    }

    async fn is_execution(&self, id: &str) -> Result<bool, StoreError> {
        let exists = |row: &AnyRow| Columns::of(row).next::<String>();
        let unfinished = self.one(&super::history::SELECT_UNFINISHED, values![id], exists).await?;
        Ok(unfinished.is_some() || self.one(&super::history::SELECT, values![id], exists).await?.is_some())
    }
}

fn before(now: i64, age: Duration) -> i64 {
    now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}
