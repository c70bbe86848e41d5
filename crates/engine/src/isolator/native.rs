//! The native isolator: Linux namespaces, made by our own spawner. The default.
//!
//! One spawner process serves all places of this engine, and one more for each interpreter whose copies wait in
//! places. It is started when it is needed and ends, with everything it made, when the engine does. Somebody who wants
//! just one place and wants it now can begin it before there is an engine, and let the engine adopt it.
//!
//! Interpreters form a tree: one that has loaded more is a copy of one that has loaded less, shares its memory, and goes
//! on when that one dies.

mod hire;
mod skeleton;
mod spawner;

use super::{Isolator, Place, PlaceSpec, Zygote, no_executor, open_stream};
use crate::execution::Receipt;
use crate::rootfs::policy;
use crate::runtime::plan::{LIBRARY, Places};
use crate::{EngineError, Network};
use async_trait::async_trait;
use hire::{Hire, Hires, Programs};
use jail::enter::{Blank, JailBox, Janitor, Lines};
use jail::spec::{BoxUsage, HostDir, HostDirMode, JailSpec, Layers, ScratchDir, Seats};
use jail::{JailError, SingleThreaded, Step};
use protocol::spawner::{Order, Reply};
use rustix::io::Errno;
use spawner::PATIENCE;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, Notify, oneshot};

/// Processes of ours beside PID 1 where a program waits whose memory is kept: the one that keeps it.
pub(crate) const KEEPERS: u64 = 1;

/// The isolator of namespaces.
#[derive(Debug)]
pub struct Native {
    programs: Programs,
    /// The plain one, and one for each zygote. One that is worn stays until the last of its places is gone.
    spawners: std::sync::Mutex<Hires>,
    /// Places by name, and who made them.
    standing: std::sync::Mutex<BTreeMap<String, Arc<Hire>>>,
    first: Mutex<First>,
    /// Prepared roots by what they have, so that they are looked for once.
    roots: std::sync::Mutex<HashMap<(Vec<PathBuf>, bool), PathBuf>>,
    /// Whether any spawner ever obeyed: then one that does not has broken, and is not one that never could.
    obeyed: AtomicBool,
}

impl Native {
    /// An isolator whose places run this executor.
    pub fn new(executor: PathBuf) -> Native {
        let library = executor.with_file_name(LIBRARY);
        Native {
            programs: Programs { executor, library, ahead: true },
            spawners: std::sync::Mutex::default(),
            standing: std::sync::Mutex::default(),
            first: Mutex::default(),
            roots: std::sync::Mutex::default(),
            obeyed: AtomicBool::new(false),
        }
    }

    /// Begins no place before it is asked for.
    pub fn begin_nothing_ahead(&mut self) {
        self.programs.ahead = false;
    }

    /// Uses a box that was begun already for the first place that it suits, and lets it furnish itself.
    pub fn adopt(&mut self, mut begun: Blank) -> Result<(), EngineError> {
        let furnished =
            self.jail_spec(&PlaceSpec::usual()).and_then(|spec| begun.furnish(&spec).map_err(refused));
        // Kept even when that failed: somebody has to take it down.
        self.first.get_mut().begun = Some(begun);
        furnished
    }

    /// Takes down the box that was begun, because nobody wants it.
    pub async fn give_up_first(&self) {
        let _ = self.first.lock().await.begun.take().map(Blank::discard);
    }

    /// Remembers why no box could be begun ahead, should none be possible later either.
    pub fn could_not_begin(&mut self, error: JailError) {
        self.first.get_mut().failed = Some(error);
    }

