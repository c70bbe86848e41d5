//! What storing and finding one execution costs, in an empty database and in a large one, in turns.
//!
//!     cargo run --release -p sandboxd-engine --example storage_cost -- [ROWS] [URL EMPTY] [URL LARGE]
//!
//! Without URLs both are SQLite files in a temporary directory. The ratio is the result; times are context.

use engine::storage::{
    DatabaseUrl, ExecutionStatus, Json, Objects, Outcome, Store, StoreError, StoreSettings, Submission,
};
use std::sync::Arc;
use std::time::Instant;

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Turns of each database, and calls of each turn.
const TURNS: usize = 1000;
const CALLS: usize = 5;

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
    let filled = fill(&large, rows).await?;
    // Where a request would be served, not on the thread that waits for everything to end.
    tokio::spawn(async move { compare(&empty, &large, rows, &filled).await }).await?
}

/// Fills a store, and returns some of what is in it.
async fn fill(store: &Arc<Store>, rows: usize) -> Fallible<Vec<Submission>> {
    let began = Instant::now();
    let mut filled = Vec::new();
    let mut filling = tokio::task::JoinSet::new();
    for writer in 0..500 {
        let store = store.clone();
        filling.spawn(async move {
            let mut last = None;
            for _ in 0..rows / 500 {
                let one = submission(&format!("owner{writer}"))?;
                store.record(&one, &outcome()?).await?;
                last = Some(one);
            }
            Ok::<_, StoreError>(last)
        });
    }
    while let Some(ended) = filling.join_next().await {
        filled.extend(ended??);
    }
    let rate = rows as f64 / began.elapsed().as_secs_f64();
    println!("filled with {rows} executions, {rate:.0} a second by 500 callers at once");
    Ok(filled)
}

async fn compare(empty: &Store, large: &Store, rows: usize, filled: &[Submission]) -> Fallible<()> {
    let few: Vec<Submission> = (0..filled.len()).map(|_| submission("owner1")).collect::<Result<_, _>>()?;
    for one in &few {
        empty.record(one, &outcome()?).await?;
    }
    let mut insert = (Vec::new(), Vec::new());
    let mut lookup = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        // Each goes first as often as the other: whoever does finds its thread asleep.
        for which in [turn % 2, (turn + 1) % 2] {
            match which {
                0 => inserts(empty, &mut insert.0).await?,
                _ => inserts(large, &mut insert.1).await?,
            }
        }
        for which in [turn % 2, (turn + 1) % 2] {
            match which {
                0 => lookups(empty, &few, turn, &mut lookup.0).await?,
                _ => lookups(large, filled, turn, &mut lookup.1).await?,
            }
        }
    }
    for (what, (empty, large)) in [("insert", insert), ("lookup", lookup)] {
        let (empty, large) = (Times::of(empty), Times::of(large));
        println!("{what}: empty {empty}, with {rows} {large}, ratio {:.3}", large.median / empty.median);
    }
    Ok(())
}

/// Microseconds of inserts, one after the other.
async fn inserts(store: &Store, times: &mut Vec<f64>) -> Fallible<()> {
    let outcome = outcome()?;
    for _ in 0..CALLS {
        let one = submission("owner1")?;
        let began = Instant::now();
        store.record(&one, &outcome).await?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(())
}

/// Microseconds of lookups, all over the table.
async fn lookups(store: &Store, rows: &[Submission], turn: usize, times: &mut Vec<f64>) -> Fallible<()> {
    for call in 0..CALLS {
        let one = &rows[(turn * CALLS + call) * 7919 % rows.len()];
        let began = Instant::now();
        store.execution(&one.owner, &one.id).await?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(())
}

struct Times {
    median: f64,
    slow: f64,
}

impl Times {
    fn of(mut times: Vec<f64>) -> Times {
        times.sort_by(f64::total_cmp);
        Times { median: times[times.len() / 2], slow: times[times.len() * 99 / 100] }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} µs (p99 {:.0})", self.median, self.slow)
    }
}

fn submission(owner: &str) -> Result<Submission, StoreError> {
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
fn outcome() -> Result<Outcome, StoreError> {
    let (status, record) = (ExecutionStatus::Completed, Json::of(&"x".repeat(1200))?);
    Ok(Outcome { status, finished_at: 2, record, objects: Vec::new() })
}
