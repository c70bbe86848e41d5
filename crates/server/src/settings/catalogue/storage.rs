//! Settings of what outlives the server: where it is, and for how long.

use super::{DAY, MIB, MINUTE};
use crate::settings::Kind::{self, Database, Objects, Path, Size, Text, Time, Url, Whole};
use crate::settings::founding::Unit::{Bucket, Driver, Same};
use crate::settings::key::{Key, section};
use crate::settings::load::Known;
use crate::settings::value::{Secret, Value};
use engine::storage::{DatabaseUrl, StoreSettings};
use std::path::PathBuf;
use std::time::Duration;

section! {
    /// Where the server keeps what is its own
    state: State {
        /// Directory of the token, the database and everything else that has no other place
        dir: PathBuf = Key::of(Path).told(
            "`$XDG_STATE_HOME/sandboxd`, else `~/.local/state/sandboxd`; `/var/lib/sandboxd` for root",
            state_dir,
            "/var/lib/sandboxd",
        );
    }
}

section! {
    /// Database and objects
    storage: Storage {
        /// Database: SQLite, MariaDB, MySQL or PostgreSQL
        url: DatabaseUrl = Key::of(Database).told(
            "`sandboxd.db` in `state.dir`",
            |known| known.in_state_dir("sandboxd.db").map(|path| Value::Text(database(&path))),
            "postgres://sandboxd@db.example.org/sandboxd",
        ).also(&["DATABASE_URL"], Driver);
        /// Place for what is too large for the database: a directory, or `s3://bucket/prefix`
        objects: String = Key::of(Objects).told(
            "`objects` in `state.dir`",
            |known| known.in_state_dir("objects").map(|path| Value::Text(path.display().to_string())),
            "s3://sandboxd/objects",
        ).also(&["S3_BUCKET"], Bucket);
        /// Address of the object store, if it is not Amazon's
        s3_endpoint: Option<String> = Key::of(Url).unset("Amazon's", "https://s3.example.org")
            .also(&["S3_ENDPOINT_URL"], Same);
        /// Region of the object store
        s3_region: Option<String> = Key::of(Text).unset("`us-east-1`", "eu-central-1").also(&["S3_REGION"], Same);
        /// Name of the key for the object store
        s3_access_key_id: Option<Secret> = Key::of(Kind::Secret)
            .unset("the role of the machine", "file:/etc/sandboxd/s3-id")
            .also(&["S3_ACCESS_KEY_ID"], Same);
        /// The key for the object store
        s3_secret_access_key: Option<Secret> = Key::of(Kind::Secret)
            .unset("the role of the machine", "file:/etc/sandboxd/s3-key")
            .also(&["S3_SECRET_ACCESS_KEY"], Same);
        /// Output of up to this size, of each stream, is kept in the database
        inline_output: usize = Key::of(Size { least: 0, most: MIB }).usual("64K");
        /// Connections for reading, at most
        readers: u32 = Key::of(Whole { least: 1, most: 1000 }).usual("8");
        /// Connections for writing, where the database is a server
        writers: usize = Key::of(Whole { least: 1, most: 1000 }).usual("4");
    }
}

section! {
    /// How long things are kept after they are over
    retention: Retention {
        /// Executions, from when they were asked for
        executions: Option<Duration> = Key::of(AGE).usual("30d");
        /// Sessions that are over, with what is left of them
        sessions: Option<Duration> = Key::of(AGE).usual("30d");
        /// Events
        events: Option<Duration> = Key::of(AGE).usual("7d");
        /// Keys by which a client may repeat a request without its being done twice
        idempotency_keys: Option<Duration> = Key::of(AGE).usual("1d");
        /// Time between two looks for what is too old
        sweep_interval: Duration = Key::of(Time { least: 1000, most: DAY, never: false }).usual("5m")
            .also(&["CLEANUP_INTERVAL_SECONDS", "SANDBOXRUNNER_SANDBOX_CLEANUP_INTERVAL"], Same);
    }
}

const AGE: Kind = Time { least: MINUTE, most: 3650 * DAY, never: true };

fn state_dir(known: &Known<'_>) -> Result<Value, String> {
    let path = match known.sources.is_root {
        true => PathBuf::from("/var/lib/sandboxd"),
        false => {
            match known.variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()) {
                Some(path) => path.join("sandboxd"),
                None => known
                    .home()
                    .ok_or("there is no home directory to put it in")?
                    .join(".local/state/sandboxd"),
            }
        }
    };
    Ok(Value::Text(path.display().to_string()))
}

/// The address of a database in a file.
fn database(path: &std::path::Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(byte);
    let one = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let bytes = path.as_os_str().as_encoded_bytes().iter().copied();
    format!("sqlite://{}", bytes.map(one).collect::<String>())
}

impl Storage {
    /// How many connections there are, as storage wants to know it, and whether events are kept.
    pub fn connections(&self, events: bool) -> StoreSettings {
        StoreSettings { readers: self.readers, writers: self.writers, events }
    }

    /// The bucket, if objects are in one, as storage wants to know it.
    pub fn bucket(&self) -> Option<engine::storage::S3Settings> {
        self.objects.starts_with("s3://").then(|| engine::storage::S3Settings {
            url: self.objects.clone(),
            endpoint: self.s3_endpoint.clone(),
            region: self.s3_region.clone(),
            access_key_id: self.s3_access_key_id.as_ref().map(|key| key.reveal().to_owned()),
            secret_access_key: self.s3_secret_access_key.as_ref().map(|key| key.reveal().to_owned()),
        })
    }
}

impl Retention {
    /// The ages, as storage wants to know them.
    pub fn ages(&self) -> engine::storage::Retention {
        engine::storage::Retention {
            executions: self.executions,
            events: self.events,
            claims: self.idempotency_keys,
            sessions: self.sessions,
        }
    }
}
