//! The warm pool: places whose programs wait, made before anybody asks.
//!
//! One shelf for each kind of place, and for each template that says something about the pool. Taking from it is popping a queue. What was taken is replaced after the request
//! it was taken for is answered, by a task of its own, one place at a time for each processor. A shelf holds as many
//! as are asked for while one is being made, within the bounds of the settings; what nobody wants for a while is taken
//! down again. A place has one owner ever: it is never put back.

mod warmth;

pub use warmth::{MOST_REHEARSAL, TemplatePool, Warmth};

use crate::EngineError;
use crate::isolator::native::Native;
use crate::warm::{Program, Recipe};
use crate::{Layer, Network, Profile};
use jail::spec::{BoxLimits, HostDir};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use warmth::Bounds;

/// How many places are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// At least, of a kind that somebody has asked for lately.
    pub min: usize,
    /// At most, of one kind.
    pub max: usize,
    /// The most a template can ask for, of one kind.
    pub template_max: usize,
    /// How long nobody has to ask for a kind until its places are taken down.
    pub idle_timeout: Duration,
    /// Who shares a loaded interpreter, and so its layout of memory.
    pub zygote_scope: ZygoteScope,
    /// By language, a program that each copy of its interpreter runs before it waits: what it does, the request's
    /// program does faster, and what it keeps takes memory.
    pub rehearsal: BTreeMap<String, String>,
}

/// Who shares a loaded interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZygoteScope {
    /// Everybody whose programs want the same.
    Template,
    /// Programs of one owner.
    Owner,
    /// Nobody: there is none.
    Off,
}

impl Default for PoolSettings {
    fn default() -> PoolSettings {
        PoolSettings {
            min: 2,
            max: 16,
            template_max: 16,
            idle_timeout: Duration::from_secs(300),
            zygote_scope: ZygoteScope::Template,
            rehearsal: BTreeMap::new(),
        }
    }
}

/// What tells one kind of place from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Of the program that waits; none for one that becomes any program.
    pub(crate) language: Option<String>,
    /// Which of the sets of modules of that language is loaded.
    pub(crate) set: Option<usize>,
    /// The template whose programs it is for, if it is not for all that name none.
    pub(crate) template: Option<Arc<Warmth>>,
    /// Whose it is, where it is not for everybody.
    pub(crate) owner: Option<String>,
    pub(crate) limits: BoxLimits,
    pub(crate) network: Network,
    pub(crate) profile: Profile,
    pub(crate) host_dirs: Vec<HostDir>,
    pub(crate) allow_weaker: Vec<Layer>,
}

/// How a shelf is doing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShelfReport {
    /// Language of its programs; none where what waits becomes any program.
    pub language: Option<String>,
    /// Which of the sets of modules of that language is loaded, if any is.
    pub set: Option<usize>,
    /// The template it is for, if it is for one.
    pub template: Option<String>,
    /// How many wait.
    pub depth: usize,
    /// How many it would like to have.
    pub target: usize,
    /// How often one was there when it was asked for.
    pub hits: u64,
    /// How often none was.
    pub misses: u64,
    /// How often one that was there had died.
    pub dead: u64,
    /// How long making one takes, lately.
    pub refill_ms: f64,
    /// Why none can be made, while that is so.
    pub trouble: Option<String>,
}

/// What comes of asking for a place.
pub(crate) enum Taken {
    /// One that waits.
    Waiting(Box<Program>),
    /// None is there; this is how one is made.
    ToMake(Arc<Recipe>),
    /// None is there, and making one does not work at the moment.
    Nothing,
    /// Nobody has asked for this kind before.
    Unknown,
}

struct Shelf {
    recipe: Arc<Recipe>,
    bounds: Bounds,
    /// Whether the least is there also when nobody asks.
    always: bool,
    ready: VecDeque<Box<Program>>,
    making: usize,
    /// When places were asked for lately, the newest last.
    asked: VecDeque<Instant>,
    refill: Duration,
    hits: u64,
    misses: u64,
    dead: u64,
    /// Nothing is made before then, because making it failed.
    not_before: Option<Instant>,
    /// Why it did.
    trouble: Option<String>,
}

/// How far back demand is looked at.
const WINDOW: Duration = Duration::from_secs(1);
/// How long a kind that cannot be made is left alone, and how many times as long as it took to find that out.
const SULK: Duration = Duration::from_secs(1);
const SULKS: u32 = 10;

