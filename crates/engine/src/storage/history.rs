//! Executions as they are found: one, a list of them, and how they are removed. Those that are over and those that are
//! not are one list.

use super::Store;
use super::change::Change;
use super::error::StoreError;
use super::execution::{ExecutionStatus, Progress, StoredExecution, Submission};
use super::executions::{OVER, WHAT};
use super::json::Json;
use super::objects::{Content, ObjectKey};
use super::page::{Cursor, MOST_COUNTED, Page, fetch, page};
use super::statement::{Columns, Statement, Value, values};
use futures_util::TryStreamExt;
use sqlx::any::AnyRow;
use std::ops::Range;

const MISSING: StoreError = StoreError::NotFound { what: WHAT };

macro_rules! finished {
    ($rest:literal) => {
        Statement::new(concat!(
            "SELECT id, owner, session_id, language, created_at, request, status, finished_at, record, objects \
             FROM executions ",
            $rest
        ))
    };
}
macro_rules! unfinished {
    ($rest:literal) => {
        Statement::new(concat!(
            "SELECT id, owner, session_id, language, created_at, request, status, node, attempts, started_at \
             FROM unfinished_executions ",
            $rest
        ))
    };
}

pub(crate) static SELECT: Statement = finished!("WHERE id = ?");
pub(crate) static SELECT_UNFINISHED: Statement = unfinished!("WHERE id = ?");
pub(crate) static LIST: Statement = finished!("WHERE owner = ? AND id < ? ORDER BY id DESC LIMIT ?");
pub(crate) static LIST_UNFINISHED: Statement =
    unfinished!("WHERE owner = ? AND id < ? ORDER BY id DESC LIMIT ?");
pub(crate) static OF_SESSION: Statement =
    finished!("WHERE owner = ? AND session_id = ? AND id < ? ORDER BY id DESC LIMIT ?");
pub(crate) static OF_SESSION_UNFINISHED: Statement =
    unfinished!("WHERE owner = ? AND session_id = ? AND id < ? ORDER BY id DESC LIMIT ?");
pub(crate) static ALL_UNFINISHED: Statement = unfinished!("WHERE id > ? ORDER BY id LIMIT ?");
static DELETE: Statement = Statement::new("DELETE FROM executions WHERE id = ?");
pub(crate) static COUNT: Statement = Statement::new(
    "SELECT COUNT(*) FROM (SELECT id FROM executions WHERE owner = ? AND id < ? ORDER BY id DESC LIMIT ?) AS found",
);
/// By a column that only one index leads to: MariaDB would take another one, and sort.
pub(crate) static COUNT_UNFINISHED: Statement = Statement::new(
    "SELECT COUNT(*) FROM (SELECT created_at FROM unfinished_executions WHERE owner = ? AND id < ? \
     ORDER BY id DESC LIMIT ?) AS found",
);
pub(crate) static COUNT_OF_SESSION: Statement = Statement::new(
    "SELECT COUNT(*) FROM (SELECT id FROM executions WHERE owner = ? AND session_id = ? AND id < ? \
     LIMIT ?) AS found",
);
pub(crate) static COUNT_OF_SESSION_UNFINISHED: Statement = Statement::new(
    "SELECT COUNT(*) FROM (SELECT id FROM unfinished_executions WHERE owner = ? AND session_id = ? AND id < ? \
     LIMIT ?) AS found",
);

/// A page of executions ends early when it holds this much: a thousand of the longest would not fit into memory.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// Rows of a list.
struct Piece {
    rows: Vec<StoredExecution>,
    /// The last one that was read, if there may be more.
    cut: Option<String>,
}

/// Sorts behind every id.
const END: &str = "~";

impl Store {
    /// One execution of this owner.
    pub async fn execution(&self, owner: &str, id: &str) -> Result<StoredExecution, StoreError> {
        // Most are over. One that is not may be by the time we have looked for it among those that are not.
        let mut found = self.one(&SELECT, values![id], read_finished).await?;
        if found.is_none() {
            found = self.one(&SELECT_UNFINISHED, values![id], read_unfinished).await?;
        }
        if found.is_none() {
            found = self.one(&SELECT, values![id], read_finished).await?;
        }
        found.filter(|found| found.submission.owner == owner).ok_or(MISSING)
    }