    /// The specification of a box: the policy, and what this place asks for beside it.
    fn jail_spec(&self, spec: &PlaceSpec) -> Result<JailSpec, EngineError> {
        let policy = policy();
        let strict = spec.profile == crate::Profile::Strict;
        let is_tree = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
        let own = policy.host.iter().map(|tree| tree.path.clone()).filter(is_tree).map(|path| HostDir {
            source: path.clone(),
            target: path,
            mode: HostDirMode::ReadOnly,
        });
        let host_dirs: Vec<HostDir> = own.chain(spec.host_dirs.iter().cloned()).collect();
        let targets: Vec<PathBuf> = host_dirs.iter().map(|dir| dir.target.clone()).collect();
        let mut limits = spec.limits.of_box();
        if spec.keeper {
            limits.pids += KEEPERS as u32;
        }
        limits.pids += spec.seats;
        let own = || vec![PathBuf::from(self.places(&spec.id).build)];
        Ok(JailSpec {
            id: spec.id.clone(),
            hostname: "sandbox".into(),
            skeleton: self.root(targets, spec.network)?,
            host_dirs,
            scratch: policy
                .scratch
                .iter()
                .map(|dir| ScratchDir { target: dir.path.clone(), mode: dir.mode, exec: dir.exec })
                .collect(),
            devices: policy.device.iter().map(|device| device.name.clone()).collect(),
            proc_masks: policy.proc.masked.iter().map(|[name, _]| name.clone()).collect(),
            proc_read_only: policy.proc.read_only.iter().map(|[name, _]| name.clone()).collect(),
            proc_pids_only: strict,
            network: spec.network,
            profile: spec.profile,
            limits,
            allow_weaker: spec.allow_weaker.clone(),
            seats: (spec.seats > 0).then(|| Seats { count: spec.seats, own: own() }),
        })
    }

    fn root(&self, targets: Vec<PathBuf>, network: Network) -> Result<PathBuf, EngineError> {
        let key = (targets, network == Network::Host);
        let mut roots = locked(&self.roots);
        if let Some(root) = roots.get(&key) {
            return Ok(root.clone());
        }
        let root = skeleton::prepare(&key.0, network, &self.programs.library)?;
        roots.insert(key, root.clone());
        Ok(root)
    }

    /// Makes a box: of the one that was begun already, if it suits, or else by the spawner.
    async fn make(
        &self,
        zygote: &Option<Zygote>,
        spec: JailSpec,
        lines: Lines,
    ) -> Result<Layers, EngineError> {
        let begun = self.first.lock().await.begun.take();
        if let Some(begun) = begun {
            if zygote.is_none() && begun.suits(&spec) {
                return self.make_first(begun, &spec, lines).await;
            }
            begun.discard().map_err(refused)?;
        }
        let Lines { control, program, seats } = lines;
        let lines = std::iter::once(control).chain(program.into_iter().flatten()).chain(seats).collect();
        let (hire, id) = (Hire::find(&mut locked(&self.spawners), zygote), spec.id.clone());
        match self.order(&hire, Order::Make { spec: Box::new(spec) }, lines).await {
            Ok(Reply::Made { layers }) => {
                hire.has_made_one();
                locked(&self.standing).insert(id, hire);
                Ok(layers)
            }
            Ok(Reply::Failed { error }) => Err(refused(error)),
            Ok(other) => Err(EngineError::Broken(format!("the spawner answered {other:?}"))),
            // Where no box could be begun, that tells more than that no spawner could be started either.
            Err(error) => Err(self.first.lock().await.failed.take().map_or(error, refused)),
        }
    }

    async fn make_first(&self, begun: Blank, spec: &JailSpec, lines: Lines) -> Result<Layers, EngineError> {
        let rising = begun.finish(spec, lines).map_err(refused)?;
        // While it rises there is time to see to its end.
        let janitor = match SingleThreaded::prove() {
            Some(proof) => rising.janitor(&proof).map_err(refused)?,
            None => return Err(EngineError::Broken("a thread was started before the first sandbox".into())),
        };
        let news =
            async { pipe::Receiver::from_owned_fd(rising.report().try_clone_to_owned()?)?.readable().await };
        match tokio::time::timeout(PATIENCE, news).await {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(EngineError::Broken(format!("the report of the sandbox: {e}"))),
            Err(_) => return Err(EngineError::Broken("the sandbox does not get ready".into())),
        }
        let jail_box = rising.stand().map_err(refused)?;
        let layers = jail_box.layers.clone();
        self.first.lock().await.standing = Some((spec.id.clone(), jail_box, janitor));
        locked(&self.standing).insert(spec.id.clone(), Arc::new(Hire::new(None, None)));
        Ok(layers)
    }

    /// Lets go of interpreters that neither make any of these nor are what they are copies of. They end with the last of
    /// their places.
    pub(crate) fn keep_only(&self, wanted: &[Zygote]) {
        let is_needed = |zygote: &Zygote| wanted.iter().any(|one| one.comes_from(zygote));
        locked(&self.spawners).retain(|zygote, _| zygote.as_ref().is_none_or(is_needed));
    }

