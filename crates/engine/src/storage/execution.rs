//! What an execution is, as it is stored: what was asked for, and what came of it.

use super::bounds::{self, MAX_RECORD};
use super::error::StoreError;
use super::json::Json;
use super::statement::words;
use crate::{ArtifactRecord, Execution, Status, Text};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

words! {
    /// Where an execution is in its life.
    ExecutionStatus {
        /// It waits for its turn.
        Pending = "pending",
        /// It runs.
        Running = "running",
        /// What ran it is gone, and nobody knows how far it got. It may be tried again.
        Crashed = "crashed",
        /// It ended with success.
        Completed = "completed",
        /// It ended otherwise.
        Failed = "failed",
        /// Its time was up.
        Timeout = "timeout",
    }
}

impl ExecutionStatus {
    /// Whether nothing comes after it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, ExecutionStatus::Completed | ExecutionStatus::Failed | ExecutionStatus::Timeout)
    }

    /// Whether this may follow at once.
    pub const fn may_become(self, next: ExecutionStatus) -> bool {
        use ExecutionStatus::*;
        match self {
            // What never ran can still fail: it is cancelled, or its sandbox cannot be made.
            Pending => matches!(next, Running | Failed),
            Running => matches!(next, Completed | Failed | Timeout | Crashed),
            Crashed => matches!(next, Running | Failed),
            Completed | Failed | Timeout => false,
        }
    }
}

impl From<Status> for ExecutionStatus {
    fn from(status: Status) -> ExecutionStatus {
        match status {
            Status::Success => ExecutionStatus::Completed,
            Status::TimedOut => ExecutionStatus::Timeout,
            _ => ExecutionStatus::Failed,
        }
    }
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Sorts by time, see [`Execution::execution_id`].
    pub id: String,
    /// Whose it is.
    pub owner: String,
    /// The session it runs in; none for a run in a sandbox of its own.
    pub session_id: Option<String>,
    /// Language, as the catalogue names it.
    pub language: String,
    /// When it was asked for, in milliseconds since 1970.
    pub created_at: i64,
    /// What is needed to answer questions about it, and to try it again.
    pub request: Json,
}

impl Submission {
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        bounds::execution_id("id", &self.id)?;
        bounds::id("owner", &self.owner)?;
        self.session_id.as_deref().map_or(Ok(()), |session| bounds::id("session_id", session))?;
        bounds::id("language", &self.language)?;
        self.request.check_within("request", MAX_RECORD)
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: ExecutionStatus,
    /// When.
    pub finished_at: i64,
    /// The record. Output that became an object is empty in it.
    pub record: Json,
    /// What is kept as objects: long output, and artifacts with content.
    pub objects: Vec<Attachment>,
}

/// Something that is kept as an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// `stdout`, `stderr`, or `artifact-` and its place in the list of the record.
    pub name: String,
    /// Its content.
    pub content: Arc<Vec<u8>>,
}

/// An attachment that is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// As in [`Attachment`].
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// Hash of its content.
    pub sha256: String,
}

/// An execution that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredExecution {
    /// What was asked for.
    pub submission: Submission,
    /// Where it is in its life.
    pub status: ExecutionStatus,
    /// What came of it, or how far it got.
    pub progress: Progress,
}

impl StoredExecution {
    /// About how much of it is in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        let record = match &self.progress {
            Progress::Finished { record, .. } => record.as_str().len(),
            Progress::Unfinished { .. } => 0,
        };
        self.submission.request.as_str().len() + record
    }
}

/// How far an execution got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is not over.
    Unfinished {
        /// The node that has it.
        node: Option<String>,
        /// How often it was begun.
        attempts: i64,
        /// When it was begun last.
        started_at: Option<i64>,
    },
    /// It is over.
    Finished {
        /// When.
        finished_at: i64,
        /// The record.
        record: Json,
        /// What is kept as objects.
        objects: Vec<Attached>,
    },
}

