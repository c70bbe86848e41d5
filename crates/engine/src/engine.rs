//! The one door: a request in, events while it runs, one record out.

mod hall;
mod home;
mod prepare;
mod request;
mod run;
mod sandbox;
mod warm;

pub use request::{Request, SourceFile};
pub(crate) use sandbox::check_concurrent;
pub use sandbox::{CONCURRENT, Sandbox, SandboxSpec};

use crate::EngineError;
use crate::aside::Aside;
use crate::conversation::{self, FAREWELL, Line, Speech};
use crate::execution::{Execution, Start};
use crate::input::Input;
use crate::isolator::native::{Lease, Native};
use crate::isolator::process::Process;
use crate::isolator::{Isolator, PlaceSpec};
use crate::limits::{Ceiling, Limits, Wanted};
use crate::pool::{Pool, PoolSettings, ShelfReport};
use crate::runtime::{Catalogue, Found, Runtime, find, plan};
use jail::JailError;
use jail::enter::Blank;
use jail::probe::Verdict;
use jail::spec::{HostDir, HostDirMode};
use protocol::StepKind;
use request::checked;
use run::Run;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long after its time an executor that has not ended its job is helped.
const OVERTIME: Duration = Duration::from_millis(100);
/// How long an answer takes to be stored and sent.
const ANSWERED: Duration = Duration::from_millis(2);

/// Something that happened while a program ran.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A toolchain is being prepared, once, which takes a while.
    Preparing {
        /// Language.
        language: String,
    },
    /// A step began.
    Started {
        /// What it is for.
        step: StepKind,
    },
    /// The program wrote.
    Stdout {
        /// Place in the order of all output.
        sequence: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// The program complained.
    Stderr {
        /// Place in the order of all output.
        sequence: u64,
        /// What.
        bytes: Vec<u8>,
    },
}

/// The engine.
pub struct Engine {
    catalogue: Catalogue,
    ceiling: Ceiling,
    native: Arc<Native>,
    process: Process,
    pool: Option<Arc<Pool>>,
    /// Programs that run.
    in_flight: AtomicUsize,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("ceiling", &self.ceiling).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine whose sandboxes run this executor, within this ceiling.
    pub fn new(executor: PathBuf, ceiling: Ceiling) -> Engine {
        Engine {
            catalogue: Catalogue::default(),
            ceiling,
            native: Arc::new(Native::new(executor.clone())),
            process: Process::new(executor),
            pool: None,
            in_flight: AtomicUsize::new(0),
        }
    }

    /// Uses a sandbox that was begun already for the first program that it suits.
    pub fn adopt(&mut self, begun: Blank) -> Result<(), EngineError> {
        match Arc::get_mut(&mut self.native) {
            Some(native) => native.adopt(begun),
            None => begun.discard().map_err(|error| EngineError::Refused { error, hint: None }),
        }
    }

    /// Makes every sandbox from nothing when it is asked for: without this one is begun while there is nothing else to do.
    /// Call it before anything else.
    pub fn begin_nothing_ahead(&mut self) {
        if let Some(native) = Arc::get_mut(&mut self.native) {
            native.begin_nothing_ahead();
        }
    }

    /// Keeps sandboxes with waiting programs from now on, of the kinds that are asked for. Call it in a runtime.
    pub fn keep_warm(&mut self, settings: PoolSettings) {
        // Who keeps some stays, and is asked again and again.
        if settings.max > 0 {
            jail::large::own_code();
        }
        self.pool = Some(Pool::start(self.native.clone(), settings));
    }

    /// How the sandboxes are doing that are kept.
    pub fn pool(&self) -> Vec<ShelfReport> {
        self.pool.as_ref().map(|pool| pool.report()).unwrap_or_default()
    }

    /// The most sandboxes of one kind that a template can have kept.
    pub fn template_max(&self) -> usize {
        let settings = self.pool.as_ref().map(|pool| pool.template_max());
        settings.unwrap_or_else(|| PoolSettings::default().template_max)
    }

