//! What can go wrong in storage, named by what the caller can do about it.

use std::time::Duration;

/// How long a caller waits before it asks again, where it is worth asking again.
const PAUSE: Duration = Duration::from_secs(1);

/// Why something was not stored or not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is none, or none of this owner.
    #[error("no such {what}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
    },
    /// It is there already, is in use, or is not as the caller believed: look again.
    #[error("{what} {why}")]
    Conflict {
        /// What is in the way.
        what: &'static str,
        /// How.
        why: &'static str,
    },
    /// A field holds more than fits: shorten it.
    #[error("`{field}` is longer than {limit} {unit}")]
    TooLong {
        /// Which field.
        field: &'static str,
        /// How much fits.
        limit: u64,
        /// Of what.
        unit: &'static str,
    },
    /// A field cannot be stored: change it.
    #[error("`{field}` {message}")]
    Invalid {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        message: &'static str,
    },
    /// The database or the object store cannot be reached or is busy: ask again.
    #[error("storage is not available: {message}")]
    Unavailable {
        /// What it said.
        message: String,
        /// When to ask again.
        retry_after: Duration,
    },
    /// The database was written by a newer version: run that one.
    #[error("the database has schema version {found}, this program knows up to {known}")]
    Newer {
        /// What the database has.
        found: i64,
        /// What this program knows.
        known: i64,
    },
    /// Storage is configured wrongly: change the setting.
    #[error("{message}")]
    Settings {
        /// What is wrong.
        message: String,
        /// How it would be right.
        hint: &'static str,
    },
    /// Something of ours broke, or what is stored is damaged.
    #[error("storage failed: {0}")]
    Broken(String),
}

impl StoreError {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, StoreError::Unavailable { .. })
    }

    /// Advice for people, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            StoreError::Newer { .. } => Some(
                "start the version of sandboxd that wrote it, or restore a backup made before the update",
            ),
            StoreError::Settings { hint, .. } => Some(hint),
            StoreError::Unavailable { .. } => Some("check that the database runs and that its URL is right"),
            _ => None,
        }
    }

    pub(crate) fn unavailable(message: impl ToString) -> StoreError {
        StoreError::Unavailable { message: message.to_string(), retry_after: PAUSE }
    }

    pub(crate) fn exists(what: &'static str) -> StoreError {
        StoreError::Conflict { what, why: "exists already" }
    }
}

/// What an error of the database means for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The connection is gone; another may work.
    Lost,
    /// Somebody else was in the way; the same again may work on this connection.
    Busy,
    /// A key that must be unique is there already.
    Duplicate,
    /// Nothing to be done.
    Fatal,
}

pub(crate) fn trouble(error: &sqlx::Error) -> Trouble {
    use sqlx::Error;
    match error {
        Error::Io(_) | Error::Tls(_) | Error::WorkerCrashed | Error::BeginFailed => Trouble::Lost,
        Error::Protocol(_) | Error::PoolTimedOut | Error::PoolClosed => Trouble::Lost,
        Error::Database(error) if error.is_unique_violation() => Trouble::Duplicate,
        Error::Database(error) => match error.code().as_deref() {
            // PostgreSQL: shutting down, starting, too many connections; SQLSTATE class 08 for both servers
            Some("57P01" | "57P02" | "57P03" | "53300") => Trouble::Lost,
            Some(code) if code.starts_with("08") => Trouble::Lost,
            // MariaDB: the connection was killed, or the server is shutting down
            Some("70100") => Trouble::Lost,
            // Deadlock, serialization failure, lock not available
            Some("40001" | "40P01" | "55P03") => Trouble::Busy,
            // MariaDB puts its lock time-out among general errors
            Some("HY000") if error.message().starts_with("Lock wait timeout") => Trouble::Busy,
            // SQLite: busy or locked, with its extended codes
            Some("5" | "6" | "261" | "262" | "517") => Trouble::Busy,
            // The disk is full, or memory: SQLite, then PostgreSQL
            Some("13" | "53100" | "53200") => Trouble::Busy,
            _ => Trouble::Fatal,
        },
        _ => Trouble::Fatal,
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        if let sqlx::Error::Configuration(_) = &error {
            // What it says may quote the URL, and with it the password.
            return StoreError::Settings {
                message: "the database URL cannot be used".to_owned(),
                hint: "check its host, port, name and options, and encode special characters with `%`",
            };
        }
        if let sqlx::Error::Database(said) = &error
            && is_refusal(said.as_ref())
        {
            return StoreError::Settings {
                message: format!("the database cannot be opened: {}", said.message()),
                hint: "check user, password and name of the database in its URL",
            };
        }
        match trouble(&error) {
            Trouble::Lost | Trouble::Busy => StoreError::unavailable(error),
            Trouble::Duplicate => StoreError::exists("it"),
            Trouble::Fatal => StoreError::Broken(error.to_string()),
        }
    }
}

/// Wrong user, password or database: something that stays so until somebody changes a setting.
fn is_refusal(error: &dyn sqlx::error::DatabaseError) -> bool {
    match error.code().as_deref() {
        Some("28000" | "28P01" | "3D000") => true,
        // SQLite: the file is something else
        Some("26") => true,
        Some("42000") => error.message().starts_with("Unknown database"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_can_be_retried_and_a_wrong_statement_cannot() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let lost = StoreError::from(sqlx::Error::Io(refused));
        assert!(lost.is_retryable() && lost.hint().is_some(), "{lost}");
        assert!(StoreError::from(sqlx::Error::PoolTimedOut).is_retryable());
        let wrong = StoreError::from(sqlx::Error::ColumnNotFound("x".into()));
        assert!(matches!(wrong, StoreError::Broken(_)), "{wrong}");
    }
}
