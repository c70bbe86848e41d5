//! What the server needs, tried.

use crate::State;
use engine::storage::{ObjectKey, StoreError};
use engine::{Engine, EngineError};
use futures_util::FutureExt;
use serde::Serialize;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};
use utoipa::ToSchema;

/// How long a check may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Less free space than this is a warning.
const LITTLE: u64 = 1 << 30;
/// Less than this, and nothing works for long.
const TOO_LITTLE: u64 = 100 << 20;

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = HealthStatus)]
pub(super) enum Status {
    #[default]
    Healthy,
    Warning,
    Unhealthy,
}

impl Status {
    pub(super) fn works(self) -> bool {
        self != Status::Unhealthy
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Status::Healthy => "healthy",
            Status::Warning => "warning",
            Status::Unhealthy => "unhealthy",
        }
    }
}

/// What came of a check.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = HealthCheck)]
pub(super) struct Check {
    pub(super) status: Status,
    /// What was found.
    detail: String,
    /// How long it took.
    duration_ms: f64,
}

type Found = (Status, String);

/// Tries everything, at the same time.
pub(super) async fn all(state: &State) -> BTreeMap<&'static str, Check> {
    let (database, storage, isolation, disk) = tokio::join!(
        timed(database(state).boxed()),
        timed(objects(state).boxed()),
        timed(isolation(state).boxed()),
        timed(disk(state).boxed()),
    );
    [("database", database), ("storage", storage), ("isolation", isolation), ("disk", disk)].into()
}

async fn timed(check: impl Future<Output = Found>) -> Check {
    let began = Instant::now();
    let late = (Status::Unhealthy, format!("no answer within {} seconds", PATIENCE.as_secs()));
    let (status, detail) = tokio::time::timeout(PATIENCE, check).await.unwrap_or(late);
    Check { status, detail, duration_ms: began.elapsed().as_micros() as f64 / 1000.0 }
}

/// A question that the database has to look something up for.
async fn database(state: &State) -> Found {
    match state.store().check().await {
        Ok(()) => (Status::Healthy, "answers".to_owned()),
        Err(error) => (Status::Unhealthy, error.to_string()),
    }
}

/// Writes an object, reads it back and removes it.
async fn objects(state: &State) -> Found {
    let store = state.store().objects();
    let trial = async {
        let name = uuid::Uuid::now_v7().simple().to_string();
        let key = ObjectKey::new(&["health", &name])?;
        store.put_bytes(&key, name.clone().into_bytes()).await?;
        let size = store.get(&key, None).await.map(|content| content.size);
        store.delete(&key).await?;
        Ok::<bool, StoreError>(size? == name.len() as u64)
    };
    match trial.await {
        Ok(true) => (Status::Healthy, "an object was written, read and removed".to_owned()),
        Ok(false) => (Status::Unhealthy, "an object came back with another size".to_owned()),
        Err(error) => (Status::Unhealthy, error.to_string()),
    }
}

/// What the native isolator is made of, layer by layer.
async fn isolation(state: &State) -> Found {
    let missing = |error: EngineError| (Status::Unhealthy, error.to_string());
    if let Some(why) = state.plane().resting() {
        return (Status::Unhealthy, format!("no sandbox could be made lately: {why}"));
    }
    if let Err(error) = state.engine().probe().await {
        return missing(error);
    }
    let Ok(verdict) = tokio::task::spawn_blocking(Engine::verdict).await else {
        return missing(EngineError::Broken("the host could not be looked at".into()));
    };
    match verdict.grade {
        None => {
            (Status::Unhealthy, format!("no sandbox can be made, missing: {}", verdict.missing.join(", ")))
        }
        Some(grade) if verdict.degraded.is_empty() => {
            (Status::Healthy, format!("grade {grade}, every layer works"))
        }
        Some(grade) => (Status::Warning, format!("grade {grade}, weaker: {}", verdict.degraded.join(", "))),
    }
}

/// Space where the state is kept.
async fn disk(state: &State) -> Found {
    match rustix::fs::statvfs(&state.options().state_dir) {
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let status = match free {
                free if free < TOO_LITTLE => Status::Unhealthy,
                free if free < LITTLE => Status::Warning,
                _ => Status::Healthy,
            };
            (status, format!("{} MiB are free", free >> 20))
        }
        Err(error) => (Status::Unhealthy, error.to_string()),
    }
}
