//! Connections: how they are made, how many there are, and what is set on each.
//!
//! Readers share a pool. Writers have connections of their own (`writer.rs`).

use super::error::StoreError;
use super::url::{DatabaseUrl, Dialect};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyConnection, AnyPool, ConnectOptions, Executor};
use std::fs::OpenOptions;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// What is set on every connection to a file: readers do not wait for the writer, and a commit is in the hands of
/// the kernel when it returns, so it outlives this process; only a loss of power can take back the last ones.
pub(super) const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; \
                       PRAGMA cache_size = -16384; PRAGMA journal_size_limit = 67108864; \
                       PRAGMA wal_autocheckpoint = 16384;";

/// How long a reader may wait for a connection.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the file, if it is one, so that nobody else can read it.
pub(crate) fn prepare(url: &DatabaseUrl) -> Result<(), StoreError> {
    sqlx::any::install_default_drivers();
    let Some(path) = url.path() else { return Ok(()) };
    if let Some(parent) = path.parent() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
        made.map_err(|e| unusable(parent, &e))?;
    }
    private().create(true).append(true).open(path).map_err(|e| unusable(path, &e))?;
    Ok(())
}

/// Files that only their owner may read.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

pub(crate) fn unusable(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Settings {
        message: format!("`{}` cannot be used: {error}", path.display()),
        hint: "give a directory that this user may write to",
    }
}

/// A pool of at most this many connections for reading.
pub(crate) async fn readers(url: &DatabaseUrl, most: u32) -> Result<AnyPool, StoreError> {
    let dialect = url.dialect();
    let pool = AnyPoolOptions::new()
        .max_connections(most.max(1))
        .acquire_timeout(PATIENCE)
        // A server may have gone and come back; a file has not.
        .test_before_acquire(dialect != Dialect::Sqlite)
        .after_connect(move |connection, _| Box::pin(settle(connection, dialect)));
    Ok(pool.connect_with(options(url)?).await?)
}

/// One connection for writing.
pub(crate) async fn writer(url: &DatabaseUrl) -> Result<AnyConnection, StoreError> {
    let connect = async {
        let mut connection = options(url)?.connect().await?;
        settle(&mut connection, url.dialect()).await?;
        Ok(connection)
    };
    let late = |_| StoreError::unavailable("the database did not answer in time");
    tokio::time::timeout(PATIENCE, connect).await.map_err(late)?
}

async fn settle(connection: &mut AnyConnection, dialect: Dialect) -> Result<(), sqlx::Error> {
    match dialect {
        Dialect::Sqlite => connection.execute(PRAGMAS).await.map(drop),
        Dialect::MySql | Dialect::Postgres => Ok(()),
    }
}

fn options(url: &DatabaseUrl) -> Result<AnyConnectOptions, StoreError> {
    // What statements bind is nobody's business in a log.
    Ok(url.secret().parse::<AnyConnectOptions>()?.disable_statement_logging())
}