    /// Whether as many are kept as there should be.
    pub fn is_warm(&self) -> bool {
        self.pool.as_ref().is_none_or(|pool| pool.is_full())
    }

    /// Remembers why no sandbox could be begun ahead, should none be possible later either.
    pub fn could_not_begin(&mut self, error: JailError) {
        if let Some(native) = Arc::get_mut(&mut self.native) {
            native.could_not_begin(error);
        }
    }

    /// Whether sandboxes can be made, as far as can be told without making one.
    pub async fn probe(&self) -> Result<(), EngineError> {
        self.native.probe().await
    }

    /// How well this host isolates, layer by layer. It is tried, which takes some milliseconds.
    pub fn verdict() -> Verdict {
        jail::probe::host().verdict()
    }

    /// The languages.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Languages this host has, by name.
    pub fn usable_languages(&self) -> Vec<String> {
        let all = self.catalogue.runtimes().unwrap_or_default();
        let usable = all.into_iter().filter(|runtime| find::find(runtime).is_ok());
        usable.map(|runtime| runtime.name.clone()).collect()
    }

    /// The most that can be had.
    pub fn ceiling(&self) -> &Limits {
        &self.ceiling.0
    }

    /// Whether these limits can be had.
    pub fn check_limits(&self, wanted: Wanted) -> Result<(), EngineError> {
        self.limits(wanted).map(drop)
    }

    /// What whoever asks for this gets.
    pub fn limits(&self, wanted: Wanted) -> Result<Limits, EngineError> {
        Limits::resolve(wanted, Wanted::default(), &self.ceiling)
    }

    /// Whether a program can be run as it is asked for, as far as that is known before. The name of its language.
    pub fn check(&self, request: &Request) -> Result<String, EngineError> {
        self.settled(request).map(|(runtime, ..)| runtime.name.clone())
    }

    /// Language, limits and main file of a program.
    fn settled(&self, request: &Request) -> Result<(&Runtime, Limits, String), EngineError> {
        let runtime = self.catalogue.by_name(&request.language)?;
        self.catalogue.offers(runtime, &request.mode)?;
        let limits = Limits::resolve(request.wanted()?, runtime.limits(), &self.ceiling)?;
        let main = checked(request, runtime, &limits)?;
        Ok((runtime, limits, main))
    }