impl Shelf {
    fn new(recipe: Arc<Recipe>, bounds: Bounds) -> Shelf {
        Shelf {
            recipe,
            bounds,
            always: false,
            ready: VecDeque::new(),
            making: 0,
            asked: VecDeque::new(),
            refill: Duration::ZERO,
            hits: 0,
            misses: 0,
            dead: 0,
            not_before: None,
            trouble: None,
        }
    }

    /// What is asked for while one is being made, and the least on top of it.
    fn target(&self, now: Instant) -> usize {
        if self.idle_at().is_none_or(|at| at <= now) {
            return if self.always { self.bounds.min } else { 0 };
        }
        let lately = self.asked.iter().rev().take_while(|at| now.duration_since(**at) < WINDOW).count();
        let meanwhile = lately as f64 * self.refill.as_secs_f64() / WINDOW.as_secs_f64();
        (self.bounds.min + meanwhile.ceil() as usize).min(self.bounds.max)
    }

    /// When nobody has asked for long enough; nothing if nobody ever did.
    fn idle_at(&self) -> Option<Instant> {
        self.asked.back().map(|last| *last + self.bounds.idle_timeout)
    }

    fn ask(&mut self, now: Instant) {
        self.asked.push_back(now);
        // More than this many a second and the target is the maximum anyway.
        while self.asked.len() > 64 * self.bounds.max.max(1) {
            self.asked.pop_front();
        }
    }
}

/// The pool.
pub(crate) struct Pool {
    native: Arc<Native>,
    settings: PoolSettings,
    shelves: Mutex<HashMap<Key, Shelf>>,
    /// Rung when something is to be made or taken down.
    bell: Arc<Notify>,
}

impl Pool {
    /// A pool of this isolator's places. Call it in a runtime: it has a task of its own.
    pub(crate) fn start(native: Arc<Native>, settings: PoolSettings) -> Arc<Pool> {
        let pool = Arc::new(Pool { native, settings, shelves: Mutex::default(), bell: Arc::default() });
        tokio::spawn(keep(Arc::downgrade(&pool)));
        pool
    }

    /// Who shares a loaded interpreter.
    pub(crate) fn zygote_scope(&self) -> ZygoteScope {
        self.settings.zygote_scope
    }

    /// The most a template can ask for.
    pub(crate) fn template_max(&self) -> usize {
        self.settings.template_max
    }

    /// Whether everything is made for the request that wants it.
    pub(crate) fn keeps_nobody(&self) -> bool {
        self.settings.max == 0
    }

    /// What each copy of an interpreter does before it waits.
    pub(crate) fn rehearsal(&self, language: &str) -> String {
        self.settings.rehearsal.get(language).cloned().unwrap_or_default()
    }

    fn shelves(&self) -> MutexGuard<'_, HashMap<Key, Shelf>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one that waits, or learns how to come by one.
    pub(crate) fn take(&self, key: &Key) -> Taken {
        let now = Instant::now();
        let mut shelves = self.shelves();
        let Some(shelf) = shelves.get_mut(key) else { return Taken::Unknown };
        shelf.ask(now);
        while let Some(waiting) = shelf.ready.pop_front() {
            if waiting.is_alive() {
                shelf.hits += 1;
                return Taken::Waiting(waiting);
            }
            // Which takes it down in its own time.
            drop(waiting);
            shelf.dead += 1;
        }
        shelf.misses += 1;
        match shelf.not_before {
            Some(at) if at > now => Taken::Nothing,
            _ => Taken::ToMake(shelf.recipe.clone()),
        }
    }

    /// Learns how places of this kind are made; they are kept from now on.
    pub(crate) fn learn(&self, key: Key, recipe: Recipe) -> Arc<Recipe> {
        let recipe = Arc::new(recipe);
        self.learned(&mut self.shelves(), key, &recipe).ask(Instant::now());
        recipe
    }

    /// The same before anybody has asked for one: the least of them is always there.
    pub(crate) fn expect(&self, key: Key, recipe: Recipe) {
        self.learned(&mut self.shelves(), key, &Arc::new(recipe)).always = true;
        self.ring();
    }

