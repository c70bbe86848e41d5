//! Checkpoints of a file: what was committed to its log is moved to where it belongs.
//!
//! SQLite would have the writer do that after every so many pages, and wait for the disk; whoever stores a result at
//! that moment would wait with it. Here a task does it beside the writer. The writer helps only where the log grows
//! faster than it can be emptied.

use sqlx::AnyPool;
use std::time::Duration;
use tokio::task::AbortHandle;

/// How often.
const PAUSE: Duration = Duration::from_secs(1);

/// The task; it ends with this.
pub(crate) struct Checkpoints(AbortHandle);

impl Checkpoints {
    pub(crate) fn start(pool: AnyPool) -> Checkpoints {
        Checkpoints(tokio::spawn(keep(pool)).abort_handle())
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep(pool: AnyPool) {
    while !pool.is_closed() {
        tokio::time::sleep(PAUSE).await;
        // What could not be moved is moved the next time; nothing is lost meanwhile.
        drop(sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&pool).await);
    }
}
