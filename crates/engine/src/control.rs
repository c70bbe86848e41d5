//! The control plane: what a server does beside running one program. Executions that are stored and can be followed,
//! sessions with a life of their own, templates, whose turn it is, and what a restart finds.
//!
//! [`ControlPlane`] is its one door, and every API is a translation onto it. It decides; the engine runs, and storage
//! remembers.

mod archive;
mod breaker;
mod dependencies;
mod error;
mod executions;
mod files;
mod live;
mod named;
mod nodes;
mod program;
mod reconcile;
mod running;
mod session;
mod sessions;
mod templates;
mod traced;
mod turns;
mod workspace;

pub use archive::{Archive, ArchiveStream, Unpacked};
pub use dependencies::{
    Dependencies, Index, Install, InstallPolicy, InstallStatus, Installed, PACKAGES, Package,
};
pub use error::ControlError;
pub use executions::{Accepted, Done, Follow, Hear};
pub use files::{FileList, OpenFile, Upload};
pub use live::{Happening, What};
pub use nodes::{NodeLoad, NodeSpec, NodeView};
pub use program::{Defaults, Mode, Program, ProgramFile};
pub use reconcile::Checked;
pub use session::{NewSession, SessionSpec, SessionView};
pub use templates::TemplateSpec;
pub use turns::Bounds;

use crate::Engine;
use crate::storage::{NodeStatus, Retention, Store};
use breaker::Breaker;
use live::Live;
use session::LiveSession;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use turns::Turns;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose things they see.
    pub tenant: Arc<str>,
    /// What they may have.
    pub bounds: Bounds,
}

/// How a control plane behaves.
#[derive(Clone, Debug)]
pub struct ControlSettings {
    /// Its name among others that share its storage.
    pub node: String,
    /// Programs that run at once.
    pub max_running: usize,
    /// Programs that wait for their turn.
    pub max_queued: usize,
    /// Programs of one session that wait for those before them.
    pub session_queue: usize,
    /// Programs of one session that may run at once, where it asks for that.
    pub max_concurrent: u32,
    /// Sessions that are not over.
    pub max_sessions: usize,
    /// How long a session may do nothing, in milliseconds; -1 for ever.
    pub session_idle_ms: i64,
    /// How long a session may live, likewise.
    pub session_lifetime_ms: i64,
    /// What a session is made from that does not say.
    pub default_template: String,
    /// How often a workspace that changed is saved.
    pub checkpoint_interval: Duration,
    /// Bytes of output kept for whoever comes back to a stream.
    pub stream_bytes: usize,
    /// Output of up to this many bytes a stream stays in a record.
    pub inline_output: usize,
    /// Whether results are stored that somebody waited for; where nobody can ask for one again there is no need to.
    pub keep_results: bool,
    /// How often something is tried whose program had not begun.
    pub retry_attempts: u32,
    /// How long to wait before the second time.
    pub retry_base: Duration,
    /// How much longer before each further one.
    pub retry_factor: f64,
    /// And never longer than this.
    pub retry_max: Duration,
    /// Sandboxes that cannot be made in a row before none is tried for a while.
    pub breaker_failures: u32,
    /// How long that is.
    pub breaker_rest: Duration,
    /// How long things are kept.
    pub retention: Retention,
    /// How often what is old is removed.
    pub sweep_interval: Duration,
    /// What programs get that do not ask for something else.
    pub defaults: Defaults,
    /// Whether sessions may ask for the network of this host.
    pub allow_host_network: bool,
    /// Which packages sessions may install, over the network of this host.
    pub install: InstallPolicy,
}

impl Default for ControlSettings {
    fn default() -> ControlSettings {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let days = |days: u64| Some(Duration::from_secs(days * 24 * 3600));
        ControlSettings {
            node: "local".into(),
            max_running: 4 * cores,
            max_queued: 1000,
            session_queue: 10,
            max_concurrent: 8,
            max_sessions: 200,
            session_idle_ms: 3_600_000,
            session_lifetime_ms: 24 * 3_600_000,
            default_template: "python-basic".into(),
            checkpoint_interval: Duration::from_secs(30),
            stream_bytes: 4 << 20,
            inline_output: crate::storage::INLINE_OUTPUT,
            keep_results: true,
            retry_attempts: 3,
            retry_base: Duration::from_secs(1),
            retry_factor: 2.0,
            retry_max: Duration::from_secs(10),
            breaker_failures: 5,
            breaker_rest: Duration::from_secs(10),
            retention: Retention {
                executions: days(30),
                sessions: days(30),
                events: days(7),
                claims: days(1),
            },
            sweep_interval: Duration::from_secs(300),
            defaults: Defaults::default(),
            allow_host_network: false,
            install: InstallPolicy::Off,
        }
    }
}

/// How long an execution that is over can still be followed from memory.
const LINGER: Duration = Duration::from_secs(30);
/// How often sessions are looked at whose time may be over.
const LOOK: Duration = Duration::from_secs(5);
/// How often events of other servers are looked for.
const GLANCE: Duration = Duration::from_secs(1);

