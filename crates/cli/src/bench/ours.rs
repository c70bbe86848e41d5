//! Calls to our engine.

use super::program::Task;
use crate::settings;
use anyhow::{Result, bail};
use engine::runtime::Catalogue;
use engine::{Engine, Execution, PoolSettings, Request, Start, Status};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// How long a pool may take to be as it should be.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nothing is measured for this long before a turn: the kernel takes down what the one before has left.
const PAUSE: Duration = Duration::from_millis(10);

/// How often a run may be something else than it should be.
const TRIES: usize = 3;

/// What engines run in.
pub(crate) struct Ours {
    runtime: Runtime,
    catalogue: Catalogue,
}

/// An engine tasks can share.
pub(crate) type Shared = Arc<Engine>;

impl Ours {
    pub(crate) fn new() -> Result<Ours> {
        // One thread, as the hot path has it: a word from another one takes longer than all else.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Ours { runtime, catalogue: Catalogue::default() })
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// An engine that keeps so many sandboxes warm, or knows nothing of that.
    pub(crate) fn engine(&self, pool: Option<PoolSettings>) -> Result<Shared> {
        let mut engine = settings::engine()?;
        if let Some(pool) = pool {
            let _entered = self.runtime.enter();
            engine.keep_warm(pool);
        }
        Ok(Arc::new(engine))
    }

    /// An engine that makes every sandbox when it is asked for.
    pub(crate) fn engine_from_nothing(&self) -> Result<Shared> {
        let mut engine = settings::engine()?;
        engine.begin_nothing_ahead();
        Ok(Arc::new(engine))
    }

    /// Drives what engines do.
    pub(crate) fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Lets everything come to rest.
    pub(crate) fn pause(&self) {
        self.wait(PAUSE);
    }

    /// Lets engines do what they have to do for a while.
    pub(crate) fn wait(&self, time: Duration) {
        self.drive(async { tokio::time::sleep(time).await });
    }

    /// A run by this engine, of a program that has to succeed.
    pub(crate) fn run(&self, engine: &Engine, task: &Task) -> Result<Ran> {
        self.drive(succeed(engine, task))
    }

    /// Has an engine learn to keep this kind warm, as it does where it can when it is asked for the first time. A run after
    /// that.
    pub(crate) fn learn(&self, engine: &Engine, task: impl Fn() -> Task) -> Result<Ran> {
        self.run(engine, &task())?;
        self.until(|| engine.is_warm(), "a full pool")?;
        self.run(engine, &task())
    }

    /// A run that is certain to find its interpreter like this, in milliseconds; where none can wait, a sandbox that does
    /// is as good. One that does not is tried again: what
    /// waits may have died.
    pub(crate) fn time(&self, engine: &Engine, start: Start, task: impl Fn() -> Task) -> Result<f64> {
        for _ in 0..TRIES {
            if start == Start::Hit {
                self.until(|| engine.is_warm(), "a full pool")?;
                self.pause();
            }
            let ran = self.run(engine, &task())?;
            if ran.start == start || (start == Start::Hit && ran.start == Start::Ready) {
                return Ok(ran.took);
            }
        }
        bail!("{TRIES} runs that should have been a {start:?} were none");
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, is_so: impl Fn() -> bool, what: &str) -> Result<()> {
        self.drive(async {
            let began = Instant::now();
            while !is_so() {
                if began.elapsed() > PATIENCE {
                    bail!("waited {} s for {what} in vain", PATIENCE.as_secs());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        })
    }
}

/// A run that succeeded.
#[derive(Clone, Copy)]
pub(crate) struct Ran {
    /// From the call to the record, in milliseconds.
    pub(crate) took: f64,
    pub(crate) start: Start,
}

/// Has a program run that has to succeed.
pub(crate) async fn succeed(engine: &Engine, task: &Task) -> Result<Ran> {
    let (took, execution) = call(engine, &task.request).await?;
    let said = execution.stdout.to_string();
    if execution.status != Status::Success || said != task.says {
        let why = execution.error.map(|error| error.message).unwrap_or(said);
        bail!("the isolated program ended as {:?}: {why} {}", execution.status, execution.stderr);
    }
    Ok(Ran { took, start: execution.start })
}

/// A request to a running engine: from the call to the record, in milliseconds, and the record.
pub(crate) async fn call(engine: &Engine, request: &Request) -> Result<(f64, Execution)> {
    let (events, mut happening) = mpsc::channel(64);
    let began = Instant::now();
    let work = async {
        let outcome = engine.execute(request, &events).await;
        drop(events);
        outcome
    };
    let (outcome, ()) = tokio::join!(work, async { while happening.recv().await.is_some() {} });
    let took = began.elapsed().as_secs_f64() * 1000.0;
    Ok((took, outcome?))
}
