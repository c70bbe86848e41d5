//! A sandbox that lives: many programs in one workspace, one after the other or so many at once, whose files can be
//! reached all the while.
//!
//! One task owns it and talks to its executor; everybody else sends it what they want. It ends when nobody has hold of it
//! any more, or when its executor does. Where several programs run at once, each seat has such a task ([`hall`]).
//!
//! [`hall`]: super::hall

use super::hall::{Hall, Names};
use super::home::{Home, Visit};
use super::{Engine, Event, Request};
use crate::aside::{Answer, Aside, Ask};
use crate::conversation::Line;
use crate::execution::{Execution, Receipt};
use crate::isolator::native::Lease;
use crate::isolator::{Isolator, PlaceSpec};
use crate::limits::{Limits, Wanted};
use crate::runtime::find;
use crate::{EngineError, Layer, Network, Profile};
use jail::spec::{BoxUsage, HostDir, MOST_SEATS};
use protocol::{FileOp, FileOutcome, Frame, FromHost, GENERATION, LONGEST_PIECE};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{mpsc, oneshot, watch};

/// What a sandbox shall be like.
#[derive(Clone, Debug)]
pub struct SandboxSpec {
    /// Its bounds, where they shall differ from the defaults. How long a program takes is bounded for each one.
    pub limits: Wanted,
    /// What it may reach.
    pub network: Network,
    /// System calls its programs may make.
    pub profile: Profile,
    /// Layers whose absence is accepted.
    pub allow_weaker: Vec<Layer>,
    /// Languages that will be asked for. Others work as long as they need nothing of the host that is not there.
    pub languages: Vec<String>,
    /// Programs that run at once.
    pub max_concurrent: u32,
}

impl Default for SandboxSpec {
    fn default() -> SandboxSpec {
        SandboxSpec {
            limits: Wanted::default(),
            network: Network::None,
            profile: Profile::Default,
            allow_weaker: Vec::new(),
            languages: Vec::new(),
            max_concurrent: 1,
        }
    }
}

/// Bounds of [`SandboxSpec::max_concurrent`].
pub const CONCURRENT: std::ops::RangeInclusive<u32> = 1..=MOST_SEATS as u32;

/// A sandbox that lives.
#[derive(Debug)]
pub struct Sandbox {
    id: String,
    receipt: Receipt,
    limits: Limits,
    max_concurrent: u32,
    visits: mpsc::Sender<Visit>,
    asks: mpsc::Sender<Ask>,
    gone: watch::Receiver<bool>,
    close: watch::Sender<bool>,
    engine: Arc<Engine>,
}

impl Engine {
    /// Makes a sandbox that lives.
    pub async fn open(self: &Arc<Engine>, spec: &SandboxSpec) -> Result<Sandbox, EngineError> {
        let limits = Limits::resolve(spec.limits, Wanted::default(), &self.ceiling)?;
        check_concurrent(spec.max_concurrent, *CONCURRENT.end())?;
        let (nobody, _listens) = mpsc::channel(1);
        let mut host_dirs: Vec<HostDir> = Vec::new();
        for language in &spec.languages {
            let runtime = self.catalogue.by_name(language)?;
            let found = find::find(runtime)?;
            let request =
                Request { allow_weaker: spec.allow_weaker.clone(), ..Request::new(&runtime.name, "") };
            for dir in self.host_dirs(&request, runtime, &found, true, &nobody).await? {
                if host_dirs.iter().all(|other| other.target != dir.target) {
                    host_dirs.push(dir);
                }
            }
        }
        let place = PlaceSpec {
            id: uuid::Uuid::now_v7().simple().to_string(),
            limits,
            network: spec.network,
            profile: spec.profile,
            host_dirs,
            allow_weaker: spec.allow_weaker.clone(),
            zygote: None,
            keeper: false,
            seats: if spec.max_concurrent > 1 { spec.max_concurrent } else { 0 },
        };
        let mut hello = Vec::new();
        Frame::control(&FromHost::Hello { generation: GENERATION }).write_to(&mut hello);
        let made = self.native.create(&place, &hello, None).await?;
        let lease = Lease::new(self.native.clone(), place.id.clone());
        let (visits, visitors) = mpsc::channel(1);
        let (asks, asked) = mpsc::channel(1);
        let (going, gone) = watch::channel(false);
        let (close, closing) = watch::channel(false);
        let visitors = Arc::new(tokio::sync::Mutex::new(visitors));
        let (line, aside) = (Line::new(made.stream), Aside::new(asked));
        let host_dirs: Arc<[HostDir]> = place.host_dirs.into();
        let names = (!made.seats.is_empty()).then(|| Arc::new(Names::new()));
        let home = |line: Line, aside: Aside| Home {
            engine: self.clone(),
            id: place.id.clone(),
            line,
            aside,
            host_dirs: host_dirs.clone(),
            limits,
            receipt: made.receipt.clone(),
            names: names.clone(),
        };
        if made.seats.is_empty() {
            let home = home(line, aside);
            tokio::spawn(async move {
                home.live(visitors, closing).await;
                drop(lease);
                let _ = going.send(true);
            });
        } else {
            let (mut homes, mut seats) = (Vec::new(), Vec::new());
            for stream in made.seats {
                let (seat, asked) = mpsc::channel(ASKS);
                seats.push(seat);
                homes.push(home(Line::new(stream), Aside::new(asked)));
            }
            let hall = Hall { lease, line, aside, seats };
            tokio::spawn(async move {
                hall.live(homes, visitors, closing).await;
                let _ = going.send(true);
            });
        }
        Ok(Sandbox {
            id: place.id,
            receipt: made.receipt,
            limits,
            max_concurrent: spec.max_concurrent,
            visits,
            asks,
            gone,
            close,
            engine: self.clone(),
        })
    }
}

