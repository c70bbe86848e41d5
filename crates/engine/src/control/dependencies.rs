//! Packages of sessions. They are installed in a sandbox of their own, which has the network of this host, and what lies
//! there afterwards is brought into the session. So programs of the session get no network by it, and what a package does
//! while it is installed sees nothing of the session.

mod package;

pub use package::{Index, Package};

use super::archive::{Archive, pack, unpack};
use super::error::ControlError;
use super::session::{LiveSession, Seat, SessionSpec};
use super::turns::{Reservation, Turn};
use super::{Caller, ControlPlane, SessionView, locked, now};
use crate::limits::{Limits, Wanted};
use crate::storage::{Json, SessionStatus};
use crate::{EngineError, Execution, FileOp, Input, Network, Request, Sandbox, SandboxSpec, Status};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Where packages are for programs of a session.
pub const PACKAGES: &str = "/workspace/.dependencies/python";

/// The language whose packages they are.
const LANGUAGE: &str = "python";
/// The same place below the workspace, and where they are until all of them are there.
const PLACE: &str = ".dependencies/python";
const DRAFT: &str = ".dependencies/draft";
/// What installs them, and how it says what went wrong.
const INSTALL: &str = include_str!("dependencies/install.py");
const NO_PIP: i32 = 64;
/// How long installing may take, in milliseconds, and how long it may where nobody says.
const TIMES: RangeInclusive<u64> = 30_000..=1_800_000;
const USUAL_TIME: u64 = 300_000;
/// Most packages that are told of, longest word of one, and most of what pip says, in characters.
const MOST_TOLD: usize = 200;
const LONGEST_WORD: usize = 100;
const LONGEST_ERROR: usize = 2000;
/// As much is on its way at once.
const CHUNK: usize = 64 << 10;

/// Which packages sessions may install.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstallPolicy {
    /// None.
    #[default]
    Off,
    /// Those that are ready to be used: nothing of theirs runs while there is a network.
    Wheels,
    /// Also those that are built first, by code of theirs that reaches what this host reaches.
    All,
}

/// What shall be installed in a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Install {
    /// Which packages.
    pub packages: Vec<Package>,
    /// Where they come from; without one, where they came from before, or the public index.
    pub index: Option<Index>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether the later one counts of two versions of a package; else that is an error.
    pub allow_version_conflicts: bool,
    /// Whether a session that is made with them is of no use without them.
    pub required: bool,
}

/// How far installing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstallStatus {
    /// Programs of the session run that came before.
    #[default]
    Pending,
    /// It goes on.
    Installing,
    /// Everything is there.
    Completed,
    /// It went wrong, and what was there before still is.
    Failed,
}

/// Packages of a session, as they are stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dependencies {
    /// Where they come from, if not from the public index.
    pub index: Option<String>,
    /// What was asked for, all in all.
    pub requested: Vec<Package>,
    /// What is there, with what it needs itself.
    pub installed: Vec<Installed>,
    /// How far it is.
    pub status: InstallStatus,
    /// Why it failed.
    pub error: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started_at: Option<i64>,
    /// When it was over.
    pub completed_at: Option<i64>,
    /// What was asked for when all of it was there last: the next request comes on top of that.
    settled: Vec<Package>,
    timeout_ms: u64,
    /// Whether the session is of no use without them.
    required: bool,
}

/// A package that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Dependencies {
    /// Where nothing is asked for yet, but it is known how it would be.
    pub(super) fn of_nothing(install: &Install) -> Dependencies {
        Dependencies {
            index: install.index.as_ref().map(Index::to_string),
            status: InstallStatus::Completed,
            timeout_ms: install.timeout_ms.unwrap_or(USUAL_TIME),
            ..Dependencies::default()
        }
    }

    fn is_under_way(&self) -> bool {
        matches!(self.status, InstallStatus::Pending | InstallStatus::Installing)
    }

    /// Whether they are not there in a session that is of no use without them.
    pub(super) fn is_missed(&self) -> bool {
        self.required && self.status == InstallStatus::Failed
    }

    /// What is left of them where nobody sees to them any more.
    pub(super) fn abandoned(mut self) -> Dependencies {
        if self.is_under_way() {
            self.status = InstallStatus::Failed;
            self.error = Some("the session ended before they were there".into());
        }
        self
    }
}