    /// Who made the place of that name.
    fn maker(&self, id: &str) -> Result<Arc<Hire>, EngineError> {
        let unknown = || EngineError::Broken(format!("no place is named `{id}`"));
        locked(&self.standing).get(id).cloned().ok_or_else(unknown)
    }

    /// Gives an order. It is carried out even if nobody waits for the answer any more; a place that nobody waits for is
    /// destroyed at once.
    async fn order(&self, hire: &Arc<Hire>, order: Order, lines: Vec<OwnedFd>) -> Result<Reply, EngineError> {
        let (hire, programs) = (hire.clone(), self.programs.clone());
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let reply = hire.obey(&programs, &order, lines).await;
            let made = matches!(reply, Ok(Reply::Made { .. }));
            // An answer that was sent may still be read by nobody.
            let (taken, wanted) = oneshot::channel();
            let _ = answer.send((reply, taken));
            if let (true, Order::Make { spec }) = (made, &order)
                && wanted.await.is_err()
            {
                let _ = hire.obey(&programs, &Order::Destroy { id: spec.id.clone() }, Vec::new()).await;
            }
        });
        let (reply, taken) = answered.await.map_err(|_| EngineError::Broken("nobody obeys".into()))?;
        let _ = taken.send(());
        match reply {
            Ok(reply) => {
                self.obeyed.store(true, Relaxed);
                Ok(reply)
            }
            Err(EngineError::Unavailable { what, .. }) if self.obeyed.load(Relaxed) => {
                Err(EngineError::Broken(what))
            }
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Isolator for Native {
    fn kind(&self) -> &'static str {
        "native"
    }

    async fn probe(&self) -> Result<(), EngineError> {
        crate::rootfs::check()?;
        let executor = &self.programs.executor;
        let said = first_words(executor).await.map_err(|e| no_executor(executor, &e))?;
        match said == concat!("sandbox-executor ", env!("CARGO_PKG_VERSION"), "\n").as_bytes() {
            true => Ok(()),
            false => Err(no_executor(executor, &"it does not say that it is one of this version")),
        }
    }

    fn places(&self, _id: &str) -> Places {
        Places { workspace: "/workspace".into(), build: "/build".into(), isolated: true }
    }

    async fn create(
        &self,
        spec: &PlaceSpec,
        opening: &[u8],
        program: Option<[OwnedFd; 3]>,
    ) -> Result<Place, EngineError> {
        crate::rootfs::check()?;
        let (stream, theirs, told) = open_stream(opening)?;
        let mut lines = Lines { control: theirs.into(), program, seats: Vec::new() };
        let mut seats = Vec::new();
        for _ in 0..spec.seats {
            let (ours, theirs, _) = open_stream(&[])?;
            seats.push(ours);
            lines.seats.push(theirs.into());
        }
        let layers = self.make(&spec.zygote, self.jail_spec(spec)?, lines).await?;
        if layers.seats != spec.seats {
            // It was made by somebody who has never heard of them.
            self.destroy(&spec.id).await?;
            return Err(no_executor(&self.programs.executor, &"it runs one program at a time"));
        }
        Ok(Place { stream, seats, told, receipt: Receipt::native(&layers, &spec.profile.to_string()) })
    }

    async fn usage(&self, id: &str) -> Result<BoxUsage, EngineError> {
        if let Some(jail_box) = self.first.lock().await.named(id) {
            return Ok(jail_box.cgroup.usage());
        }
        match self.order(&self.maker(id)?, Order::Measure { id: id.into() }, Vec::new()).await? {
            Reply::Measured { usage } => Ok(usage),
            other => Err(EngineError::Broken(format!("the spawner answered {other:?}"))),
        }
    }

    async fn destroy(&self, id: &str) -> Result<BoxUsage, EngineError> {
        let maker = self.maker(id);
        locked(&self.standing).remove(id);
        if let Some(jail_box) = self.first.lock().await.named(id) {
            // It stays where it is: its ids are free only when the janitor has seen the last of it.
            return Ok(jail_box.kill());
        }
        match self.order(&maker?, Order::Destroy { id: id.into() }, Vec::new()).await? {
            Reply::Destroyed { usage } => Ok(usage),
            other => Err(EngineError::Broken(format!("the spawner answered {other:?}"))),
        }
    }

    async fn relieve(&self, id: &str) -> Result<(), EngineError> {
        if let Some(jail_box) = self.first.lock().await.named(id) {
            jail_box.cgroup.relieve();
            return Ok(());
        }
        self.order(&self.maker(id)?, Order::Relieve { id: id.into() }, Vec::new()).await.map(drop)
    }

    async fn list(&self) -> Vec<String> {
        locked(&self.standing).keys().cloned().collect()
    }
}

