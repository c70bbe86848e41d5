//! A session while it has a sandbox, and what is asked for when one is made.

use super::dependencies::{Dependencies, Install, PACKAGES, Packages};
use super::error::ControlError;
use super::program::Defaults;
use super::turns::Turn;
use super::{ControlSettings, now};
use crate::limits::{Limits, Wanted};
use crate::storage::{Session, SessionMode, SessionStatus};
use crate::{EngineError, Event, Execution, Network, Request, Sandbox};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// What is asked for when a session is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its id; without one it is made.
    pub id: Option<String>,
    /// What it is made from; without one, what the operator chose.
    pub template: Option<String>,
    /// How long it is meant to last.
    #[serde(skip, default = "persistent")]
    pub mode: SessionMode,
    /// The agent that gets it back when it asks again.
    pub agent_id: Option<String>,
    /// What differs from the template.
    #[serde(flatten)]
    pub spec: SessionSpec,
    /// Packages it shall have. Its programs wait for them.
    #[serde(default, skip_deserializing)]
    pub install: Option<Install>,
    /// How long it may do nothing, in milliseconds; -1 for ever.
    pub idle_ms: Option<i64>,
    /// How long it may live, likewise.
    pub lifetime_ms: Option<i64>,
}

fn persistent() -> SessionMode {
    SessionMode::Persistent
}

impl Default for NewSession {
    fn default() -> NewSession {
        NewSession {
            id: None,
            template: None,
            mode: SessionMode::Persistent,
            agent_id: None,
            spec: SessionSpec::default(),
            install: None,
            idle_ms: None,
            lifetime_ms: None,
        }
    }
}

/// What a session is like, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionSpec {
    /// Its bounds.
    #[serde(default)]
    pub limits: Wanted,
    /// Environment of its programs.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Languages that will be asked for.
    #[serde(default)]
    pub languages: Vec<String>,
    /// What it may reach, where that shall differ from what is usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Its programs that may run at once; one where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// What the caller wants to find again.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Packages it has, or will have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Dependencies>,
}

/// A session as callers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    /// As it is stored. Its state is what it is at this moment.
    pub session: Session,
    /// What it is like.
    pub spec: SessionSpec,
    /// Its bounds, with what is usual where it asked for none; none where it could not have them any more.
    pub limits: Option<Limits>,
    /// What it may reach.
    pub network: Network,
    /// Its programs that may run at once.
    pub max_concurrent: u32,
    /// Its programs that run.
    pub running: usize,
    /// Its programs that wait.
    pub queued: usize,
}

/// A session that has a sandbox.
#[derive(Debug)]
pub(crate) struct LiveSession {
    pub(super) row: Mutex<Session>,
    pub(super) spec: SessionSpec,
    pub(super) sandbox: Sandbox,
    pub(super) packages: Mutex<Packages>,
    network: Network,
    defaults: Defaults,
    /// The same for programs that find packages.
    with_packages: OnceLock<Defaults>,
    seats: Arc<Semaphore>,
    max_concurrent: u32,
    /// CPU time of its sandbox that was paid for.
    paid_micros: AtomicU64,
    waiting: AtomicUsize,
    /// The turns of its programs.
    turns: Mutex<Vec<Weak<Turn>>>,
    running: Arc<AtomicUsize>,
    /// When something was last done with it, and what of that is stored.
    touched: AtomicI64,
    pub(super) noted: AtomicI64,
    /// Whether its workspace may differ from what is saved, and since when.
    changed: AtomicBool,
    pub(super) saved_at: AtomicI64,
    /// Whether it is being taken down.
    pub(super) closing: AtomicBool,
}

/// A place in a session, for one program, or all of them.
#[derive(Debug)]
pub(crate) struct Seat {
    _permit: OwnedSemaphorePermit,
    running: Arc<AtomicUsize>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Relaxed);
    }
}

impl LiveSession {
    pub(super) fn new(
        row: Session,
        spec: SessionSpec,
        sandbox: Sandbox,
        settings: &ControlSettings,
    ) -> LiveSession {
        let usual = &settings.defaults;
        let mut env = usual.env.clone();
        env.extend(spec.env.clone());
        // Bounds of the sandbox as a whole are its own; what is counted for each program has a default.
        let limits = Wanted {
            timeout_ms: spec.limits.timeout_ms.or(usual.limits.timeout_ms),
            cpu_time_ms: spec.limits.cpu_time_ms.or(usual.limits.cpu_time_ms),
            output_bytes: spec.limits.output_bytes.or(usual.limits.output_bytes),
            ..Wanted::default()
        };
        let at = row.last_activity_at;
        let max_concurrent = sandbox.max_concurrent();
        let live = LiveSession {
            row: Mutex::new(row),
            packages: Mutex::new(Packages::of(&spec)),
            network: spec.network.unwrap_or(usual.network),
            defaults: Defaults { env, limits, ..usual.clone() },
            with_packages: OnceLock::new(),
            spec,
            sandbox,
            seats: Arc::new(Semaphore::new(max_concurrent as usize)),
            max_concurrent,
            paid_micros: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            turns: Mutex::default(),
            running: Arc::default(),
            touched: AtomicI64::new(at),
            noted: AtomicI64::new(at),
            changed: AtomicBool::new(false),
            saved_at: AtomicI64::new(at),
            closing: AtomicBool::new(false),
        };
        if live.spec.dependencies.is_some() {
            live.show_packages();
        }
        live
    }

    /// What its programs get that do not ask for something else.
    pub(super) fn defaults(&self) -> &Defaults {
        self.with_packages.get().unwrap_or(&self.defaults)
    }