/// How much there is of everything at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Programs that run.
    pub running: usize,
    /// Programs that wait for their turn.
    pub queued: usize,
    /// Sessions that have a sandbox.
    pub sessions: usize,
}

/// The control plane.
#[derive(Debug)]
pub struct ControlPlane {
    engine: Arc<Engine>,
    store: Arc<Store>,
    settings: ControlSettings,
    turns: Arc<Turns>,
    breaker: Breaker,
    live: Mutex<Executions>,
    sessions: Mutex<Sessions>,
    /// Rung when one of them is there, or is gone.
    settled: Notify,
    /// Rung when a template is another than it was.
    templates_changed: Notify,
    ending: watch::Sender<bool>,
}

/// Executions that are not over, and those that were until a moment ago.
#[derive(Debug, Default)]
struct Executions {
    by_id: HashMap<String, Arc<Live>>,
    over: VecDeque<(Instant, String)>,
}

/// Owner and id of a session.
type Name = (Arc<str>, String);

/// Sessions that have a sandbox, and by how many those are made that are about to: one at most succeeds.
#[derive(Debug, Default)]
struct Sessions {
    live: HashMap<Name, Arc<LiveSession>>,
    coming: HashMap<Name, usize>,
}

impl Sessions {
    fn has(&self, name: &Name) -> bool {
        self.live.contains_key(name) || self.coming.contains_key(name)
    }
}

impl ControlPlane {
    /// Begins: sees to what an earlier life left behind, and from then on to what is due. Call it in a runtime.
    pub async fn start(
        engine: Arc<Engine>,
        store: Arc<Store>,
        settings: ControlSettings,
    ) -> Result<Arc<ControlPlane>, ControlError> {
        let turns = Turns::new(settings.max_running, settings.max_queued);
        let breaker = Breaker::new("native", settings.breaker_failures, settings.breaker_rest);
        let plane = Arc::new(ControlPlane {
            engine,
            store,
            settings,
            turns,
            breaker,
            live: Mutex::default(),
            sessions: Mutex::default(),
            settled: Notify::new(),
            templates_changed: Notify::new(),
            ending: watch::Sender::new(false),
        });
        plane.seed_templates().await?;
        plane.reconcile().await?;
        tokio::spawn(plane.clone().look_after());
        tokio::spawn(plane.clone().listen());
        tokio::spawn(plane.clone().follow_templates());
        Ok(plane)
    }

    /// The engine it runs programs with.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Where it remembers.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// How it behaves.
    pub fn settings(&self) -> &ControlSettings {
        &self.settings
    }

    /// How much there is at the moment.
    pub fn load(&self) -> Load {
        let (running, queued) = self.turns.count();
        Load { running, queued, sessions: locked(&self.sessions).live.len() }
    }

    /// Why no sandboxes are made at the moment, while that is so.
    pub fn resting(&self) -> Option<String> {
        self.breaker.resting()
    }

    /// Ends: what runs is cancelled, and workspaces of sessions are saved. What was only submitted is run by the next
    /// one.
    pub async fn end(self: &Arc<ControlPlane>) {
        self.ending.send_replace(true);
        let running: Vec<Arc<Live>> = locked(&self.live).by_id.values().cloned().collect();
        running.iter().for_each(|live| live.cancel.cancel());
        let over = async {
            for live in &running {
                live.over().await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(5), over).await;
        self.stop_all_sessions("the server ended").await;
        // Whoever reads it finds out by its silence otherwise.
        let _ = self.tell_of(&NodeView { status: NodeStatus::Offline, ..self.this_node() }).await;
    }

    fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Sees to what is due, until the end.
    async fn look_after(self: Arc<ControlPlane>) {
        let mut ending = self.ending.subscribe();
        let mut swept = Instant::now();
        let mut told = 0;
        loop {
            self.beat(&mut told).await;
            tokio::select! {
                _ = ending.wait_for(|ending| *ending) => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            self.forget_executions();
            self.end_due_sessions().await;
            self.save_changed_workspaces().await;
            if swept.elapsed() >= self.settings.sweep_interval {
                swept = Instant::now();
                // What cannot be removed now can be the next time.
                let _ = self.store.prune(&self.settings.retention, now()).await;
                let _ = self.store.sweep_objects(now()).await;
            }
        }
    }

    /// Notices what other servers on the same storage have told, until the end.
    async fn listen(self: Arc<ControlPlane>) {
        let mut ending = self.ending.subscribe();
        let mut seen = 0;
        loop {
            tokio::select! {
                _ = ending.wait_for(|ending| *ending) => return,
                () = tokio::time::sleep(GLANCE) => {}
            }
            // Storage that is away has no news.
            let _ = self.store.look_for_news(&mut seen).await;
        }
    }

    /// Lets go of executions that were over a while ago.
    fn forget_executions(&self) {
        let mut live = locked(&self.live);
        while live.over.front().is_some_and(|(at, _)| at.elapsed() >= LINGER) {
            if let Some((_, id)) = live.over.pop_front() {
                live.by_id.remove(&id);
            }
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
