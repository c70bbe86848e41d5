//! Runs by programs that wait.

use super::run::Run;
use super::{Engine, Event, Request};
use crate::EngineError;
use crate::call::Mode;
use crate::conversation::{End, Heard};
use crate::execution::{Execution, Start};
use crate::isolator::native::KEEPERS;
use crate::isolator::{Isolator, PlaceSpec, Zygote};
use crate::pool::{Key, Pool, Taken, Warmth, ZygoteScope};
use crate::runtime::plan::{self, Purpose};
use crate::runtime::{Park, Warm, find};
use crate::warm::{Outcome, Program, Recipe, Task, fits};
use jail::spec::BoxUsage;
use protocol::Parked;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How often a request is tried with another waiting program when one turns out to be gone.
const TRIES: usize = 4;
/// What lasts longer than this does not keep the pool from replacing what was taken.
const SHORT: Duration = Duration::from_millis(5);

impl Engine {
    /// Runs a program by an interpreter that waits for one. `None` when this is not possible, and nothing has
    /// happened.
    pub(super) async fn execute_warm(
        &self,
        run: &Run<'_>,
        events: &mpsc::Sender<Event>,
    ) -> Result<Option<Execution>, EngineError> {
        let Some(pool) = self.pool.as_ref() else { return Ok(None) };
        let Some(key) = key(pool, run) else { return Ok(None) };
        for _ in 0..TRIES {
            let Some((start, program)) = self.waiting(pool, &key, run, events).await? else {
                return Ok(None);
            };
            if let Some(record) = self.follow(program, run.task(), run, events, start).await {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Has as many programs wait as the template of this one says, from now on, before anybody asks. Whether they will:
    /// not where each owner has an interpreter of its own, and nobody knows yet who will ask.
    pub async fn expect(&self, request: &Request) -> Result<bool, EngineError> {
        let Some(pool) = &self.pool else { return Ok(false) };
        let (runtime, limits, main) = self.settled(request)?;
        let run = Run { request, runtime, limits, main, visits: false, names: None };
        let Some(key) = key(pool, &run).filter(|key| key.owner.is_none()) else { return Ok(false) };
        let (events, mut nobody) = mpsc::channel(16);
        let recipe = tokio::select! {
            recipe = self.recipe(&run, &key, &events) => recipe?,
            () = async { while nobody.recv().await.is_some() {} } => None,
        };
        let found = recipe.is_some();
        if let Some(recipe) = recipe {
            pool.expect(key, recipe);
        }
        Ok(found)
    }

    /// Gives up what waits for programs of templates that are none of these.
    pub fn keep_templates(&self, templates: &[Arc<Warmth>]) {
        if let Some(pool) = &self.pool {
            pool.keep_templates(templates);
        }
    }

    /// Has a program that waits do this. `None` when it did not begin.
    pub(super) async fn follow(
        &self,
        mut program: Box<Program>,
        task: Task<'_>,
        run: &Run<'_>,
        events: &mpsc::Sender<Event>,
        start: Start,
    ) -> Option<Execution> {
        let started_at = jiff::Timestamp::now();
        let id = program.lease.id.clone();
        let over = Duration::from_millis(run.limits.timeout_ms) + super::OVERTIME;
        let meanwhile = async {
            tokio::time::sleep(SHORT).await;
            self.ring();
            tokio::time::sleep(over).await;
            let _ = self.native.relieve(&id).await;
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            biased;
            outcome = program.run(task, self.is_alone(), events, &run.request.cancel) => outcome,
            () = meanwhile => unreachable!("it never ends"),
        };
        let Outcome::Heard(heard) = outcome else { return None };
        let mut usage = self.counted(&heard, &id).await;
        if program.has_keeper {
            usage.pids_peak = usage.pids_peak.map(|peak| peak.saturating_sub(KEEPERS));
        }
        let receipt = program.receipt.clone();
        let record = run.record(&id, &[], *heard, receipt, usage, (start, started_at));
        self.later(program);
        Some(record)
    }

    /// Has what was taken from the pool replaced.
    pub(super) fn ring(&self) {
        if let Some(pool) = &self.pool {
            pool.ring();
        }
    }

    /// What the kernel counted, as PID 1 says, or else whoever can.
    pub(super) async fn counted(&self, heard: &Heard, id: &str) -> BoxUsage {
        match &heard.end {
            End::Finished(result) => result.counted.unwrap_or_default(),
            _ => self.native.usage(id).await.unwrap_or_default(),
        }
    }

    /// Somebody who waits to become any program, if anybody does. Making one for a request takes longer than doing
    /// without, so that is done only where the pool keeps nobody at all.
    pub(super) async fn launcher(&self, spec: &PlaceSpec) -> Option<(Start, Box<Program>)> {
        let pool = self.pool.as_ref()?;
        let key = Key {
            language: None,
            set: None,
            template: None,
            owner: None,
            limits: spec.limits.of_box(),
            network: spec.network,
            profile: spec.profile,
            host_dirs: spec.host_dirs.clone(),
            allow_weaker: spec.allow_weaker.clone(),
        };
        match pool.take(&key) {
            Taken::Waiting(program) => Some((Start::Ready, program)),
            Taken::Unknown => {
                let parked = Parked {
                    step: None,
                    source: None,
                    cpu_ms: self.ceiling.0.cpu_time_ms,
                    hurry: false,
                    keeper: false,
                };
                let recipe = Recipe { spec: spec.clone(), parked, rehearsal: String::new() };
                let recipe = pool.learn(key.clone(), recipe);
                let made = if pool.keeps_nobody() { pool.make(&key, &recipe, true).await.ok() } else { None };
                made.map(|program| (Start::Miss, program))
            }
            _ => None,
        }
    }

    /// One that waits: from the pool, or else a copy of an interpreter, made for this request.
    async fn waiting(
        &self,
        pool: &Pool,
        key: &Key,
        run: &Run<'_>,
        events: &mpsc::Sender<Event>,
    ) -> Result<Option<(Start, Box<Program>)>, EngineError> {
        let recipe = match pool.take(key) {
            Taken::Waiting(program) => return Ok(Some((Start::Hit, program))),
            Taken::ToMake(recipe) => recipe,
            Taken::Nothing => return Ok(None),
            Taken::Unknown => match self.recipe(run, key, events).await? {
                Some(recipe) => pool.learn(key.clone(), recipe),
                None => return Ok(None),
            },
        };
        // An interpreter that is started for one program is sooner there when it is started with it.
        if recipe.spec.zygote.is_none() && !pool.keeps_nobody() {
            return Ok(None);
        }
        // What does not work with a waiting program may work without.
        match pool.make(key, &recipe, true).await {
            Ok(program) => Ok(Some((Start::Miss, program))),
            Err(_) => Ok(None),
        }
    }

    /// How a place is made in which a program of this kind waits.
    async fn recipe(
        &self,
        run: &Run<'_>,
        key: &Key,
        events: &mpsc::Sender<Event>,
    ) -> Result<Option<Recipe>, EngineError> {
        let (request, runtime) = (run.request, run.runtime);
        let found = find::find(runtime)?;
        let Some(park) = &found.variant.park else { return Ok(None) };
        let places = self.native.places("");
        let usual = self.pool.as_ref().map(|pool| pool.rehearsal(&runtime.name)).unwrap_or_default();
        let template = key.template.as_deref();
        let step = plan::parked(runtime, &found, park, &run.limits, &places)?;
        let zygote = match (&step, runtime.warm, found.toolchain.is_some()) {
            (Some(_), Warm::Parked, _) => None,
            // What is loaded on the host has to be what is seen inside.
            (None, Warm::Zygote, false) => {
                match found.variant.needs.first().and_then(|name| found.program(name)) {
                    Some((_, program)) => Some(Zygote {
                        owner: key.owner.clone(),
                        program,
                        source: runtime.source.clone(),
                        env: plan::environment(&found, &[], &places)
                            .iter()
                            .filter_map(|variable| variable.split_once('='))
                            .map(|(name, value)| (name.to_owned(), value.to_owned()))
                            .collect(),
                        load_env: park.load_env.clone(),
                        loads: {
                            let modules = template.map(|template| template.modules(&runtime.name));
                            let mut loads = park.loads(key.set, modules.unwrap_or_default());
                            // What the operator wants rehearsed is done once before, as nothing of a template is.
                            if let (Some(first), false) = (loads.first_mut(), usual.is_empty()) {
                                first.warm_up.push(usual.clone());
                            }
                            loads
                        },
                    }),
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        let spec = PlaceSpec {
            id: String::new(),
            limits: run.limits,
            network: request.network,
            profile: request.profile,
            host_dirs: self.host_dirs(request, runtime, &found, true, events).await?,
            allow_weaker: request.allow_weaker.clone(),
            keeper: park.keeper || zygote.is_some(),
            zygote,
            seats: 0,
        };
        // How long it may run is not known yet; PID 1 will know.
        let parked = Parked {
            step,
            source: Some(runtime.source.clone()),
            cpu_ms: self.ceiling.0.cpu_time_ms,
            hurry: false,
            keeper: park.keeper,
        };
        let own = template.and_then(|template| template.rehearsal.get(&runtime.name).cloned());
        Ok(Some(Recipe { spec, parked, rehearsal: own.unwrap_or(usual) }))
    }
}

/// The kind of place this runs in, where a program that waits can do it.
fn key(pool: &Pool, run: &Run<'_>) -> Option<Key> {
    let (request, runtime) = (run.request, run.runtime);
    let copied = runtime.warm == Warm::Zygote;
    if !suits(run) || copied && pool.zygote_scope() == ZygoteScope::Off {
        return None;
    }
    let files = std::iter::once(&request.main).chain(&request.files).map(|file| file.content.as_slice());
    let park = runtime.variants.iter().find_map(|variant| variant.park.as_ref());
    let chosen =
        request.template.as_ref().is_some_and(|template| !template.modules(&runtime.name).is_empty());
    Some(Key {
        language: Some(runtime.name.clone()),
        // A template knows what its programs want.
        set: park.filter(|_| !chosen).and_then(|park| park.set_for(files)),
        template: request.template.clone(),
        owner: (copied && pool.zygote_scope() == ZygoteScope::Owner).then(|| request.owner.clone()),
        limits: run.limits.of_box(),
        network: request.network,
        profile: request.profile,
        // By the language, as long as it is installed as it was.
        host_dirs: Vec::new(),
        allow_weaker: request.allow_weaker.clone(),
    })
}

/// Whether a program that waits could do this as if it had been started for it.
fn suits(run: &Run<'_>) -> bool {
    let (request, runtime) = (run.request, run.runtime);
    let takes = |park: &Park| {
        request.env.iter().all(|(name, _)| park.takes(name)) && (park.args || request.args.is_empty())
    };
    request.purpose == Purpose::Run
        // What waits runs a main file as it always does, and nothing around it.
        && request.mode == Mode::Script
        && !request.unsafe_no_isolation
        && runtime.warm != Warm::None
        && (run.main == runtime.source || runtime.warm == Warm::Zygote)
        && fits(request.files.len() + 1, 0)
        && runtime.variants.iter().filter_map(|variant| variant.park.as_ref()).all(takes)
}