impl Outcome {
    /// Of the record of a run. More output than `inline` bytes goes into objects of its own.
    pub fn of(execution: &Execution, finished_at: i64, inline: usize) -> Result<Outcome, StoreError> {
        let mut objects = Vec::new();
        for (name, text) in [("stdout", &execution.stdout), ("stderr", &execution.stderr)] {
            let content = text.bytes();
            if content.len() > inline {
                objects.push(Attachment { name: name.to_owned(), content });
            }
        }
        // Writing it as it is costs least, and is what nearly always happens.
        let record =
            if objects.is_empty() { Json::of(execution)? } else { Json::of(&brief(execution, inline))? };
        for (index, artifact) in execution.artifacts.iter().enumerate() {
            if let Some(content) = &artifact.content {
                let content = Arc::new(content.clone());
                objects.push(Attachment { name: format!("artifact-{index}"), content });
            }
        }
        Ok(Outcome { status: execution.status.into(), finished_at, record, objects })
    }
}

/// The record without the output that is too long for it.
fn brief(execution: &Execution, inline: usize) -> Execution {
    let short = |text: &Text| if text.bytes().len() > inline { Text::default() } else { text.clone() };
    let (stdout, stderr) = (short(&execution.stdout), short(&execution.stderr));
    let bare = |artifact: &ArtifactRecord| ArtifactRecord {
        path: artifact.path.clone(),
        size: artifact.size,
        sha256: artifact.sha256.clone(),
        mime: artifact.mime.clone(),
        content: None,
        executable: artifact.executable,
    };
    Execution {
        execution_id: execution.execution_id.clone(),
        status: execution.status,
        start: execution.start,
        exit_code: execution.exit_code,
        signal: execution.signal,
        stdout_base64: execution.stdout_base64.clone().filter(|_| stdout == execution.stdout),
        stderr_base64: execution.stderr_base64.clone().filter(|_| stderr == execution.stderr),
        stdout,
        stderr,
        stdout_truncated: execution.stdout_truncated,
        stderr_truncated: execution.stderr_truncated,
        return_value: execution.return_value.clone(),
        return_value_set: execution.return_value_set,
        metrics: execution.metrics,
        artifacts: execution.artifacts.iter().map(bare).collect(),
        artifacts_truncated: execution.artifacts_truncated,
        isolation: execution.isolation.clone(),
        error: execution.error.clone(),
        language: execution.language.clone(),
        started_at: execution.started_at.clone(),
        finished_at: execution.finished_at.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::text;
    use crate::{Metrics, Receipt, Start};

    fn execution(stdout: &[u8], stderr: &[u8]) -> Execution {
        let ((stdout, stdout_base64), (stderr, stderr_base64)) =
            (text(stdout.to_vec(), false), text(stderr.to_vec(), false));
        Execution {
            execution_id: "exec_x".into(),
            status: Status::Success,
            start: Start::Cold,
            exit_code: Some(0),
            signal: None,
            stdout,
            stderr,
            stdout_base64,
            stderr_base64,
            stdout_truncated: false,
            stderr_truncated: false,
            return_value: None,
            return_value_set: false,
            metrics: Metrics::default(),
            artifacts: Vec::new(),
            artifacts_truncated: false,
            isolation: Receipt::none(),
            error: None,
            language: "python".into(),
            started_at: String::new(),
            finished_at: String::new(),
        }
    }

    #[test]
    fn short_output_stays_in_the_record() {
        let execution = execution(b"out\0\xff", b"err");
        let outcome = Outcome::of(&execution, 1, 5).unwrap();
        assert_eq!(outcome.record, Json::of(&execution).unwrap());
        assert!(outcome.objects.is_empty());
    }

    #[test]
    fn long_output_becomes_an_object_with_its_exact_bytes() {
        let long = execution(b"\xff123456", b"err");
        let outcome = Outcome::of(&long, 1, 6).unwrap();
        assert_eq!(outcome.objects.len(), 1);
        assert_eq!(
            (outcome.objects[0].name.as_str(), &**outcome.objects[0].content),
            ("stdout", &b"\xff123456"[..])
        );
        let short = execution(b"", b"err");
        assert_eq!(outcome.record, Json::of(&short).unwrap(), "the rest of the record is as it was");
    }

    #[test]
    fn what_is_over_stays_over() {
        for status in ExecutionStatus::ALL {
            let goes_on = ExecutionStatus::ALL.iter().any(|next| status.may_become(*next));
            assert_eq!(goes_on, !status.is_terminal(), "{status:?}");
        }
    }
}