/// Packages of a session that has a sandbox, and where they come from with what it takes to get in there.
#[derive(Debug)]
pub(crate) struct Packages {
    pub(super) all: Option<Dependencies>,
    index: Option<Index>,
}

impl Packages {
    pub(super) fn of(spec: &SessionSpec) -> Packages {
        let address = spec.dependencies.as_ref().and_then(|all| all.index.as_deref());
        Packages {
            all: spec.dependencies.clone(),
            index: address.and_then(|address| Index::parse(address).ok()),
        }
    }
}

impl ControlPlane {
    /// Installs packages in a session, beside those it has, and waits until they are there or it is known why not: the
    /// session says which. It goes on if nobody waits.
    pub async fn install(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        session: &str,
        install: Install,
    ) -> Result<SessionView, ControlError> {
        self.check_install(&install)?;
        let live = self.session_to_use(caller, session).await?;
        let turn = self.turns.reserve(&caller.tenant, &caller.bounds)?;
        let place = live.place(self.settings.session_queue)?;
        live.ask_for(&install)?;
        let done = tokio::spawn(self.clone().deliver(live.clone(), place.all_seats(), turn)).await;
        done.map_err(|e| EngineError::Broken(e.to_string()))??;
        Ok(live.view())
    }

    /// Whether packages may be installed at all, and these.
    pub(super) fn check_install(&self, install: &Install) -> Result<(), ControlError> {
        if self.settings.install == InstallPolicy::Off {
            return Err(ControlError::NotAllowed {
                what: "sessions here install no packages",
                hint: "whoever runs the server can set `sessions.install` to `wheels` or `all`",
            });
        }
        package::checked(&install.packages, install.allow_version_conflicts)?;
        if install.timeout_ms.is_some_and(|ms| !TIMES.contains(&ms)) {
            let wrong = EngineError::invalid("install_timeout", "is out of range");
            return Err(wrong.with_hint("between 30 seconds and 30 minutes").into());
        }
        Ok(())
    }

    /// Has the packages that a new session was made with installed, by somebody who is not waited for. Without a turn
    /// there are none.
    pub(super) fn begin_install(
        self: &Arc<ControlPlane>,
        live: &Arc<LiveSession>,
        index: Option<Index>,
        turn: Option<Reservation>,
    ) -> Result<(), ControlError> {
        locked(&live.packages).index = index;
        let Some(turn) = turn else { return Ok(()) };
        // Nobody else knows of the session yet, so it is free, and programs come after this.
        let seat = live.place(self.settings.session_queue)?.all_seats_at_once();
        // How it goes is stored with the session.
        tokio::spawn(self.clone().deliver(live.clone(), std::future::ready(seat), turn));
        Ok(())
    }

    /// Installs what a session asks for, when it is its turn. An error is ours or the host's; what a package does wrong
    /// is found in the session.
    async fn deliver(
        self: Arc<ControlPlane>,
        live: Arc<LiveSession>,
        seat: impl Future<Output = Result<Seat, ControlError>> + Send,
        turn: Reservation,
    ) -> Result<(), ControlError> {
        let work = async {
            self.keep_spec(&live, &live.note_packages(|_| {})).await?;
            let seat = seat.await?;
            let turn = turn.ask().turn().await?;
            let begun = |all: &mut Dependencies| {
                (all.status, all.started_at) = (InstallStatus::Installing, Some(now()));
            };
            self.keep_spec(&live, &live.note_packages(begun)).await?;
            let done = tokio::select! {
                biased;
                () = live.sandbox.gone() => Err(live.gone()),
                done = self.bring_in(&live, &turn) => done,
            };
            Ok::<_, ControlError>((done?, seat))
        };
        let (found, seat, error) = match work.await {
            Ok((found, seat)) => (found, Some(seat), None),
            Err(error) => (Err(told(&error)), None, Some(error)),
        };
        if live.is_over() {
            // Its id may be another's by now.
            return Err(error.unwrap_or_else(|| live.gone()));
        }
        let failed = found.as_ref().err().cloned();
        let spec = live.note_packages(|all| {
            all.completed_at = Some(now());
            match found {
                Ok(installed) => {
                    (all.status, all.installed) = (InstallStatus::Completed, installed);
                    all.settled.clone_from(&all.requested);
                }
                Err(why) => (all.status, all.error) = (InstallStatus::Failed, Some(why)),
            }
        });
        let kept = self.keep_spec(&live, &spec).await;
        if let (Some(why), true) = (failed, spec.dependencies.is_some_and(|all| all.required)) {
            self.close(&live).await;
            let why: String = why.chars().take(1000).collect();
            let reason = format!("its packages could not be installed: {why}");
            let _ = self.store.move_session(&live.row(), SessionStatus::Failed, now(), Some(&reason)).await;
        }
        drop(seat);
        error.map_or(kept, Err)
    }