impl Sandbox {
    /// Its name, unique on this host.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What protects the host from it.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Its bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How many programs run in it at once.
    pub fn max_concurrent(&self) -> u32 {
        self.max_concurrent
    }

    /// Runs a program in it, when those before it are done and it does not stand still.
    pub async fn execute(
        &self,
        request: Request,
        events: mpsc::Sender<Event>,
    ) -> Result<Execution, EngineError> {
        let (answer, answered) = oneshot::channel();
        let gone = || EngineError::Broken("the sandbox is gone".into());
        let (decided, cancel) = (Arc::new(AtomicBool::new(false)), request.cancel.clone());
        let visit = Visit { request, events, answer, decided: decided.clone() };
        let done = async {
            self.visits.send(visit).await.map_err(|_| gone())?;
            answered.await.unwrap_or_else(|_| Err(gone()))
        };
        let given_up = async {
            cancel.cancelled().await;
            // One that has begun ends by itself.
            if decided.swap(true, Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            done = done => done,
            () = given_up => Err(EngineError::Cancelled),
            () = self.gone() => Err(gone()),
        }
    }

    /// Does something with its files, also while a program runs. What is read comes beside the outcome.
    pub async fn file(
        &self,
        op: FileOp,
        content: Option<Vec<u8>>,
    ) -> Result<(FileOutcome, Vec<u8>), EngineError> {
        let gone = |_| EngineError::Broken("the sandbox is gone".into());
        if content.as_ref().is_some_and(|content| content.len() > LONGEST_PIECE) {
            return Err(EngineError::Broken("more is written at once than can be".into()));
        }
        let (answer, answered) = oneshot::channel();
        let done = async {
            self.asks.send(Ask::File { op, content, answer }).await.map_err(|_| gone(()))?;
            answered.await.map_err(|_| gone(()))
        };
        let Answer { outcome, content } = tokio::select! {
            biased;
            done = done => done?,
            () = self.gone() => return Err(gone(())),
        };
        Ok((outcome, content))
    }

    /// Stops every process in it, and the clock of the program that runs.
    pub async fn pause(&self) -> Result<(), EngineError> {
        self.ask(Ask::Pause).await
    }

    /// Lets them go on.
    pub async fn resume(&self) -> Result<(), EngineError> {
        self.ask(Ask::Resume).await
    }

    async fn ask(&self, ask: Ask) -> Result<(), EngineError> {
        self.asks.send(ask).await.map_err(|_| EngineError::Broken("the sandbox is gone".into()))
    }

    /// What it has used so far.
    pub async fn usage(&self) -> Result<BoxUsage, EngineError> {
        self.engine.native.usage(&self.id).await
    }

    /// Ends it, and whatever runs in it.
    pub fn close(&self) {
        self.close.send_replace(true);
    }

    /// Waits until it is gone. Whoever has asked something waits for this, too: what was sent at the very moment in which
    /// the other side went lies there for as long as anybody could send more.
    pub async fn gone(&self) {
        // Whoever could say so being gone says it too.
        let _ = self.gone.clone().wait_for(|gone| *gone).await;
    }

    /// Whether it is gone.
    pub fn is_gone(&self) -> bool {
        *self.gone.borrow() || self.gone.has_changed().is_err()
    }
}

/// How often a seat is told to stand still, or to go on, before it has to have heard of it.
const ASKS: usize = 16;

/// Whether so many programs may run at once in one sandbox, where there are at most `most`.
pub(crate) fn check_concurrent(wanted: u32, most: u32) -> Result<(), EngineError> {
    match (1..=most).contains(&wanted) {
        true => Ok(()),
        false => Err(EngineError::invalid("max_concurrent", "is out of range")
            .with_hint(format!("how many programs run at once: 1 to {most}"))),
    }
}
