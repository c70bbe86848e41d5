//! Executions. Those that are over are rows that never change, in a table that only grows at its end; those that are
//! not over are few and have a table of their own. So storing a result costs the same however many there are, and
//! what was interrupted is found without looking through history.

use super::change::Change;
use super::claims::{Claim, Claimed};
use super::error::StoreError;
use super::execution::{Attached, ExecutionStatus, Outcome, Progress, StoredExecution, Submission};
use super::json::Json;
use super::objects::ObjectKey;
use super::page::{Cursor, Page, fetch, page};
use super::statement::{Columns, Statement, Value, values};
use super::{Store, bounds};
use sqlx::any::AnyRow;

const WHAT: &str = "execution";
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

pub(crate) static INSERT: Statement = Statement::new(
    "INSERT INTO executions (id, owner, session_id, language, created_at, request, status, finished_at, record, \
     objects) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
);
static SUBMIT: Statement = Statement::new(
    "INSERT INTO unfinished_executions (id, owner, session_id, language, created_at, request, status, node, \
     attempts, started_at) VALUES (?, ?, ?, ?, ?, ?, 'pending', NULL, 0, NULL)",
);
static BEGIN: Statement = Statement::new(
    "UPDATE unfinished_executions SET status = 'running', node = ?, started_at = ?, attempts = attempts + 1 \
     WHERE id = ? AND status IN ('pending', 'crashed')",
);
static CRASH: Statement =
    Statement::new("UPDATE unfinished_executions SET status = 'crashed' WHERE id = ? AND status = 'running'");
static OVER: Statement = Statement::new("DELETE FROM unfinished_executions WHERE id = ?");
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

/// Sorts behind every id.
const END: &str = "~";

impl Store {
    /// Stores an execution that is over and was not stored before: the short way, one row. When it returns, the
    /// result outlives this process.
    pub async fn record(&self, submission: &Submission, outcome: &Outcome) -> Result<(), StoreError> {
        let insert = self.insert(submission, outcome).await?;
        self.write(insert).await.map(drop)
    }

    /// Stores an execution that is to be run, with its claim if it has one.
    pub async fn submit(
        &self,
        submission: &Submission,
        claim: Option<&Claim>,
    ) -> Result<Claimed, StoreError> {
        submission.check()?;
        let change = Change::new(WHAT, &SUBMIT, asked(submission));
        match claim {
            Some(claim) => self.claimed(claim, self.write(claim.change().and(change)).await).await,
            None => self.write(change).await.map(|_| Claimed::Won),
        }
    }

    /// Notes that a submitted execution, or one that crashed, runs now. A conflict if it does already or is over.
    pub async fn begin(&self, id: &str, node: &str, at: i64) -> Result<(), StoreError> {
        bounds::id("node", node)?;
        let other = StoreError::Conflict { what: WHAT, why: "does not wait to be run" };
        self.write(Change::new(WHAT, &BEGIN, values![node, at, id]).or(other)).await.map(drop)
    }

    /// Notes that a running execution was interrupted.
    pub async fn crash(&self, id: &str) -> Result<(), StoreError> {
        let other = StoreError::Conflict { what: WHAT, why: "does not run" };
        self.write(Change::new(WHAT, &CRASH, values![id]).or(other)).await.map(drop)
    }

    /// Stores the outcome of a submitted execution. A conflict if it has one already, which is then the one that
    /// counts.
    pub async fn finish(&self, submission: &Submission, outcome: &Outcome) -> Result<(), StoreError> {
        let insert = self.insert(submission, outcome).await?;
        let over = StoreError::Conflict { what: WHAT, why: "is over already" };
        let change = Change::new(WHAT, &OVER, values![submission.id.as_str()]).or(over).and(insert);
        self.write(change).await.map(drop)
    }

    async fn insert(&self, submission: &Submission, outcome: &Outcome) -> Result<Change, StoreError> {
        submission.check()?;
        outcome.record.check("record")?;
        if !outcome.status.is_terminal() {
            return Err(StoreError::Invalid { field: "status", message: "is not the end of an execution" });
        }
        // Before the row, so that what a row names is always there.
        let mut attached = Vec::new();
        for attachment in &outcome.objects {
            let key = ObjectKey::new(&["executions", &submission.id, &attachment.name])?;
            let stored = self.objects().put_bytes(&key, attachment.content.to_vec()).await?;
            attached.push(Attached {
                name: attachment.name.clone(),
                size: stored.size,
                sha256: stored.sha256,
            });
        }
        let objects =
            if attached.is_empty() { Value::Text(None) } else { Value::from(&Json::of(&attached)?) };
        let mut row = asked(submission);
        row.extend(values![outcome.status, outcome.finished_at, &outcome.record]);
        row.push(objects);
        Ok(Change::new(WHAT, &INSERT, row))
    }

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
        let unfinished = self.all(first, values.clone(), read_unfinished).await?;
        let mut rows = self.all(second, values, read_finished).await?;
        rows.extend(unfinished);
        // One that was over between the two is in both; the sort is stable, so its outcome comes first.
        rows.sort_by(|a, b| b.submission.id.cmp(&a.submission.id));
        rows.dedup_by(|later, kept| later.submission.id == kept.submission.id);
        Ok(page(rows, limit, |row| Cursor::behind(&row.submission.id)))
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

fn asked(submission: &Submission) -> Vec<Value> {
    let Submission { id, owner, session_id, language, created_at, request } = submission;
    values![id.as_str(), owner.as_str(), session_id.clone(), language.as_str(), *created_at, request]
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
