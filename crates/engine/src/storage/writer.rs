//! Whoever writes. Everything that waits is written in one transaction, and each caller is told when its own change
//! is committed.
//!
//! Where one change of a transaction fails, each is done by itself, so that nobody fails for somebody else. A file has
//! one lane, because it takes one writer; a server has several. A lane knows no tables.
//!
//! Where the database is a file and nobody writes, whoever has one small change writes it in place.

use super::change::{Change, Failure, run_all};
use super::connect;
use super::error::{StoreError, Trouble};
use super::in_place::InPlace;
use super::url::{DatabaseUrl, Dialect};
use sqlx::{AnyConnection, Connection};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc, oneshot, watch};

/// Changes that may wait in a lane before callers wait to hand theirs in.
const QUEUE: usize = 1024;
/// Changes of one transaction.
const TOGETHER: usize = 256;
/// How often a change that met somebody else's is tried.
const TRIES: u32 = 5;
/// How long a transaction may take, and with it how long a silent server goes unnoticed.
const DEADLINE: Duration = Duration::from_secs(30);
/// A connection that was idle for longer is asked whether it is still there.
const STALE: Duration = Duration::from_secs(1);

struct Job {
    change: Change,
    /// Told how many rows were changed.
    answer: oneshot::Sender<Result<u64, StoreError>>,
}

/// Where changes are handed in.
pub(crate) struct Writer {
    lanes: Vec<mpsc::Sender<Job>>,
    next: AtomicUsize,
    stop: watch::Sender<bool>,
    pen: Arc<Pen>,
}

/// Whoever has it writes to the file; nobody needs it for a server. It is empty when storage is shut down.
type Pen = Mutex<Option<InPlace>>;

impl Writer {
    /// Starts this many lanes, with a connection each.
    pub(crate) async fn start(url: &DatabaseUrl, lanes: usize) -> Result<Writer, StoreError> {
        let (stop, stopped) = watch::channel(false);
        let mut senders = Vec::new();
        let pen = Arc::new(Mutex::new(InPlace::open(url)?));
        for _ in 0..lanes {
            let (sender, jobs) = mpsc::channel(QUEUE);
            let connection = Some(connect::writer(url).await?);
            let (url, dialect, pen) = (url.clone(), url.dialect(), pen.clone());
            let lane = Lane { url, dialect, connection, used: Instant::now(), pen };
            tokio::spawn(lane.run(jobs, stopped.clone()));
            senders.push(sender);
        }
        Ok(Writer { lanes: senders, next: AtomicUsize::new(0), stop, pen })
    }

    /// Returns when the change is committed, with the number of rows it changed. A caller that does not wait for it
    /// does not undo it.
    pub(crate) async fn write(&self, change: Change) -> Result<u64, StoreError> {
        let written = || self.pen.try_lock().ok()?.as_ref()?.write(&change);
        if let Some(outcome) = written() {
            return outcome;
        }
        let (answer, told) = oneshot::channel();
        let lane = &self.lanes[self.next.fetch_add(1, Ordering::Relaxed) % self.lanes.len()];
        let closed = || StoreError::unavailable("storage is shut down");
        lane.send(Job { change, answer }).await.map_err(|_| closed())?;
        told.await.map_err(|_| closed())?
    }

    /// Takes no more changes, and returns when those handed in are written.
    pub(crate) async fn close(&self) {
        self.pen.lock().await.take();
        self.stop.send_replace(true);
        for lane in &self.lanes {
            lane.closed().await;
        }
        // Lanes let go of this when their connections are closed.
        self.stop.closed().await;
    }
}

struct Lane {
    url: DatabaseUrl,
    dialect: Dialect,
    connection: Option<AnyConnection>,
    used: Instant,
    pen: Arc<Pen>,
}

