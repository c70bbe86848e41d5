//! A connection to a file that writes in the thread of whoever asks.
//!
//! Everybody else's connections have threads of their own, and to wake one and be woken by it takes longer than writing a
//! row. So what is one small statement is written here when nobody else writes. Whatever this cannot do, for whatever
//! reason, is done by the lane, which also knows what went wrong.

use super::change::Change;
use super::connect::PRAGMAS;
use super::error::StoreError;
use super::statement::Value;
use super::url::{DatabaseUrl, Dialect};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};
use std::time::Duration;

/// What is larger may take the kernel a while.
const SMALL: usize = 64 * 1024;

pub(crate) struct InPlace(Connection);

impl InPlace {
    /// Of a database that is a file and has been opened before.
    pub(crate) fn open(url: &DatabaseUrl) -> Result<Option<InPlace>, StoreError> {
        let Some(path) = url.path() else { return Ok(None) };
        let open = || {
            let connection = Connection::open(path)?;
            connection.execute_batch(PRAGMAS)?;
            // Another process may write.
            connection.busy_timeout(Duration::ZERO)?;
            Ok(connection)
        };
        open().map(InPlace).map(Some).map_err(|error: rusqlite::Error| StoreError::unavailable(error))
    }

    /// The number of rows that were changed, when that is committed. `None` when nothing has happened.
    pub(crate) fn write(&self, change: &Change) -> Option<Result<u64, StoreError>> {
        let step = change.single()?;
        if step.values.iter().map(Value::size).sum::<usize>() > SMALL {
            return None;
        }
        let mut statement = self.0.prepare_cached(step.statement.on(Dialect::Sqlite)).ok()?;
        // A statement by itself is a transaction: when it fails nothing has changed.
        let rows = statement.execute(rusqlite::params_from_iter(&step.values)).ok()?;
        Some(step.counted(rows as u64))
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Value::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Value::Number(Some(number)) => ValueRef::Integer(*number),
            Value::Text(None) | Value::Number(None) => ValueRef::Null,
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}
