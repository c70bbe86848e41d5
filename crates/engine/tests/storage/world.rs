//! A database of its own for each test, and what tests put into it.

use engine::storage::{
    DatabaseUrl, ExecutionStatus, Json, Objects, Outcome, Session, SessionMode, SessionStatus, Store,
    StoreSettings, Submission,
};
use sqlx::AnyConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tempfile::TempDir;

/// Where a test is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    MariaDb,
    Postgres,
}

/// A database that nobody else uses, and a directory for objects.
pub(crate) struct World {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    pub(crate) directory: TempDir,
}

impl World {
    /// None where this database is not there, which is said.
    pub(crate) async fn new(kind: Kind) -> Option<World> {
        sqlx::any::install_default_drivers();
        let directory = TempDir::new().unwrap();
        let variable = match kind {
            Kind::Sqlite => {
                let url = format!("sqlite://{}/state/db.sqlite", directory.path().display());
                return Some(World { kind, url, directory });
            }
            Kind::MariaDb => "SANDBOXD_TEST_MYSQL",
            Kind::Postgres => "SANDBOXD_TEST_POSTGRES",
        };
        let server = server(variable)?;
        let name = format!("t{}", uuid::Uuid::now_v7().simple());
        let mut admin = AnyConnection::connect(&server).await.unwrap();
        admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
        admin.close().await.unwrap();
        let (base, _) = server.rsplit_once('/').unwrap();
        Some(World { kind, url: format!("{base}/{name}"), directory })
    }

    pub(crate) fn address(&self) -> DatabaseUrl {
        self.url.parse().unwrap()
    }

    pub(crate) fn objects(&self) -> Objects {
        Objects::in_directory(&self.directory.path().join("objects")).unwrap()
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(&self.address(), self.objects(), StoreSettings::default()).await.unwrap()
    }

    /// A connection beside the store.
    pub(crate) async fn raw(&self) -> AnyConnection {
        AnyConnection::connect(&self.url).await.unwrap()
    }
}

/// The value of a variable that `scripts/with-databases` sets.
pub(crate) fn server(variable: &str) -> Option<String> {
    match std::env::var(variable) {
        Ok(value) => Some(value),
        Err(_) if std::env::var_os("CI").is_some() => {
            panic!("`{variable}` is not set: run this by `scripts/with-databases`")
        }
        Err(_) => {
            eprintln!("skipped: `{variable}` is not set, so there is no such server");
            None
        }
    }
}

/// Runs a test in a world of its own, if there is such a database.
pub(crate) async fn on(kind: Kind, test: impl AsyncFnOnce(World)) {
    if let Some(world) = World::new(kind).await {
        test(world).await;
    }
}

/// A test on each database of each of these.
macro_rules! on_every_database {
    ($($test:ident),* $(,)?) => { $(
        mod $test {
            use $crate::world::{Kind, on};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                on(Kind::Sqlite, super::$test).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mariadb() {
                on(Kind::MariaDb, super::$test).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                on(Kind::Postgres, super::$test).await;
            }
        }
    )* };
}
pub(crate) use on_every_database;

pub(crate) fn json(value: &impl serde::Serialize) -> Json {
    Json::of(value).unwrap()
}

pub(crate) fn execution_id() -> String {
    format!("exec_{}", uuid::Uuid::now_v7().simple())
}

/// An id as it would have been made at this time.
pub(crate) fn execution_id_at(millis: i64, number: u64) -> String {
    format!("exec_{millis:012x}70008000{number:012x}")
}

pub(crate) fn submission(owner: &str) -> Submission {
    Submission {
        id: execution_id(),
        owner: owner.into(),
        session_id: None,
        language: "python".into(),
        created_at: 1,
        request: json(&"print(1)"),
    }
}

pub(crate) fn outcome() -> Outcome {
    Outcome {
        status: ExecutionStatus::Completed,
        finished_at: 2,
        record: json(&serde_json::json!({ "stdout": "1\n" })),
        objects: Vec::new(),
    }
}

pub(crate) fn session(owner: &str, id: &str) -> Session {
    Session {
        owner: owner.into(),
        id: id.into(),
        template: "python-basic".into(),
        agent_id: None,
        mode: SessionMode::Persistent,
        status: SessionStatus::Creating,
        spec: json(&serde_json::json!({ "memory": "512Mi" })),
        node: None,
        sandbox_id: None,
        workspace: None,
        idle_ms: 1000,
        lifetime_ms: -1,
        created_at: 10,
        last_activity_at: 10,
        ended_at: None,
        transitions: 1,
    }
}