impl Lane {
    async fn run(mut self, mut jobs: mpsc::Receiver<Job>, mut stopped: watch::Receiver<bool>) {
        let mut batch = Vec::new();
        loop {
            let received = tokio::select! {
                biased;
                received = jobs.recv_many(&mut batch, TOGETHER) => received,
                Ok(()) = stopped.changed() => { jobs.close(); continue }
            };
            if received == 0 {
                break;
            }
            let batch = std::mem::take(&mut batch);
            match self.dialect {
                Dialect::Sqlite => {
                    let pen = self.pen.clone();
                    let _writes = pen.lock().await;
                    self.serve(batch).await;
                }
                Dialect::MySql | Dialect::Postgres => self.serve(batch).await,
            }
        }
        if let Some(connection) = self.connection.take() {
            // What is committed is committed, however this ends.
            drop(connection.close().await);
        }
    }

    async fn serve(&mut self, batch: Vec<Job>) {
        let changes: Vec<&Change> = batch.iter().map(|job| &job.change).collect();
        match self.insist(&changes).await {
            Ok(counts) => {
                for (job, count) in batch.into_iter().zip(counts) {
                    // Whoever does not listen any more has its change all the same.
                    drop(job.answer.send(Ok(count)));
                }
            }
            Err(failure) if batch.len() > 1 && failure.trouble != Trouble::Lost => {
                for job in batch {
                    let alone = self.insist(&[&job.change]).await;
                    let answer =
                        alone.map(|counts| counts.into_iter().sum()).map_err(|failure| failure.error);
                    drop(job.answer.send(answer));
                }
            }
            Err(failure) => {
                for job in batch {
                    drop(job.answer.send(Err(failure.error.clone())));
                }
            }
        }
    }

    /// Tries again where somebody else was in the way.
    async fn insist(&mut self, changes: &[&Change]) -> Result<Vec<u64>, Failure> {
        let mut tries = 1;
        loop {
            let attempt = tokio::time::timeout(DEADLINE, self.attempt(changes));
            let outcome = attempt.await.unwrap_or_else(|_| {
                let error = StoreError::unavailable("the database did not answer in time");
                Err(Failure { error, trouble: Trouble::Lost })
            });
            self.used = Instant::now();
            match outcome {
                Err(failure) if failure.trouble == Trouble::Lost => {
                    // Whether it was committed is not known, so it is the caller who decides to repeat it.
                    self.connection = None;
                    return Err(failure);
                }
                Err(failure) if failure.trouble == Trouble::Busy && tries < TRIES => {
                    tokio::time::sleep(Duration::from_millis(5 << tries)).await;
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn attempt(&mut self, changes: &[&Change]) -> Result<Vec<u64>, Failure> {
        let dialect = self.dialect;
        let connection = self.connected().await?;
        if let [change] = changes
            && change.single().is_some()
        {
            return run_all(changes, dialect, connection).await;
        }
        let begun = match dialect {
            // Taking the lock at once: another process may hold it, and waiting for it later is not possible.
            Dialect::Sqlite => connection.begin_with("BEGIN IMMEDIATE").await,
            Dialect::MySql | Dialect::Postgres => connection.begin().await,
        };
        let mut transaction = begun.map_err(Failure::of("it"))?;
        match run_all(changes, dialect, &mut transaction).await {
            Ok(counts) => {
                transaction.commit().await.map_err(Failure::of("it"))?;
                Ok(counts)
            }
            Err(failure) => {
                transaction.rollback().await.map_err(Failure::of("it"))?;
                Err(failure)
            }
        }
    }

    async fn connected(&mut self) -> Result<&mut AnyConnection, Failure> {
        let idle = self.dialect != Dialect::Sqlite && self.used.elapsed() > STALE;
        if let Some(connection) = &mut self.connection
            && idle
            && connection.ping().await.is_err()
        {
            self.connection = None;
        }
        match &mut self.connection {
            Some(connection) => Ok(connection),
            none => {
                let made = connect::writer(&self.url).await;
                Ok(none.insert(made.map_err(|error| Failure { error, trouble: Trouble::Lost })?))
            }
        }
    }
}
