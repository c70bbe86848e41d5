//! The host as the suite arranges it, and the place of one user in it.

use crate::canaries::{self, Canaries};
use crate::guarded::Guarded;
use crate::listeners::Listeners;
use crate::neighbour::Neighbour;
use crate::outer::Outer;
use crate::served::Served;
use crate::support::{Running, Sandboxd, am_root, install, usual_home};
use crate::traces::{KEYS, Scene, Traces, began};
use rustix::process::Signal;
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Everything that outlives a user's part of the suite.
pub(crate) struct World {
    pub(crate) canaries: Canaries,
    pub(crate) listeners: Listeners,
    pub(crate) guarded: Guarded,
    /// Or why there is none.
    pub(crate) outer: Result<Outer, String>,
    ground: TempDir,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Root,
    Plain,
}

/// A user with a home, another sandbox of theirs that lives all the while, and a neighbour.
pub(crate) struct Place<'w> {
    pub(crate) world: &'w World,
    pub(crate) who: Who,
    /// The same person, by a sandbox with all its layers.
    pub(crate) ordinary: Sandboxd,
    /// The layer that the cases find missing.
    mutant: RefCell<Option<String>>,
    /// Whether programs are run by interpreters that wait.
    pub(crate) warm: Cell<bool>,
    pub(crate) neighbour: Neighbour,
    tenant: Running,
    /// What programs are sent to instead of a command, while they are.
    served: RefCell<Option<Rc<Served>>>,
    baseline: RefCell<Traces>,
}

const TENANT: &str = "\
import os, socket, time
secret = os.environ['SECRET']
for path in ('secret.txt', '/tmp/secret.txt', '/dev/shm/secret'):
    open(path, 'w').write(secret)
hidden = socket.socket(socket.AF_UNIX)
hidden.bind('\\0tenant')
hidden.listen()
port = socket.create_server(('0.0.0.0', 8000))
print('ready', flush=True)
time.sleep(3600)
";

impl World {
    pub(crate) fn new(binaries: &Path, programs: &Path) -> Result<World, String> {
        let failed = |what: &str, e: &dyn std::fmt::Display| format!("{what}: {e}");
        sweep();
        let name = format!("sandboxd-attacks-{}-", std::process::id());
        // Not in `/tmp`, which many isolators cover: what lies here, only a wall hides.
        let ground = tempfile::Builder::new().prefix(&name).tempdir_in("/var/tmp");
        let ground = ground.map_err(|e| failed("/var/tmp", &e))?;
        for (dir, mode) in [("", 0o755), ("bin", 0o755), ("programs", 0o755), ("tmp", 0o1777)] {
            let dir = ground.path().join(dir);
            let made = std::fs::create_dir_all(&dir);
            let made = made.and_then(|()| std::fs::set_permissions(&dir, Permissions::from_mode(mode)));
            made.map_err(|e| failed("/var/tmp", &e))?;
        }
        for name in ["sandboxd", "sandbox-executor", "libsandbox_zygote.so"] {
            let binary = binaries.join(name);
            if !binary.is_file() {
                return Err(format!("`{}` is missing: run `make build`", binary.display()));
            }
            install(&binary, &ground.path().join("bin").join(name));
        }
        for entry in std::fs::read_dir(programs).map_err(|e| failed("programs", &e))?.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                install(&entry.path(), &ground.path().join("programs").join(entry.file_name()));
            }
        }
        let canaries = Canaries::new();
        let canary = ground.path().join("canary");
        std::fs::write(&canary, canaries.of(canaries::FILE) + "\n").map_err(|e| failed("canary", &e))?;
        let outer = if am_root() { Outer::make() } else { Err("not run by root".into()) };
        let nonce = format!("{}-{}", std::process::id(), began(std::process::id()).unwrap_or(0));
        let listeners = Listeners::start(outer.as_ref().ok(), ground.path(), &nonce)
            .map_err(|e| failed("listeners", &e))?;
        let ours = ["bin/sandboxd", "bin/sandbox-executor", "canary"].map(|name| ground.path().join(name));
        Ok(World { canaries, listeners, guarded: Guarded::now(&ours), outer, ground })
    }

    /// A file or directory of the suite.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.ground.path().join(name)
    }
}