    fn learned<'s>(
        &self,
        shelves: &'s mut HashMap<Key, Shelf>,
        key: Key,
        recipe: &Arc<Recipe>,
    ) -> &'s mut Shelf {
        let bounds = Bounds::of(key.template.as_deref(), &self.settings);
        let shelf = shelves.entry(key).or_insert_with(|| Shelf::new(recipe.clone(), bounds));
        shelf.recipe = recipe.clone();
        shelf
    }

    /// Gives up what is kept for templates that are none of these.
    pub(crate) fn keep_templates(&self, templates: &[Arc<Warmth>]) {
        let mut shelves = self.shelves();
        let before = shelves.len();
        shelves.retain(|key, _| key.template.as_ref().is_none_or(|template| templates.contains(template)));
        if shelves.len() < before {
            let wanted: Vec<_> =
                shelves.values().filter_map(|shelf| shelf.recipe.spec.zygote.clone()).collect();
            drop(shelves);
            self.native.keep_only(&wanted);
        }
    }

    /// Makes one, in a `hurry` where somebody waits for it.
    pub(crate) async fn make(
        &self,
        key: &Key,
        recipe: &Recipe,
        hurry: bool,
    ) -> Result<Box<Program>, EngineError> {
        let began = Instant::now();
        let mut made = Program::make(&self.native, recipe, hurry).await.map(Box::new);
        if let Ok(waiting) = &mut made {
            waiting.lease.bell = Some(self.bell.clone());
        }
        if let Some(shelf) = self.shelves().get_mut(key) {
            shelf.trouble = made.as_ref().err().map(ToString::to_string);
            let sulk = SULK.max(began.elapsed() * SULKS);
            shelf.not_before = shelf.trouble.as_ref().map(|_| Instant::now() + sulk);
        }
        made
    }

    /// Has what was taken replaced.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// How it is doing.
    pub(crate) fn report(&self) -> Vec<ShelfReport> {
        let now = Instant::now();
        let report = |(key, shelf): (&Key, &Shelf)| ShelfReport {
            language: key.language.clone(),
            set: key.set,
            template: key.template.as_ref().map(|template| template.template.clone()),
            depth: shelf.ready.len(),
            target: shelf.target(now),
            hits: shelf.hits,
            misses: shelf.misses,
            dead: shelf.dead,
            refill_ms: shelf.refill.as_secs_f64() * 1000.0,
            trouble: shelf.trouble.clone(),
        };
        self.shelves().iter().map(report).collect()
    }

    /// Whether every shelf has what it wants.
    pub(crate) fn is_full(&self) -> bool {
        let now = Instant::now();
        self.shelves().values().all(|shelf| shelf.ready.len() >= shelf.target(now))
    }

    /// What is to be made next, and when there will be something to do if nobody rings.
    fn next(&self) -> (Option<(Key, Arc<Recipe>)>, Option<Instant>) {
        let now = Instant::now();
        let mut wake = None;
        let mut next = None;
        for (key, shelf) in self.shelves().iter_mut() {
            let target = shelf.target(now);
            let idle = shelf.idle_at().filter(|at| *at > now);
            if idle.is_none() {
                shelf.ready.truncate(target);
            }
            let sulks = shelf.not_before.filter(|at| *at > now);
            if shelf.ready.len() + shelf.making < target && next.is_none() && sulks.is_none() {
                shelf.making += 1;
                next = Some((key.clone(), shelf.recipe.clone()));
            }
            wake = [wake, sulks, idle].into_iter().flatten().min();
        }
        (next, wake)
    }

    /// Puts on its shelf what was made.
    fn made(&self, key: &Key, outcome: Result<Box<Program>, EngineError>, took: Duration) {
        let mut shelves = self.shelves();
        let Some(shelf) = shelves.get_mut(key) else { return };
        shelf.making = shelf.making.saturating_sub(1);
        // Where it failed, whoever asks for one runs without it meanwhile.
        if let Ok(waiting) = outcome {
            shelf.ready.push_back(waiting);
            let old = if shelf.refill.is_zero() { took } else { shelf.refill };
            shelf.refill = (old * 7 + took) / 8;
        }
    }
}

/// Keeps the shelves as they should be, for as long as there is a pool.
async fn keep(pool: Weak<Pool>) {
    let hands = std::thread::available_parallelism().map_or(1, usize::from);
    let busy = Arc::new(tokio::sync::Semaphore::new(hands));
    loop {
        let Ok(hand) = busy.clone().acquire_owned().await else { return };
        let Some(strong) = pool.upgrade() else { return };
        let (next, wake) = strong.next();
        match next {
            Some((key, recipe)) => {
                tokio::spawn(async move {
                    let began = Instant::now();
                    let outcome = strong.make(&key, &recipe, false).await;
                    strong.made(&key, outcome, began.elapsed());
                    drop(hand);
                    strong.bell.notify_one();
                });
            }
            None => {
                drop(hand);
                let bell = strong.bell.clone();
                // It must be able to end while nobody rings.
                drop(strong);
                match wake {
                    Some(at) => drop(tokio::time::timeout_at(at.into(), bell.notified()).await),
                    None => bell.notified().await,
                }
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Whoever keeps the shelves shall notice.
        self.bell.notify_one();
    }
}