    /// Executions of this owner, or of one of its sessions, the newest first.
    pub async fn executions(
        &self,
        owner: &str,
        session: Option<&str>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<StoredExecution>, StoreError> {
        let after = after.map_or(END, Cursor::as_str);
        let (first, second, values) = match session {
            Some(session) => {
                (&OF_SESSION_UNFINISHED, &OF_SESSION, values![owner, session, after, fetch(limit)])
            }
            None => (&LIST_UNFINISHED, &LIST, values![owner, after, fetch(limit)]),
        };
        let mut list = self.some(first, values.clone(), read_unfinished).await?;
        let finished = self.some(second, values, read_finished).await?;
        // What was not read of one list may belong between what was read of the other.
        let end = list.cut.iter().chain(&finished.cut).max().cloned();
        list.rows.splice(0..0, finished.rows);
        list.rows.retain(|row| end.as_ref().is_none_or(|end| row.submission.id >= *end));
        // One that was over between the two is in both; the sort is stable, so its outcome comes first.
        list.rows.sort_by(|a, b| b.submission.id.cmp(&a.submission.id));
        list.rows.dedup_by(|later, kept| later.submission.id == kept.submission.id);
        let mut page = page(list.rows, limit, |row| Cursor::behind(&row.submission.id));
        page.next = page.next.or(end.map(Cursor::behind));
        Ok(page)
    }

    /// How many executions this owner has, or one of its sessions, up to [`MOST_COUNTED`].
    pub async fn count_executions(&self, owner: &str, session: Option<&str>) -> Result<i64, StoreError> {
        let (first, second, values) = match session {
            Some(session) => {
                (&COUNT_OF_SESSION_UNFINISHED, &COUNT_OF_SESSION, values![owner, session, END, MOST_COUNTED])
            }
            None => (&COUNT_UNFINISHED, &COUNT, values![owner, END, MOST_COUNTED]),
        };
        let read = |row: &AnyRow| Columns::of(row).next::<i64>();
        let unfinished = self.one(first, values.clone(), read).await?.unwrap_or(0);
        let finished = self.one(second, values, read).await?.unwrap_or(0);
        Ok((unfinished + finished).min(MOST_COUNTED))
    }

    /// Rows, but no more than fit into memory.
    async fn some(
        &self,
        statement: &'static Statement,
        values: Vec<Value>,
        read: impl Fn(&AnyRow) -> Result<StoredExecution, StoreError>,
    ) -> Result<Piece, StoreError> {
        let mut found = statement.with(self.dialect, &values).fetch(&self.readers);
        let (mut rows, mut size) = (Vec::new(), 0);
        while let Some(row) = found.try_next().await? {
            let row = read(&row)?;
            size += row.size();
            rows.push(row);
            if size > PAGE_BYTES {
                return Ok(Piece { cut: rows.last().map(|row| row.submission.id.clone()), rows });
            }
        }
        Ok(Piece { rows, cut: None })
    }

    /// The content of something that is kept as an object of an execution, or a range of its bytes.
    pub async fn attachment(
        &self,
        execution: &StoredExecution,
        name: &str,
        range: Option<Range<u64>>,
    ) -> Result<Content, StoreError> {
        self.objects().get(&ObjectKey::new(&["executions", &execution.submission.id, name])?, range).await
    }

    /// Everything that is not over, of every owner, the oldest first: what is looked through when a server starts.
    pub async fn unfinished(
        &self,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<StoredExecution>, StoreError> {
        let after = after.map_or("", Cursor::as_str);
        let rows = self.all(&ALL_UNFINISHED, values![after, fetch(limit)], read_unfinished).await?;
        Ok(page(rows, limit, |row| Cursor::behind(&row.submission.id)))
    }

    /// Removes the executions of a session and their objects, a piece at a time.
    pub(crate) async fn purge_executions(&self, owner: &str, session: &str) -> Result<(), StoreError> {
        loop {
            let page = self.executions(owner, Some(session), None, 100).await?;
            for row in &page.items {
                self.delete_objects(row).await?;
                let id = values![row.submission.id.as_str()];
                let change = Change::new(WHAT, &OVER, id.clone()).and(Change::new(WHAT, &DELETE, id));
                self.write(change).await?;
            }
            if page.next.is_none() {
                return Ok(());
            }
        }
    }

    /// Removes the objects of an execution; its row is to be removed afterwards.
    pub(crate) async fn delete_objects(&self, execution: &StoredExecution) -> Result<u64, StoreError> {
        match &execution.progress {
            Progress::Finished { objects, .. } if !objects.is_empty() => {
                self.objects().delete_all(&ObjectKey::new(&["executions", &execution.submission.id])?).await
            }
            _ => Ok(0),
        }
    }
}

fn read_submission(row: &mut Columns<'_>) -> Result<Submission, StoreError> {
    Ok(Submission {
        id: row.next()?,
        owner: row.next()?,
        session_id: row.next()?,
        language: row.next()?,
        created_at: row.next()?,
        request: Json::stored(row.next()?),
    })
}

pub(crate) fn read_finished(row: &AnyRow) -> Result<StoredExecution, StoreError> {
    let mut row = Columns::of(row);
    let submission = read_submission(&mut row)?;
    let status: ExecutionStatus = row.word()?;
    let (finished_at, record) = (row.next()?, Json::stored(row.next()?));
    let objects = row.next::<Option<String>>()?.map(|text| Json::stored(text).read()).transpose()?;
    let objects = objects.unwrap_or_default();
    Ok(StoredExecution { submission, status, progress: Progress::Finished { finished_at, record, objects } })
}

fn read_unfinished(row: &AnyRow) -> Result<StoredExecution, StoreError> {
    let mut row = Columns::of(row);
    let submission = read_submission(&mut row)?;
    let status = row.word()?;
    let progress = Progress::Unfinished { node: row.next()?, attempts: row.next()?, started_at: row.next()? };
    Ok(StoredExecution { submission, status, progress })
}