    /// Has its programs find packages from now on.
    pub(super) fn show_packages(&self) {
        let _ = self.with_packages.get_or_init(|| {
            let mut defaults = self.defaults.clone();
            let path = defaults.env.entry("PYTHONPATH".into()).or_default();
            *path = if path.is_empty() { PACKAGES.into() } else { format!("{path}:{PACKAGES}") };
            defaults
        });
    }

    pub(super) fn row(&self) -> Session {
        super::locked(&self.row).clone()
    }

    pub(super) fn touch(&self) {
        self.touched.fetch_max(now(), Relaxed);
    }

    pub(super) fn touched(&self) -> i64 {
        self.touched.load(Relaxed)
    }

    pub(super) fn change(&self) {
        self.touch();
        self.changed.store(true, Relaxed);
    }

    /// Whether its workspace changed since this was asked last.
    pub(super) fn take_change(&self) -> bool {
        self.changed.swap(false, Relaxed)
    }

    pub(super) fn has_changed(&self) -> bool {
        self.changed.load(Relaxed)
    }

    pub(super) fn view(&self) -> SessionView {
        let mut session = self.row();
        session.last_activity_at = session.last_activity_at.max(self.touched());
        let running = self.running.load(Relaxed);
        if running > 0 && session.status == SessionStatus::Ready {
            session.status = SessionStatus::Running;
        }
        let dependencies = super::locked(&self.packages).all.clone();
        SessionView {
            session,
            spec: SessionSpec { dependencies, ..self.spec.clone() },
            limits: Some(*self.sandbox.limits()),
            network: self.network,
            max_concurrent: self.max_concurrent,
            running,
            queued: self.waiting.load(Relaxed),
        }
    }

    /// A place among those who wait for it, of which there are no more than so many.
    pub(super) fn place(self: &Arc<LiveSession>, most_waiting: usize) -> Result<Place, ControlError> {
        let place = Place { session: self.clone() };
        let before = self.waiting.fetch_add(1, Relaxed);
        if before >= most_waiting.max(1) && self.seats.available_permits() == 0 {
            return Err(ControlError::Busy {
                why: format!("{before} programs of this session wait already"),
                retry_after: Duration::from_secs(1),
            });
        }
        Ok(place)
    }

    /// Takes note of the turn in which one of its programs runs.
    pub(super) fn works_in(&self, turn: &Arc<Turn>) {
        let mut own = super::locked(&self.turns);
        own.retain(|turn| turn.strong_count() > 0);
        own.push(Arc::downgrade(turn));
        if self.row().status == SessionStatus::Paused {
            turn.lend();
        }
    }

    /// Has it stand still, or go on. Its state says so already.
    pub(super) async fn stand_still(&self, still: bool) -> Result<(), EngineError> {
        let turns = || super::locked(&self.turns).iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        if still {
            self.sandbox.pause().await?;
            turns().iter().for_each(|turn| turn.lend());
        } else {
            turns().iter().for_each(|turn| turn.take_back());
            self.sandbox.resume().await?;
        }
        Ok(())
    }

    /// CPU time, in milliseconds, that has to be paid for when this program of it is over. Where several run at once, that
    /// is what the kernel counted of all of them and nobody has paid for yet: less can be seen of each by itself.
    pub(super) async fn cost(&self, execution: &Execution) -> f64 {
        let own = execution.metrics.cpu_time_ms;
        if self.max_concurrent == 1 {
            return own;
        }
        match self.sandbox.usage().await.ok().and_then(|usage| usage.cpu_micros) {
            Some(used) => used.saturating_sub(self.paid_micros.fetch_max(used, Relaxed)) as f64 / 1000.0,
            None => own,
        }
    }

    /// Whether it has ended, or is about to.
    pub(super) fn is_over(&self) -> bool {
        self.closing.load(Relaxed) || self.sandbox.is_gone()
    }

    pub(super) fn gone(&self) -> ControlError {
        ControlError::conflict("session", "has ended")
    }

    /// Runs a program in it. Whoever has a seat may.
    pub(super) async fn execute(
        &self,
        request: Request,
        events: mpsc::Sender<Event>,
    ) -> Result<Execution, EngineError> {
        self.change();
        let done = self.sandbox.execute(request, events).await;
        self.change();
        done
    }
}

/// A place among those who wait for a session.
#[derive(Debug)]
pub(crate) struct Place {
    session: Arc<LiveSession>,
}

impl Place {
    /// Waits until it is free for one more.
    pub(super) async fn seat(self) -> Result<Seat, ControlError> {
        let permit = self.session.seats.clone().acquire_owned().await;
        self.taken(permit.ok())
    }

    /// Waits until all others are done. Who comes later waits as well.
    pub(super) async fn all_seats(self) -> Result<Seat, ControlError> {
        let permit = self.session.seats.clone().acquire_many_owned(self.session.max_concurrent).await;
        self.taken(permit.ok())
    }

    /// The same where it is known that there is nobody.
    pub(super) fn all_seats_at_once(self) -> Result<Seat, ControlError> {
        let permit = self.session.seats.clone().try_acquire_many_owned(self.session.max_concurrent);
        self.taken(permit.ok())
    }

    fn taken(self, permit: Option<OwnedSemaphorePermit>) -> Result<Seat, ControlError> {
        let session = &self.session;
        match permit {
            Some(permit) if !session.is_over() => {
                session.running.fetch_add(1, Relaxed);
                Ok(Seat { _permit: permit, running: session.running.clone() })
            }
            _ => Err(session.gone()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.session.waiting.fetch_sub(1, Relaxed);
    }
}