    /// Runs a program. What happens meanwhile goes to `events`; closing their receiver ends the run.
    pub async fn execute(
        &self,
        request: &Request,
        events: &mpsc::Sender<Event>,
    ) -> Result<Execution, EngineError> {
        let _running = Running::new(&self.in_flight);
        let (runtime, limits, main) = self.settled(request)?;
        let run = Run { request, runtime, limits, main, visits: false, names: None };
        if let Some(done) = self.execute_warm(&run, events).await? {
            return Ok(done);
        }
        let found = find::find(runtime)?;
        if request.unsafe_no_isolation {
            self.native.give_up_first().await;
        }
        let isolator: &dyn Isolator =
            if request.unsafe_no_isolation { &self.process } else { self.native.as_ref() };
        let id = uuid::Uuid::now_v7().simple().to_string();
        let order = run.order(&found, &isolator.places(&id))?;
        let host_dirs = match request.unsafe_no_isolation {
            false => {
                // A program that is compiled already seldom needs what its compiler does.
                let prepared = found.variant.prepare.as_ref();
                let prepared =
                    prepared.is_some_and(|prepare| plan::mention(&order.job.steps, &prepare.mount));
                self.host_dirs(request, runtime, &found, prepared, events).await?
            }
            true => Vec::new(),
        };
        let spec = PlaceSpec {
            id,
            limits,
            network: request.network,
            profile: request.profile,
            host_dirs,
            allow_weaker: request.allow_weaker.clone(),
            zygote: None,
            keeper: false,
            seats: 0,
        };
        let started_at = jiff::Timestamp::now();
        let mut waited = None;
        if !request.unsafe_no_isolation
            && let Some((start, launcher)) = self.launcher(&spec).await
        {
            match run.launch(&order) {
                Some(task) => {
                    if let Some(done) = self.follow(launcher, task, &run, events, start).await {
                        return Ok(done);
                    }
                }
                None => waited = Some(launcher.into_place()),
            }
        }
        let words = run.words(&order)?;
        let start = if waited.is_some() { Start::Ready } else { Start::Cold };
        let (lease, place) = match waited {
            Some((lease, place)) => (Some(lease), place),
            None => {
                let place = isolator.create(&spec, &words, None).await?;
                let lease = || Lease::new(self.native.clone(), spec.id.clone());
                ((!request.unsafe_no_isolation).then(lease), place)
            }
        };
        let id = lease.as_ref().map_or(&spec.id, |lease| &lease.id).clone();
        let feed = request.stdin.as_ref().and_then(Input::feed);
        let speech = Speech { words: &words[place.told..], feed, farewell: FAREWELL };
        let relief = async {
            tokio::time::sleep(Duration::from_millis(order.job.limits.wall_ms) + OVERTIME).await;
            let _ = isolator.relieve(&id).await;
            std::future::pending::<()>().await;
        };
        let (mut line, mut receipt) = (Line::new(place.stream), place.receipt);
        let nobody = &mut Aside::default();
        let mut heard = tokio::select! {
            heard = conversation::hold(&mut line, &order.job, speech, events, &request.cancel, nobody) => heard,
            () = relief => unreachable!("relief never ends"),
        };
        let stream = line.into_stream();
        let usage = match (start, lease) {
            // It is destroyed, and replaced, when nobody waits for that.
            (Start::Ready, Some(lease)) => {
                let usage = self.counted(&heard, &id).await;
                self.later((stream, lease));
                usage
            }
            (_, Some(lease)) => {
                let finished = matches!(heard.end, conversation::End::Finished(_));
                lease.end(finished.then_some(stream)).await?
            }
            (_, None) => {
                drop(stream);
                isolator.destroy(&id).await?
            }
        };
        self.ring();
        if let (false, conversation::End::HungUp, true) =
            (heard.greeted, &heard.end, request.unsafe_no_isolation)
        {
            return Err(self.process.unusable());
        }
        heard.walled()?;
        order.keep(&mut heard, &found.variant.output);
        receipt.complete(heard.seccomp_sha256.take(), heard.landlock_abi);
        Ok(run.record(&id, &order.job.steps, heard, receipt, usage, (start, started_at)))
    }

    /// What the language needs of the host beside what every sandbox sees, with what was `prepared` or without.
    async fn host_dirs(
        &self,
        request: &Request,
        runtime: &Runtime,
        found: &Found<'_>,
        prepared: bool,
        events: &mpsc::Sender<Event>,
    ) -> Result<Vec<HostDir>, EngineError> {
        let mut dirs = Vec::new();
        if let Some((source, target)) = &found.toolchain {
            dirs.push(HostDir {
                source: source.clone(),
                target: target.clone(),
                mode: HostDirMode::ReadOnly,
            });
        }
        if let (Some(prepare), true) = (&found.variant.prepare, prepared) {
            let source = self.prepared(request, runtime, found, &dirs, events).await?;
            let target = PathBuf::from(&prepare.mount);
            dirs.push(HostDir { source, target, mode: HostDirMode::CopyOnWrite });
        }
        Ok(dirs)
    }

    /// Whether one program runs at most.
    fn is_alone(&self) -> bool {
        self.in_flight.load(Relaxed) <= 1
    }

    /// Lets go of something once whoever waits for us has been answered. To take a sandbox down and make the next one
    /// keeps all cores of a small machine busy, so where nobody else waits it is left until the answer is stored and
    /// sent.
    fn later(&self, what: impl Send + 'static) {
        let alone = self.is_alone();
        crate::afterwards(move || {
            tokio::spawn(async move {
                if alone {
                    tokio::time::sleep(ANSWERED).await;
                }
                drop(what);
            });
        });
    }
}

/// One program that runs.
struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    fn new(count: &'a AtomicUsize) -> Running<'a> {
        count.fetch_add(1, Relaxed);
        Running(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
