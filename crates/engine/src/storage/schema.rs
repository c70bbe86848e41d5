//! Tables, and how they come to be: numbered migrations, each applied once, the same for every database but for
//! the names of a few types.
//!
//! A migration that has been released is never changed. What is stored by a newer version is refused, because an
//! older one would not know what it breaks.

use super::bounds::{MAX_ID, MAX_NAME};
use super::connect;
use super::error::StoreError;
use super::url::{DatabaseUrl, Dialect};
use sqlx::AnyConnection;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Connection, Row, SqlSafeStr};
use std::fs::File;

/// Number, name and text of each.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "first", include_str!("schema/0001_first.sql")),
    (2, "deliveries", include_str!("schema/0002_deliveries.sql")),
];

/// Brings the database to the newest version.
pub(crate) async fn migrate(url: &DatabaseUrl) -> Result<(), StoreError> {
    // Servers have locks of their own for this; for a file we bring one.
    let lock = match url.path() {
        Some(path) => {
            let path = path.with_added_extension("lock");
            let locked = tokio::task::spawn_blocking(move || lock(&path)).await;
            Some(locked.map_err(|e| StoreError::Broken(e.to_string()))??)
        }
        None => None,
    };
    // A connection of its own: if this fails half-way, the lock of the server goes with it.
    let mut connection = connect::writer(url).await?;
    if url.dialect() == Dialect::MySql {
        lock_mysql(&mut connection).await?;
    }
    // Not `run`: with a borrowed connection its future cannot be sent to another thread.
    let migrated = migrator(url.dialect()).run_direct(None, &mut connection, false).await;
    let closed = connection.close().await;
    drop(lock);
    migrated.map_err(explain)?;
    Ok(closed?)
}

/// The one of the library waits for ever, which MariaDB does not know and takes as not at all.
async fn lock_mysql(connection: &mut AnyConnection) -> Result<(), StoreError> {
    let lock = sqlx::query("SELECT GET_LOCK(CONCAT('sandboxd.', MD5(DATABASE())), 60)");
    match lock.fetch_one(connection).await?.try_get::<Option<i64>, _>(0)? {
        Some(1) => Ok(()),
        _ => Err(StoreError::unavailable("somebody else is updating the database")),
    }
}

fn lock(path: &std::path::Path) -> Result<File, StoreError> {
    let open = || {
        let file = connect::private().create(true).append(true).open(path)?;
        file.lock()?;
        Ok(file)
    };
    open().map_err(|e: std::io::Error| connect::unusable(path, &e))
}

fn migrator(dialect: Dialect) -> Migrator {
    let migration = |(number, name, text): &(i64, &'static str, &str)| {
        let text = AssertSqlSafe(render(text, dialect)).into_sql_str();
        Migration::new(*number, (*name).into(), MigrationType::Simple, text, false)
    };
    Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect())
}

/// Types of this database. Comparing text compares bytes everywhere, so that ids sort alike.
fn render(text: &str, dialect: Dialect) -> String {
    let (long, collated, table) = match dialect {
        Dialect::Sqlite => ("TEXT", "", ""),
        Dialect::MySql => ("LONGTEXT", "", " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"),
        Dialect::Postgres => ("TEXT", " COLLATE \"C\"", ""),
    };
    // A run in a sandbox of its own is stored most often, and does not belong there; MariaDB cannot leave it out.
    let in_session = if dialect == Dialect::MySql { "" } else { " WHERE session_id IS NOT NULL" };
    let sized = |size: usize| format!("VARCHAR({size}){collated}");
    text.replace("{id}", &sized(MAX_ID))
        .replace("{name}", &sized(MAX_NAME))
        .replace("{text}", long)
        .replace("{table}", table)
        .replace("{in_session}", in_session)
}

fn explain(error: MigrateError) -> StoreError {
    let known = MIGRATIONS.last().map_or(0, |(number, ..)| *number);
    match error {
        MigrateError::VersionMissing(found) if found > known => StoreError::Newer { found, known },
        MigrateError::VersionMissing(number) | MigrateError::VersionMismatch(number) => {
            StoreError::Settings {
                message: format!("the database has another migration {number} than this program"),
                hint: "it belongs to another program or to a build that was never released; use another database",
            }
        }
        MigrateError::Dirty(number) => StoreError::Settings {
            message: format!("migration {number} of the database was interrupted half-way"),
            hint: "restore a backup, or start with an empty database",
        },
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
        other => StoreError::Broken(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_database_gets_types_of_its_own() {
        for dialect in [Dialect::Sqlite, Dialect::MySql, Dialect::Postgres] {
            for (number, name, text) in MIGRATIONS {
                let text = render(text, dialect);
                assert!(!text.contains(['{', '}', '?']), "{number} {name}");
            }
        }
    }

    #[test]
    fn migrations_are_numbered_without_gaps() {
        for (index, (number, ..)) in MIGRATIONS.iter().enumerate() {
            assert_eq!(*number, index as i64 + 1);
        }
    }
}