impl<'w> Place<'w> {
    pub(crate) fn new(world: &'w World, who: Who, mutant: Option<&str>) -> Result<Place<'w>, String> {
        let plain = who == Who::Plain;
        let name = if plain { "plain" } else { "root" };
        let person = |home: String| {
            let home = world.path(&home);
            std::fs::create_dir(&home).map_err(|e| format!("{}: {e}", home.display()))?;
            let person =
                Sandboxd::at(plain, &world.path("bin"), &home).known_as(plain_uid()).living_in(&home);
            Ok::<_, String>(person.with("TMPDIR", world.path("tmp").display()))
        };
        let secret = |place| world.canaries.of(place);
        let neighbour = person(format!("neighbour-{name}"))?;
        let other = person(format!("tenant-{name}"))?.with("SERVICE_TOKEN", secret(canaries::TENANT));
        let mut ordinary = person(name.into())?.with("SERVICE_TOKEN", secret(canaries::ENVIRONMENT));
        if mutant.is_none() {
            take_over_toolchains(&ordinary)?;
        }
        if let Ok(outer) = &world.outer {
            ordinary = ordinary.behind(outer.enter());
        }
        let token = ordinary.write(&ordinary.home().join("token"), secret(canaries::TOKEN));
        std::fs::set_permissions(&token, Permissions::from_mode(0o600)).map_err(|e| format!("token: {e}"))?;

        let tenant = other.run("python", TENANT).options("--timeout 1h --quiet");
        let tenant = tenant.arg("--env", format!("SECRET={}", secret(canaries::TENANT))).start();
        tenant.until_it_says("ready");
        // What is made once for everybody is made now, so that it is no trace of a case.
        for someone in [&ordinary, &neighbour] {
            someone.run("python", "print(1)").json().is("success");
        }
        let neighbour = Neighbour::new(neighbour, secret(canaries::NEIGHBOUR));
        let (mutant, baseline) = (RefCell::new(mutant.map(str::to_owned)), RefCell::default());
        let warm = Cell::new(false);
        let served = RefCell::default();
        let place = Place { world, who, ordinary, mutant, warm, neighbour, tenant, served, baseline };
        place.begin_anew()?;
        Ok(place)
    }

    /// Who runs the cases.
    pub(crate) fn attacker(&self) -> Sandboxd {
        let person = self.ordinary.clone();
        match &*self.mutant.borrow() {
            Some(mutant) => person.with("SANDBOXD_MUTANT", mutant),
            None => person,
        }
    }

    /// Whether the cases find a layer missing.
    pub(crate) fn is_weakened(&self) -> bool {
        self.mutant.borrow().is_some()
    }

    /// The server that programs are sent to, while there is one.
    pub(crate) fn served(&self) -> Option<Rc<Served>> {
        self.served.borrow().clone()
    }

    /// Has a server that lives and lacks what the cases find missing.
    pub(crate) fn serve(&self) -> Result<(), String> {
        let mutant = self.mutant.borrow().clone();
        if self.served().is_some_and(|served| served.lives() && served.mutant == mutant) {
            return Ok(());
        }
        self.close()?;
        let folder = tempfile::Builder::new().prefix("server-").tempdir_in(self.world.path(""));
        let folder = folder.map_err(|e| format!("server: {e}"))?.keep();
        self.ordinary.give(&folder);
        let start = || Served::start(&self.attacker(), &folder, mutant);
        let served =
            catch_unwind(AssertUnwindSafe(start)).map_err(|cause| crate::stage::words(&*cause))??;
        *self.served.borrow_mut() = Some(Rc::new(served));
        self.begin_anew()
    }

    /// Ends the server, if there is one.
    pub(crate) fn close(&self) -> Result<(), String> {
        let Some(served) = self.served.take() else { return Ok(()) };
        // Who else holds it has failed, and it dies with the last one.
        if let Some(served) = Rc::into_inner(served) {
            let _ = catch_unwind(AssertUnwindSafe(|| served.stop()));
        }
        self.begin_anew()
    }

    /// Does something while no layer is missing.
    pub(crate) fn with_all_layers<T>(&self, work: impl FnOnce() -> T) -> T {
        let mutant = self.mutant.take();
        let done = work();
        *self.mutant.borrow_mut() = mutant;
        done
    }

    /// Takes what is there now for what should be there, once it has settled.
    pub(crate) fn begin_anew(&self) -> Result<(), String> {
        let scene = self.scene(Vec::new());
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut last = scene.traces();
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let now = scene.traces();
            if now.since(&last).is_empty() {
                *self.baseline.borrow_mut() = now;
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("the host does not come to rest: {:?}", now.since(&last)));
            }
            last = now;
        }
    }

    /// What is there beyond the baseline two seconds later; returns at once when nothing is.
    pub(crate) fn left_over(&self, sandboxes: &[u32], but: Option<&str>) -> Vec<String> {
        let scene = self.scene(sandboxes.to_vec());
        let began = Instant::now();
        loop {
            let mut now = scene.traces();
            let mut before = self.baseline.borrow().clone();
            if let Some(kind) = but {
                (now, before) = (now.without(kind), before.without(kind));
            }
            let left = now.since(&before);
            // The kernel itself holds on to a process that ran out of memory, and so to its keyring, for 2 s.
            let patience = if left.iter().all(|trace| trace.ends_with(KEYS)) { 3 } else { 2 };
            if left.is_empty() || began.elapsed() > Duration::from_secs(patience) {
                return left;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends what a failed case has left running, so that the next one begins clean.
    pub(crate) fn clean_up(&self) {
        // A control undoes what it did when it is asked to end.
        for signal in [Signal::TERM, Signal::KILL] {
            let scene = self.scene(Vec::new());
            let deadline = Instant::now() + Duration::from_secs(1);
            scene.traces().end_processes_since(&self.baseline.borrow(), signal);
            while scene.traces().has_processes_since(&self.baseline.borrow()) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.scene(Vec::new()).traces().remove_since(&self.baseline.borrow());
    }

    /// Children of ours that live all the while.
    pub(crate) fn children(&self) -> Vec<u32> {
        let outer = self.world.outer.as_ref().ok();
        let served = self.served().map(|served| served.pid());
        outer.map(Outer::holder).into_iter().chain([self.tenant.pid()]).chain(served).collect()
    }

    fn scene(&self, sandboxes: Vec<u32>) -> Scene<'_> {
        let outer = self.world.outer.as_ref().ok();
        Scene {
            outer,
            home: self.ordinary.home().into(),
            temporary: self.world.path("tmp"),
            uid: self.ordinary.uid(),
            children: self.children(),
            served: self.served(),
            sandboxes,
        }
    }

    /// What programs are told of the host.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut all = self.world.listeners.variables.clone();
        all.push(("ATTACK_CANARY_FILE", self.world.path("canary").display().to_string()));
        let served = self.served();
        let state = self.ordinary.home().join(".cache/sandboxd");
        let state = served.as_ref().map_or(state, |served| served.state.clone());
        let pid = served.map_or(self.tenant.pid(), |served| served.pid());
        all.push(("ATTACK_STATE_DIR", state.display().to_string()));
        all.push(("ATTACK_EXECUTABLE", self.ordinary.binary("sandboxd").display().to_string()));
        all.push(("ATTACK_SERVER_PID", pid.to_string()));
        all
    }
}

/// Takes over toolchains that are prepared already for such a user by other tests: it takes a minute, and is no case.
fn take_over_toolchains(person: &Sandboxd) -> Result<(), String> {
    let prepared = usual_home(!person.is_root()).join(".cache/sandboxd/prepared");
    if !prepared.is_dir() {
        return Ok(());
    }
    let cache = person.home().join(".cache");
    let shelf = cache.join("sandboxd");
    DirBuilder::new().recursive(true).mode(0o700).create(&shelf).map_err(|e| format!("{e}"))?;
    let owner = format!("{0}:{0}", person.uid());
    let copy = [OsStr::new("cp"), "-a".as_ref(), prepared.as_ref(), shelf.as_ref()];
    let give = [OsStr::new("chown"), "-R".as_ref(), owner.as_ref(), cache.as_ref()];
    for words in [copy, give] {
        let done =
            Command::new(words[0]).args(&words[1..]).status().map_err(|e| format!("{words:?}: {e}"))?;
        if !done.success() {
            return Err(format!("{words:?}: {done}"));
        }
    }
    Ok(())
}

/// A uid of nobody, and of this suite alone, so that nobody else has keys or segments as the plain user.
fn plain_uid() -> u32 {
    30_000 + std::process::id() % 30_000
}

/// Removes what a suite that was killed has left.
fn sweep() {
    for entry in std::fs::read_dir("/var/tmp").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix("sandboxd-attacks-");
        let maker = rest.and_then(|rest| rest.split_once('-')?.0.parse::<u32>().ok());
        if maker.is_some_and(|pid| began(pid).is_none()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
