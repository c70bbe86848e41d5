//! Storage: what has to outlive the server. Rows in a database, and objects for what is too large for a row.
//!
//! [`Store`] is the one door. The database is SQLite in a file, MariaDB or MySQL, or PostgreSQL, by its URL; code,
//! tables and promises are the same for all three. What a method has returned without an error is committed.
//!
//! It checks that what it is given fits, and nothing else: it knows no sandbox, and decides nothing. Times are
//! milliseconds since 1970 and come from the caller, but for those of events that tell of a removal.

mod bounds;
mod change;
mod checkpoints;
mod claims;
mod connect;
mod error;
mod events;
mod execution;
mod executions;
mod history;
mod in_place;
mod json;
mod keys;
mod later;
mod nodes;
mod objects;
mod page;
#[cfg(test)]
mod plans;
mod retention;
mod schema;
mod session;
mod sessions;
mod statement;
mod templates;
mod url;
mod webhooks;
mod writer;

pub use bounds::{MAX_ID, MAX_NAME, MAX_RECORD, MAX_SPEC};
pub use claims::{Claim, Claimed, MAX_KEY};
pub use error::StoreError;
pub use events::{EVENT_KINDS, EVERYBODY, Event, NewEvent};
pub use execution::{Attached, Attachment, ExecutionStatus, Outcome, Progress, StoredExecution, Submission};
pub use json::Json;
pub use keys::ApiKey;
pub use nodes::{Node, NodeStatus};
#[cfg(feature = "s3")]
pub use objects::S3Settings;
pub use objects::{Content, Listed, ObjectKey, Objects, Stored};
pub use page::{Cursor, MAX_PAGE, MOST_COUNTED, Page};
pub use retention::{Pruned, Retention};
pub use session::{Session, SessionMode, SessionStatus, Transition};
pub use sessions::SessionFilter;
pub use templates::Template;
pub use url::DatabaseUrl;
pub use webhooks::Webhook;

use change::Change;
use checkpoints::Checkpoints;
use later::Later;
use sqlx::AnyPool;
use sqlx::any::AnyRow;
use statement::{Statement, Value};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;
use url::Dialect;
use writer::Writer;

/// Output of up to this many bytes a stream stays in the record.
pub const INLINE_OUTPUT: usize = 64 * 1024;

/// How many connections there are, and what is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// For reading, at most.
    pub readers: u32,
    /// For writing, where the database is a server; a file has one.
    pub writers: usize,
    /// Whether what happens is stored as events.
    pub events: bool,
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings { readers: 8, writers: 4, events: false }
    }
}

/// The database and the objects.
pub struct Store {
    url: DatabaseUrl,
    dialect: Dialect,
    readers: AnyPool,
    writer: Arc<Writer>,
    /// Where events go that nobody waits for; none where none are told.
    later: Option<Later>,
    news: watch::Sender<u64>,
    objects: Objects,
    _checkpoints: Option<Checkpoints>,
}

impl Store {
    /// Opens a database, bringing it to the newest version first. Call it in a runtime: writers have tasks of their
    /// own.
    pub async fn open(
        url: &DatabaseUrl,
        objects: Objects,
        settings: StoreSettings,
    ) -> Result<Store, StoreError> {
        let dialect = url.dialect();
        connect::prepare(url)?;
        schema::migrate(url).await?;
        let lanes = if dialect == Dialect::Sqlite { 1 } else { settings.writers.max(1) };
        let writer = Arc::new(Writer::start(url, lanes).await?);
        let news = watch::Sender::new(0);
        let later = settings.events.then(|| Later::start(writer.clone(), news.clone()));
        let readers = connect::readers(url, settings.readers).await?;
        let checkpoints = (dialect == Dialect::Sqlite).then(|| Checkpoints::start(readers.clone()));
        Ok(Store {
            url: url.clone(),
            dialect,
            readers,
            writer,
            later,
            news,
            objects,
            _checkpoints: checkpoints,
        })
    }

    /// Where objects are kept.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Whether the database answers at the moment.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.latest_event().await.map(drop)
    }

    /// Writes what was handed in and lets go of the database. Afterwards everything fails.
    pub async fn close(&self) {
        if let Some(later) = &self.later {
            later.flush().await;
        }
        self.writer.close().await;
        self.readers.close().await;
    }

    /// Returns when the change is committed.
    async fn write(&self, change: Change) -> Result<u64, StoreError> {
        self.writer.write(change).await
    }

    /// The row, if there is one.
    async fn one<T>(
        &self,
        statement: &'static Statement,
        values: Vec<Value>,
        read: impl Fn(&AnyRow) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let row = statement.with(self.dialect, &values).fetch_optional(&self.readers).await?;
        row.as_ref().map(read).transpose()
    }

    /// All rows.
    async fn all<T>(
        &self,
        statement: &'static Statement,
        values: Vec<Value>,
        read: impl Fn(&AnyRow) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = statement.with(self.dialect, &values).fetch_all(&self.readers).await?;
        rows.iter().map(read).collect()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("url", &self.url)
            .field("objects", &self.objects)
            .finish_non_exhaustive()
    }
}
