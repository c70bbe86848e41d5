//! Executions as they are stored. Those that are over are rows that never change, in a table that only grows at its end; those that are
//! not over are few and have a table of their own. So storing a result costs the same however many there are, and
//! what was interrupted is found without looking through history.

use super::change::Change;
use super::claims::{Claim, Claimed};
use super::error::StoreError;
use super::events::{EXECUTION_FINISHED, EXECUTION_SUBMITTED, NewEvent, started};
use super::execution::{Attached, Outcome, Submission};
use super::json::Json;
use super::objects::ObjectKey;
use super::statement::{Statement, Value, values};
use super::{Store, bounds};
use serde_json::json;

pub(crate) const WHAT: &str = "execution";

static INSERT: Statement = Statement::new(
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
pub(crate) static OVER: Statement = Statement::new("DELETE FROM unfinished_executions WHERE id = ?");
impl Store {
    /// Stores an execution that is over and was not stored before: the short way, one row. When it returns, the
    /// result outlives this process.
    pub async fn record(&self, submission: &Submission, outcome: &Outcome) -> Result<(), StoreError> {
        let insert = self.insert(submission, outcome).await?;
        self.write(insert).await?;
        if let Some(later) = &self.later {
            later.tell(finished(submission, outcome)?).await;
        }
        Ok(())
    }

    /// Stores an execution that is to be run, with its claim if it has one.
    pub async fn submit(
        &self,
        submission: &Submission,
        claim: Option<&Claim>,
    ) -> Result<Claimed, StoreError> {
        submission.check()?;
        let change = Change::new(WHAT, &SUBMIT, asked(submission));
        let event = told(EXECUTION_SUBMITTED, submission, "pending", submission.created_at)?;
        match claim {
            Some(claim) => {
                let written = self.write_told(claim.change().and(change), event).await;
                self.claimed(claim, written).await
            }
            None => self.write_told(change, event).await.map(|_| Claimed::Won),
        }
    }

    /// Notes that a submitted execution, or one that crashed, runs now. A conflict if it does already or is over.
    pub async fn begin(&self, id: &str, node: &str, at: i64) -> Result<(), StoreError> {
        bounds::id("node", node)?;
        let other = StoreError::Conflict { what: WHAT, why: "does not wait to be run" };
        let change = Change::new(WHAT, &BEGIN, values![node, at, id]).or(other);
        let written = match self.later {
            Some(_) => self.write_news(change.and(started(id, at)?)).await,
            None => self.write(change).await,
        };
        written.map(drop)
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
        self.write_told(change, finished(submission, outcome)?).await.map(drop)
    }

    async fn insert(&self, submission: &Submission, outcome: &Outcome) -> Result<Change, StoreError> {
        submission.check()?;
        outcome.record.check_within("record", bounds::MAX_RECORD)?;
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
}

fn finished(submission: &Submission, outcome: &Outcome) -> Result<NewEvent, StoreError> {
    told(EXECUTION_FINISHED, submission, outcome.status.word(), outcome.finished_at)
}

/// What is told of an execution: never what it ran, and never what it wrote.
fn told(kind: &str, submission: &Submission, status: &str, at: i64) -> Result<NewEvent, StoreError> {
    let Submission { id, owner, session_id, language, .. } = submission;
    let body = json!({"status": status, "language": language, "session_id": session_id});
    NewEvent::of(kind, owner, id, at, &body)
}

fn asked(submission: &Submission) -> Vec<Value> {
    let Submission { id, owner, session_id, language, created_at, request } = submission;
    values![id.as_str(), owner.as_str(), session_id.clone(), language.as_str(), *created_at, request]
}