    /// Installs in a sandbox of its own, and brings what is there into the session. What is there, or what pip says.
    async fn bring_in(
        &self,
        live: &LiveSession,
        turn: &Turn,
    ) -> Result<Result<Vec<Installed>, String>, ControlError> {
        let (all, index) = {
            let packages = locked(&live.packages);
            (packages.all.clone().unwrap_or_default(), packages.index.clone())
        };
        let defaults = &self.settings.defaults;
        let workshop = self
            .engine
            .open(&SandboxSpec {
                limits: at_least_usual(live.sandbox.limits()),
                network: Network::Host,
                profile: defaults.profile,
                allow_weaker: defaults.allow_weaker.clone(),
                languages: vec![LANGUAGE.into()],
                max_concurrent: 1,
            })
            .await?;
        let asked = json!({
            "target": PACKAGES,
            "requirements": all.requested.iter().map(Package::requirement).collect::<Vec<_>>(),
            "wheels_only": self.settings.install != InstallPolicy::All,
            "index": index.as_ref().map(Index::reveal),
            "trusted_host": index.as_ref().and_then(Index::trusted_host),
        });
        let mut request = Request::new(LANGUAGE, INSTALL);
        request.stdin = Some(Input::Whole(asked.to_string().into_bytes()));
        request.limits.timeout_ms = Some(all.timeout_ms.min(self.engine.ceiling().timeout_ms));
        request.network = Network::Host;
        request.owner = live.row().owner;
        let (events, mut heard) = mpsc::channel(64);
        let nobody = async { while heard.recv().await.is_some() {} };
        let (done, ()) = tokio::join!(workshop.execute(request, events), nobody);
        let done = done?;
        turn.charge(done.metrics.cpu_time_ms);
        match (done.status, done.exit_code) {
            (Status::Success, _) => {}
            (Status::Failed, Some(NO_PIP)) => {
                let what = "Python on this host has no pip".into();
                return Err(
                    EngineError::Unavailable { what, hint: Some("apt install python3-pip".into()) }.into()
                );
            }
            (Status::InfraError, _) => {
                let why = done.error.map(|error| error.message).unwrap_or_default();
                return Err(EngineError::Broken(why).into());
            }
            _ => return Ok(Err(said(&done, index.as_ref()))),
        }
        let Ok(mut found) = serde_json::from_slice::<Vec<Installed>>(&done.stdout.bytes()) else {
            return Ok(Err("what was installed could not be read".into()));
        };
        found.truncate(MOST_TOLD);
        for Installed { name, version } in &mut found {
            *name = name.chars().take(LONGEST_WORD).collect();
            *version = version.chars().take(LONGEST_WORD).collect();
        }
        carry(&workshop, live).await?;
        Ok(Ok(found))
    }

    async fn keep_spec(&self, live: &LiveSession, spec: &SessionSpec) -> Result<(), ControlError> {
        let (row, spec) = (live.row(), Json::of(spec)?);
        self.store.keep_spec(&row.owner, &row.id, &spec).await?;
        locked(&live.row).spec = spec;
        Ok(())
    }
}

impl SessionSpec {
    /// What it is like with these packages beside those it has.
    pub(super) fn with(mut self, install: &Install) -> Result<SessionSpec, ControlError> {
        if !self.languages.iter().any(|language| language == LANGUAGE) {
            return Err(EngineError::invalid("dependencies", "this session has no Python")
                .with_hint("packages are Python's; name `python` among the languages of the session")
                .into());
        }
        let new = package::checked(&install.packages, install.allow_version_conflicts)?;
        let old = self.dependencies.take();
        let usual = || old.as_ref().map_or(USUAL_TIME, |old| old.timeout_ms);
        let timeout_ms = install.timeout_ms.unwrap_or_else(usual);
        let old = old.unwrap_or_default();
        self.dependencies = Some(Dependencies {
            index: install.index.as_ref().map(Index::to_string).or(old.index),
            requested: package::merged(&old.settled, new)?,
            installed: old.installed,
            settled: old.settled,
            status: InstallStatus::Pending,
            error: None,
            started_at: None,
            completed_at: None,
            timeout_ms,
            required: install.required,
        });
        Ok(self)
    }
}

