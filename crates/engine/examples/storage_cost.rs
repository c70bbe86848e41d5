//! What storing and finding one execution costs, in an empty database and in a large one, in turns.
//!
//!     cargo run --release -p sandboxd-engine --example storage_cost -- [ROWS] [URL EMPTY] [URL LARGE]
//!
//! Without URLs both are SQLite files in a temporary directory. The ratio is the result; times are context.

use engine::storage::{
    DatabaseUrl, ExecutionStatus, Json, Objects, Outcome, Store, StoreSettings, Submission,
};
use std::sync::Arc;
use std::time::Instant;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Turns of each database, and calls of each turn.
const TURNS: usize = 60;
const CALLS: usize = 50;

#[tokio::main]
async fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rows: usize = arguments.first().map_or(Ok(1_000_000), |rows| rows.parse())?;
    let directory = tempfile::tempdir()?;
    let url = |index: usize, name| match arguments.get(index) {
        Some(url) => url.parse(),
        None => Ok(DatabaseUrl::file(directory.path().join(name))),
    };
    let objects = Objects::in_directory(&directory.path().join("objects"))?;
    let empty = Store::open(&url(1, "empty")?, objects.clone(), StoreSettings::default()).await?;
    let large = Arc::new(Store::open(&url(2, "large")?, objects, StoreSettings::default()).await?);

    let began = Instant::now();
    let mut filled = Vec::new();
    let mut filling = tokio::task::JoinSet::new();
    for writer in 0..500 {
        let large = large.clone();
        filling.spawn(async move {
            let mut last = None;
            for _ in 0..rows / 500 {
                let one = submission(&format!("owner{writer}"))?;
                large.record(&one, &outcome()?).await?;
                last = Some(one);
            }
            Ok::<_, engine::storage::StoreError>(last)
        });
    }
    while let Some(ended) = filling.join_next().await {
        filled.extend(ended??);
    }
    let rate = rows as f64 / began.elapsed().as_secs_f64();
    println!("filled with {rows} executions, {rate:.0} a second by 500 callers at once");

    let few: Vec<Submission> = (0..CALLS).map(|_| submission("owner1")).collect::<Result<_, _>>()?;
    for one in &few {
        empty.record(one, &outcome()?).await?;
    }
    let mut insert = (Vec::new(), Vec::new());
    let mut lookup = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        insert.0.push(inserts(&empty).await?);
        insert.1.push(inserts(&large).await?);
        lookup.0.push(lookups(&empty, &few, turn).await?);
        lookup.1.push(lookups(&large, &filled, turn).await?);
    }
    for (what, (empty, large)) in [("insert", insert), ("lookup", lookup)] {
        let (empty, large) = (median(empty), median(large));
        let ratio = large / empty;
        println!("{what}: {empty:.1} µs empty, {large:.1} µs with {rows}, ratio {ratio:.3}");
    }
    Ok(())
}

/// Microseconds of one insert, one after the other.
async fn inserts(store: &Store) -> Fallible<f64> {
    let (outcome, rows): (_, Vec<_>) = (outcome()?, (0..CALLS).map(|_| submission("owner1")).collect());
    let rows = rows.into_iter().collect::<Result<Vec<_>, _>>()?;
    let began = Instant::now();
    for one in &rows {
        store.record(one, &outcome).await?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / CALLS as f64)
}

/// Microseconds of one lookup, all over the table.
async fn lookups(store: &Store, rows: &[Submission], turn: usize) -> Fallible<f64> {
    let began = Instant::now();
    for call in 0..CALLS {
        let one = &rows[(turn * CALLS + call) * 7919 % rows.len()];
        store.execution(&one.owner, &one.id).await?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / CALLS as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn submission(owner: &str) -> Result<Submission, engine::storage::StoreError> {
    Ok(Submission {
        id: format!("exec_{}", uuid::Uuid::now_v7().simple()),
        owner: owner.into(),
        session_id: None,
        language: "python".into(),
        created_at: 1,
        request: Json::of(&"print('hello')")?,
    })
}

/// As large as the record of a hello.
fn outcome() -> Result<Outcome, engine::storage::StoreError> {
    let (status, record) = (ExecutionStatus::Completed, Json::of(&"x".repeat(1200))?);
    Ok(Outcome { status, finished_at: 2, record, objects: Vec::new() })
}
