//! What every door has at hand.

use crate::audit::Audit;
use crate::documents::Documents;
use crate::keys::Keys;
use crate::mcp::Mcp;
use crate::metrics::Metrics;
use crate::{Address, Options, Problem};
use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use engine::control::ControlPlane;
use engine::storage::Store;
use engine::{Engine, Verdict};
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, watch};

/// How long what a check has found is believed: asking must not become a burden.
const BELIEVED: Duration = Duration::from_secs(1);

/// What every door has at hand. A handler takes it as an argument.
#[derive(Clone)]
pub struct State(Arc<Inner>);

struct Inner {
    plane: Arc<ControlPlane>,
    options: Options,
    keys: Keys,
    audit: Audit,
    metrics: Metrics,
    documents: Documents,
    mcp: OnceLock<Option<Mcp>>,
    verdict: Verdict,
    address: Address,
    started: Instant,
    draining: watch::Sender<bool>,
    answers: Mutex<Option<(Instant, bool)>>,
}

impl State {
    pub(crate) fn new(
        plane: Arc<ControlPlane>,
        options: Options,
        keys: Keys,
        audit: Audit,
        verdict: Verdict,
        address: Address,
    ) -> State {
        let metrics = Metrics::new(&verdict);
        let documents = Documents::new(options.documents.clone());
        State(Arc::new(Inner {
            plane,
            options,
            keys,
            audit,
            metrics,
            documents,
            mcp: OnceLock::new(),
            verdict,
            address,
            started: Instant::now(),
            draining: watch::Sender::new(false),
            answers: Mutex::default(),
        }))
    }

    /// What runs programs and keeps sessions.
    pub fn plane(&self) -> &Arc<ControlPlane> {
        &self.0.plane
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        self.0.plane.engine()
    }

    /// Storage.
    pub fn store(&self) -> &Arc<Store> {
        self.0.plane.store()
    }

    /// What the operator has set.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// The audit log.
    pub fn audit(&self) -> &Audit {
        &self.0.audit
    }

    /// How well this host isolates, as it was when the server started.
    pub fn verdict(&self) -> &Verdict {
        &self.0.verdict
    }

    /// Where the server listens.
    pub fn address(&self) -> &Address {
        &self.0.address
    }

    /// How long the server has been up.
    pub fn uptime(&self) -> Duration {
        self.0.started.elapsed()
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.0.keys
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn documents(&self) -> &Documents {
        &self.0.documents
    }

    /// What agents find, if anything. It looks for programs the first time, so it may block then.
    pub(crate) fn mcp(&self) -> Option<&Mcp> {
        let made = || self.options().mcp.clone().map(|options| Mcp::new(self.plane().clone(), options));
        self.0.mcp.get_or_init(made).as_ref()
    }

    /// From now on no new work is wanted.
    pub(crate) fn drain(&self) {
        self.0.draining.send_replace(true);
    }

    /// Returns when no new work is wanted any more.
    pub(crate) async fn drained(&self) {
        let mut draining = self.0.draining.subscribe();
        // The other end is ours as well.
        let _ = draining.wait_for(|draining| *draining).await;
    }

    /// Whether work is wanted and storage answers.
    pub(crate) async fn ready(&self) -> Result<(), Problem> {
        if *self.0.draining.borrow() {
            return Err(Problem::unavailable("the server is about to stop", BELIEVED));
        }
        // One asks, the others wait for what it hears.
        let mut answers = self.0.answers.lock().await;
        let fine = match *answers {
            Some((at, fine)) if at.elapsed() < BELIEVED => fine,
            _ => {
                let fine = self.store().check().await.is_ok();
                *answers = Some((Instant::now(), fine));
                fine
            }
        };
        if fine { Ok(()) } else { Err(Problem::unavailable("storage does not answer", BELIEVED)) }
    }
}

impl<S: Sync> FromRequestParts<S> for State
where
    State: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, state: &S) -> Result<State, Infallible> {
        Ok(State::from_ref(state))
    }
}