/// A place that is destroyed when nobody holds this any more.
#[derive(Debug)]
pub(crate) struct Lease {
    native: Arc<Native>,
    pub(crate) id: String,
    /// Rung then, for somebody who wants to replace it.
    pub(crate) bell: Option<Arc<Notify>>,
}

impl Lease {
    pub(crate) fn new(native: Arc<Native>, id: String) -> Lease {
        Lease { native, id, bell: None }
    }

    /// Has it destroyed. Says what it had used. Where its job is over, and its stream still open, nothing is left in it
    /// that could do harm: then nobody has to wait for it.
    pub(crate) async fn end(mut self, over: Option<UnixStream>) -> Result<BoxUsage, EngineError> {
        let id = std::mem::take(&mut self.id);
        let mut first = self.native.first.lock().await;
        if let (Some(jail_box), Some(stream)) = (first.named(&id), over) {
            let usage = jail_box.cgroup.usage();
            first.over = Some(stream);
            locked(&self.native.standing).remove(&id);
            return Ok(usage);
        }
        drop(first);
        self.native.destroy(&id).await
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (native, id) = (self.native.clone(), std::mem::take(&mut self.id));
        if id.is_empty() {
            return;
        }
        if let Some(bell) = &self.bell {
            bell.notify_one();
        }
        // Without a runtime the engine is about to end, and every place with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { native.destroy(&id).await });
        }
    }
}

/// What a program says of itself.
async fn first_words(program: &Path) -> std::io::Result<Vec<u8>> {
    let mut child = tokio::process::Command::new(program)
        .arg("--version")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut said = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(100).read_to_end(&mut said).await?;
    }
    let _ = child.start_kill();
    child.wait().await?;
    Ok(said)
}

fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The box that was begun before there was an engine.
#[derive(Debug, Default)]
struct First {
    begun: Option<Blank>,
    /// Why it could not be begun.
    failed: Option<JailError>,
    standing: Option<(String, JailBox, Janitor)>,
    /// Kept open until we end, which the janitor notices.
    over: Option<UnixStream>,
}

impl Drop for First {
    fn drop(&mut self) {
        // What was begun and not wanted has no janitor.
        let _ = self.begun.take().map(Blank::discard);
    }
}

impl First {
    fn named(&self, id: &str) -> Option<&JailBox> {
        self.standing.as_ref().filter(|(name, ..)| name == id).map(|(_, jail_box, _)| jail_box)
    }
}

/// What usually helps when a rung breaks.
fn refused(error: JailError) -> EngineError {
    let hint = match (error.step, error.errno()) {
        (Step::Namespaces, Errno::PERM | Errno::ACCESS | Errno::NOSPC) | (Step::IdMaps, _) => {
            Some("this host does not let you make user namespaces; `sandboxd doctor` says how to change that")
        }
        (Step::Mounts, Errno::PERM) if error.subject.starts_with("proc") => {
            Some("inside a container, start it with `--security-opt systempaths=unconfined`")
        }
        (Step::Mounts, _) if error.subject.starts_with("overlay") => Some(
            "this kernel refuses overlays in user namespaces; `--allow-weaker overlay` accepts shared inodes",
        ),
        (Step::Mounts, Errno::INVAL) => {
            Some("something is mounted below that directory; `--allow-weaker overlay` binds it as it is")
        }
        (Step::Cgroup, _) => Some("`--allow-weaker cgroup` accepts limits by rlimits and sampling"),
        _ => Some("`sandboxd doctor` says what this host offers"),
    };
    EngineError::Refused { error, hint: hint.map(str::to_owned) }
}
