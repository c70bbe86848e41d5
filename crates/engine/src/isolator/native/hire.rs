//! Those who make places: the plain spawner, and a tree of interpreters.
//!
//! One that has loaded more is a copy of one that has loaded less. It has its orders from the engine and not from that
//! one, so it goes on when that one dies; who is asked for a copy and turns out to be gone is started again.

use super::refused;
use super::spawner::Spawner;
use crate::EngineError;
use crate::isolator::Zygote;
use protocol::spawner::{Order, Reply};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Most places a tree of loaded interpreters makes, and the longest time it makes them: all its copies have the same
/// layout of memory and the same seed of hashes, which nobody shall have much time to find out.
const MOST_COPIES: usize = 500;
const LONGEST_LIFE: Duration = Duration::from_secs(3600);

/// How often a copy of an interpreter is asked for, where that one turns out to be gone.
const BRANCH_TRIES: usize = 2;

/// Who makes places, by the interpreter they are.
pub(super) type Hires = HashMap<Option<Zygote>, Arc<Hire>>;

/// A spawner, once it has been started, and what it has done.
#[derive(Debug)]
pub(super) struct Hire {
    /// The interpreter it is, if it is one.
    zygote: Option<Zygote>,
    /// Whose copy that is.
    parent: Option<Arc<Hire>>,
    spawner: Mutex<Option<Spawner>>,
    tree: Arc<Tree>,
}

/// What interpreters that are copies of one another have done together.
#[derive(Debug)]
struct Tree {
    since: Instant,
    made: AtomicUsize,
}

impl Hire {
    pub(super) fn new(zygote: Option<Zygote>, parent: Option<Arc<Hire>>) -> Hire {
        let own = || Arc::new(Tree { since: Instant::now(), made: AtomicUsize::new(0) });
        let tree = parent.as_ref().map_or_else(own, |parent| parent.tree.clone());
        Hire { zygote, parent, spawner: Mutex::default(), tree }
    }

    /// Who makes places of this kind, and is not to be replaced yet.
    pub(super) fn find(hires: &mut Hires, zygote: &Option<Zygote>) -> Arc<Hire> {
        match hires.get(zygote).cloned() {
            Some(hire) if !hire.is_worn() => return hire,
            // All of its tree has the same layout of memory.
            Some(worn) => hires.retain(|_, hire| !Arc::ptr_eq(&hire.tree, &worn.tree)),
            None => {}
        }
        let parent = zygote.as_ref().and_then(Zygote::parent).map(|parent| Hire::find(hires, &Some(parent)));
        let hire = Arc::new(Hire::new(zygote.clone(), parent));
        hires.insert(zygote.clone(), hire.clone());
        hire
    }

    /// Whether another one should make what comes next.
    fn is_worn(&self) -> bool {
        let tree = &self.tree;
        self.zygote.is_some()
            && (tree.made.load(Relaxed) >= MOST_COPIES || tree.since.elapsed() >= LONGEST_LIFE)
    }

    /// Takes note of a place.
    pub(super) fn has_made_one(&self) {
        self.tree.made.fetch_add(1, Relaxed);
    }

    /// Starts it.
    async fn begin(&self, programs: &Programs) -> Result<Spawner, EngineError> {
        let (zygote, parent) = match (&self.zygote, &self.parent) {
            (None, _) => return Spawner::start(&programs.executor, programs.ahead),
            (Some(zygote), None) => return Spawner::start_zygote(zygote, &programs.library),
            (Some(zygote), Some(parent)) => (zygote, parent),
        };
        let mut tries = 1;
        loop {
            let (spawner, order, theirs) = Spawner::branch(zygote)?;
            // Boxed, because that one may have to be started by its own parent.
            match Box::pin(parent.obey(programs, &order, vec![theirs])).await {
                Ok(Reply::Branched) => return Ok(spawner),
                Ok(Reply::Failed { error }) => return Err(refused(error)),
                Ok(other) => return Err(EngineError::Broken(format!("the spawner answered {other:?}"))),
                Err(error) if tries == BRANCH_TRIES => return Err(error),
                Err(_) => tries += 1,
            }
        }
    }

    /// Has it carry out an order, and starts it before if need be.
    pub(super) async fn obey(
        &self,
        programs: &Programs,
        order: &Order,
        lines: Vec<OwnedFd>,
    ) -> Result<Reply, EngineError> {
        let mut spawner = self.spawner.lock().await;
        let mut running = match spawner.take() {
            Some(running) => running,
            None => self.begin(programs).await?,
        };
        let reply = running.order(order, lines).await;
        // A spawner that broke is not kept: its places are gone with it, and the next order starts another.
        if reply.is_ok() {
            *spawner = Some(running);
        }
        reply
    }
}

/// What spawners are made of.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) executor: PathBuf,
    /// The library that makes an interpreter a spawner.
    pub(super) library: PathBuf,
    /// Whether a place is begun before anybody asks for it.
    pub(super) ahead: bool,
}
