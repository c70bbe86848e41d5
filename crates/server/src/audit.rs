//! The audit log: who did what, in lines of JSON that cannot be changed unnoticed.
//!
//! Each line carries the hash of the one before it, and its own. One task writes; whoever has something to note hands
//! it over and goes on ([`Audit::note`]), or waits until it is on disk ([`Audit::record`]). When a file is full it is
//! put aside and the chain goes on in the next one.

mod chain;
mod files;
mod writer;

pub use chain::{Line, Verified, verify};

use crate::Caller;
use crate::ServerError;
use chain::cut;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};
use writer::{Order, Writer};

/// How many notes may wait for the disk.
const QUEUE: usize = 1024;
/// Refusals that are noted in a minute; more are counted.
const REFUSALS: NonZeroU32 = NonZeroU32::new(60).unwrap();

/// Why nothing can be noted, or what is noted cannot be believed.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The disk, mostly.
    #[error("the audit log `{path}` cannot be used: {error}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A line is not what was written.
    #[error("the audit log `{path}` is damaged in line {line}: {why}")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What does not fit.
        why: &'static str,
    },
    /// The task that writes is gone.
    #[error("the audit log is closed")]
    Closed,
}

/// Something that was done, or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whose things it was about.
    pub tenant: String,
    /// Who did it.
    pub key_id: String,
    /// What was done, such as `key.create`.
    pub action: &'static str,
    /// What it was done to.
    pub subject: String,
    /// Of the request.
    pub request_id: String,
    /// What came of it.
    pub outcome: Outcome,
    /// More about it.
    pub detail: Option<String>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not allowed.
    Refused,
    /// It was tried and did not work.
    Failed,
}

impl Note {
    /// That a caller has done something.
    pub fn of(caller: &Caller, action: &'static str, subject: &str, request_id: &str) -> Note {
        Note {
            tenant: caller.tenant.to_string(),
            key_id: caller.key_id.to_string(),
            action,
            subject: cut(subject),
            request_id: cut(request_id),
            outcome: Outcome::Done,
            detail: None,
        }
    }

    /// About something of another tenant's.
    pub fn of_tenant(mut self, tenant: &str) -> Note {
        self.tenant = cut(tenant);
        self
    }

    /// With more about it.
    pub fn detail(mut self, detail: &str) -> Note {
        self.detail = Some(cut(detail));
        self
    }

    /// With what came of it.
    pub fn outcome(mut self, outcome: Outcome) -> Note {
        self.outcome = outcome;
        self
    }
}

/// The audit log, or none. Copies write to the same one.
#[derive(Clone)]
pub struct Audit(Option<Arc<Inner>>);

struct Inner {
    directory: PathBuf,
    orders: mpsc::Sender<Order>,
    lost: Arc<AtomicU64>,
    refusals: DefaultDirectRateLimiter,
    unnoted: AtomicU64,
}

impl Audit {
    /// Goes on with the log in this directory. Refuses to if its last line is not what was written.
    pub(crate) fn open(directory: &Path, file_bytes: u64, keep: usize) -> Result<Audit, ServerError> {
        let lost = Arc::<AtomicU64>::default();
        let writer = Writer::open(directory, file_bytes, keep, lost.clone())?;
        let (orders, queue) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new().name("audit".into());
        let started = thread.spawn(move || writer.run(queue));
        started.map_err(|error| writer::failed(directory, error))?;
        Ok(Audit(Some(Arc::new(Inner {
            directory: directory.to_owned(),
            orders,
            lost,
            refusals: RateLimiter::direct(Quota::per_minute(REFUSALS)),
            unnoted: AtomicU64::new(0),
        }))))
    }

    /// None, because the operator wants none.
    pub(crate) fn off() -> Audit {
        Audit(None)
    }

    /// Notes something, soon. Where the disk does not keep up it is lost, and the log says how many were.
    pub fn note(&self, note: Note) {
        let Some(inner) = &self.0 else { return };
        if inner.orders.try_send(Order::Write(note, None)).is_err() {
            inner.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes something, and returns when it is on disk.
    pub async fn record(&self, note: Note) -> Result<(), AuditError> {
        let Some(inner) = &self.0 else { return Ok(()) };
        let (done, written) = oneshot::channel();
        inner.orders.send(Order::Write(note, Some(done))).await.map_err(|_| AuditError::Closed)?;
        written.await.map_err(|_| AuditError::Closed)?
    }

    /// Notes that somebody was refused. They can ask as often as they like, so only so many are noted.
    pub fn refusal(&self, note: Note) {
        let Some(inner) = &self.0 else { return };
        if inner.refusals.check().is_err() {
            inner.unnoted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let more = inner.unnoted.swap(0, Ordering::Relaxed);
        let note = note.outcome(Outcome::Refused);
        let from = note.detail.clone().unwrap_or_default();
        self.note(if more > 0 { note.detail(&format!("{from}, and {more} more before it")) } else { note });
    }

    /// Up to `limit` lines behind this number: all, or those of one tenant.
    pub async fn read(
        &self,
        after: u64,
        tenant: Option<String>,
        limit: usize,
    ) -> Result<Vec<Line>, AuditError> {
        let Some(inner) = &self.0 else { return Ok(Vec::new()) };
        let directory = inner.directory.clone();
        let read = move || files::read(&directory, after, tenant.as_deref(), limit);
        tokio::task::spawn_blocking(read).await.map_err(|_| AuditError::Closed)?
    }

    /// Writes what was handed over. Afterwards nothing is written any more.
    pub(crate) async fn close(&self) {
        let Some(inner) = &self.0 else { return };
        let (done, closed) = oneshot::channel();
        if inner.orders.send(Order::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
    }
}