impl LiveSession {
    /// Takes note of packages that shall be there, unless others are on their way.
    fn ask_for(&self, install: &Install) -> Result<(), ControlError> {
        let mut packages = locked(&self.packages);
        if packages.all.as_ref().is_some_and(Dependencies::is_under_way) {
            return Err(ControlError::conflict("session", "is installing packages already"));
        }
        let spec = SessionSpec { dependencies: packages.all.clone(), ..self.spec.clone() };
        // One that did without them can do so again.
        let spec = spec.with(&Install { required: false, ..install.clone() })?;
        packages.all = spec.dependencies;
        if let Some(index) = &install.index {
            packages.index = Some(index.clone());
        }
        drop(packages);
        self.show_packages();
        Ok(())
    }

    /// Takes note of how far installing is.
    fn note_packages(&self, change: impl FnOnce(&mut Dependencies)) -> SessionSpec {
        let mut packages = locked(&self.packages);
        if let Some(all) = &mut packages.all {
            change(all);
        }
        SessionSpec { dependencies: packages.all.clone(), ..self.spec.clone() }
    }
}

/// A small session does not make for a small pip.
fn at_least_usual(own: &Limits) -> Wanted {
    let usual = Limits::usual();
    let larger = |own: u64, usual: u64| (own > usual).then_some(own);
    Wanted {
        memory_bytes: larger(own.memory_bytes, usual.memory_bytes),
        cpu_millis: larger(own.cpu_millis, usual.cpu_millis),
        pids: larger(own.pids, usual.pids),
        disk_bytes: larger(own.disk_bytes, usual.disk_bytes),
        disk_inodes: larger(own.disk_inodes, usual.disk_inodes),
        open_files: larger(own.open_files, usual.open_files),
        ..Wanted::default()
    }
}

/// Puts what lies in one sandbox in place of what lay in a session.
async fn carry(workshop: &Sandbox, live: &LiveSession) -> Result<(), ControlError> {
    let remove =
        async |path: &str| match live.done(FileOp::Remove { path: path.into(), recursive: true }).await {
            Err(ControlError::NotFound { .. }) => Ok(()),
            done => done,
        };
    remove(DRAFT).await?;
    live.done(FileOp::Mkdir { path: DRAFT.into() }).await?;
    let (ours, theirs) = tokio::io::duplex(CHUNK);
    let (packed, put) = tokio::join!(
        pack(workshop, PLACE, Archive::TarGz, ours),
        unpack(&live.sandbox, DRAFT, Box::new(theirs))
    );
    live.change();
    // Where the one broke off, the other did so because of it.
    if let Err(error) = put.and(packed) {
        let _ = remove(DRAFT).await;
        return Err(error);
    }
    remove(PLACE).await?;
    live.done(FileOp::Move { from: DRAFT.into(), to: PLACE.into(), replace: false }).await
}

/// What pip says of a failure, and how it ended if it did not do so by itself.
fn said(done: &Execution, index: Option<&Index>) -> String {
    let mut words = done.stderr.to_string();
    if let (true, Some(error)) = (done.status != Status::Failed, &done.error) {
        words = format!("{}\n{}", words.trim_end(), error.message);
    }
    let words = index.map_or(words.clone(), |index| index.conceal(&words));
    let words = words.trim();
    // The end of it says most.
    let more = words.chars().count().saturating_sub(LONGEST_ERROR);
    words.chars().skip(more).collect()
}

/// What the caller is told of an error.
fn told(error: &ControlError) -> String {
    match error {
        ControlError::Engine(EngineError::Broken(why)) => {
            tracing::error!(why, "packages could not be installed");
            "something of ours broke".into()
        }
        ControlError::Store(_) => "storage failed".into(),
        error => error.to_string(),
    }
}
