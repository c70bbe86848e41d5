//! A sandbox that lives: many programs, one after the other, in one workspace, whose files can be reached all the while.
//!
//! One task owns it and talks to its executor; everybody else sends it what they want. It ends when nobody has hold of it
//! any more, or when its executor does.

use super::run::Run;
use super::{Engine, Event, Request};
use crate::aside::{Answer, Aside, Ask, Told};
use crate::conversation::{self, End, Line, Speech};
use crate::execution::{Execution, Receipt, Start};
use crate::isolator::native::Lease;
use crate::isolator::{Isolator, PlaceSpec};
use crate::limits::{Limits, Wanted};
use crate::runtime::{find, plan};
use crate::{EngineError, Input, Layer, Network, Profile};
use jail::spec::{BoxUsage, HostDir};
use protocol::{FileOp, FileOutcome, Frame, FromHost, GENERATION, LONGEST_PIECE};
use sha2::{Digest, Sha256};
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
}

impl Default for SandboxSpec {
    fn default() -> SandboxSpec {
        SandboxSpec {
            limits: Wanted::default(),
            network: Network::None,
            profile: Profile::Default,
            allow_weaker: Vec::new(),
            languages: Vec::new(),
        }
    }
}

/// A program to run in it, and who waits for what came of it.
struct Visit {
    request: Request,
    events: mpsc::Sender<Event>,
    answer: oneshot::Sender<Result<Execution, EngineError>>,
    /// Whether it has begun, or will never: whoever finds it unset decides which.
    decided: Arc<AtomicBool>,
}

/// A sandbox that lives.
#[derive(Debug)]
pub struct Sandbox {
    id: String,
    receipt: Receipt,
    limits: Limits,
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
        };
        let mut hello = Vec::new();
        Frame::control(&FromHost::Hello { generation: GENERATION }).write_to(&mut hello);
        let made = self.native.create(&place, &hello, None).await?;
        let lease = Lease::new(self.native.clone(), place.id.clone());
        let (visits, visitors) = mpsc::channel(1);
        let (asks, asked) = mpsc::channel(1);
        let (going, gone) = watch::channel(false);
        let (close, closing) = watch::channel(false);
        let home = Home {
            engine: self.clone(),
            lease,
            line: Line::new(made.stream),
            aside: Aside::new(asked),
            host_dirs: place.host_dirs,
            limits,
            receipt: made.receipt.clone(),
        };
        tokio::spawn(async move {
            home.live(visitors, closing).await;
            let _ = going.send(true);
        });
        Ok(Sandbox {
            id: place.id,
            receipt: made.receipt,
            limits,
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
        self.asks.send(Ask::File { op, content, answer }).await.map_err(|_| gone(()))?;
        let Answer { outcome, content } = answered.await.map_err(|_| gone(()))?;
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

    /// Waits until it is gone.
    pub async fn gone(&self) {
        // Whoever could say so being gone says it too.
        let _ = self.gone.clone().wait_for(|gone| *gone).await;
    }

    /// Whether it is gone.
    pub fn is_gone(&self) -> bool {
        *self.gone.borrow() || self.gone.has_changed().is_err()
    }
}

/// The task that owns a sandbox.
struct Home {
    engine: Arc<Engine>,
    lease: Lease,
    line: Line,
    aside: Aside,
    host_dirs: Vec<HostDir>,
    limits: Limits,
    receipt: Receipt,
}

impl Home {
    async fn live(mut self, mut visitors: mpsc::Receiver<Visit>, mut closing: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                biased;
                () = closed(&mut closing) => break,
                frame = self.line.hear() => match frame {
                    Some(frame) if self.aside.is_for(&frame) => self.aside.hear(frame),
                    // The answer to the first word.
                    Some(_) => {}
                    None => break,
                },
                told = self.aside.next() => match told {
                    // Nothing runs that could stand still; what comes next waits.
                    Told::Pause | Told::Resume => {}
                    Told::File(bytes) => if !self.line.say(&bytes).await { break },
                },
                visit = visitors.recv(), if !self.aside.paused => {
                    let Some(Visit { request, events, answer, decided }) = visit else { break };
                    if decided.swap(true, Relaxed) {
                        continue;
                    }
                    let done = tokio::select! {
                        done = self.receive(&request, &events) => done,
                        () = closed(&mut closing) => break,
                    };
                    let over = matches!(&done, Ok((_, false)) | Err(EngineError::Broken(_)));
                    // Whoever asked may not want to know any more.
                    let _ = answer.send(done.map(|(record, _)| record));
                    if over {
                        break;
                    }
                }
            }
        }
    }

    /// Runs one program. Says whether another one can be run after it.
    async fn receive(
        &mut self,
        request: &Request,
        events: &mpsc::Sender<Event>,
    ) -> Result<(Execution, bool), EngineError> {
        let engine = self.engine.clone();
        let runtime = engine.catalogue.by_name(&request.language)?;
        engine.catalogue.offers(runtime, &request.mode)?;
        let found = find::find(runtime)?;
        let limits = self.limits_of(request.wanted()?, runtime.limits())?;
        let mut main = super::checked(request, runtime, &limits)?;
        if request.main.path.is_empty() && self.is_taken(&main).await {
            main = other_name(&main, &request.main.content);
        }
        let run = Run { request, runtime, limits, main, visits: true };
        let order = run.order(&found, &self.engine.native.places(&self.lease.id))?;
        let wants = found.toolchain.iter().map(|(_, target)| target.clone());
        let prepared = found.variant.prepare.iter().filter(|p| plan::mention(&order.job.steps, &p.mount));
        let wants = wants.chain(prepared.map(|prepare| (&prepare.mount).into()));
        for target in wants {
            if self.host_dirs.iter().all(|dir| dir.target != target) {
                return Err(EngineError::Unavailable {
                    what: format!("this sandbox was made without {}", runtime.title),
                    hint: Some(format!("name `{}` among its languages when it is made", runtime.name)),
                });
            }
        }
        let words = run.words(&order)?;
        let started_at = jiff::Timestamp::now();
        let (line, aside) = (&mut self.line, &mut self.aside);
        let speech = Speech { words: &words, feed: request.stdin.as_ref().and_then(Input::feed) };
        let mut heard = conversation::hold(line, &order.job, speech, events, &request.cancel, aside).await;
        let mut receipt = self.receipt.clone();
        receipt.complete(heard.seccomp_sha256.take(), heard.landlock_abi);
        let lives = matches!(heard.end, End::Finished(_));
        let usage = self.engine.counted(&heard, &self.lease.id).await;
        let id = uuid::Uuid::now_v7().simple().to_string();
        let record = run.record(&id, &order.job.steps, heard, receipt, usage, (Start::Ready, started_at));
        Ok((record, lives))
    }

    /// Bounds of one program: those of the sandbox, but for what is counted for each one.
    fn limits_of(&self, wanted: Wanted, language: Wanted) -> Result<Limits, EngineError> {
        let of_all = [
            ("memory", wanted.memory_bytes, self.limits.memory_bytes),
            ("cpus", wanted.cpu_millis, self.limits.cpu_millis),
            ("pids", wanted.pids, self.limits.pids),
            ("disk", wanted.disk_bytes, self.limits.disk_bytes),
            ("inodes", wanted.disk_inodes, self.limits.disk_inodes),
            ("open-files", wanted.open_files, self.limits.open_files),
        ];
        for (name, wanted, own) in of_all {
            if wanted.is_some_and(|wanted| wanted != own) {
                return Err(EngineError::invalid(name, "is a bound of the whole sandbox")
                    .with_hint("leave it out, or set it when the sandbox is made"));
            }
        }
        let most = self.engine.ceiling;
        let own = Wanted {
            memory_bytes: Some(self.limits.memory_bytes),
            cpu_millis: Some(self.limits.cpu_millis),
            pids: Some(self.limits.pids),
            disk_bytes: Some(self.limits.disk_bytes),
            disk_inodes: Some(self.limits.disk_inodes),
            open_files: Some(self.limits.open_files),
            timeout_ms: wanted.timeout_ms.or(Some(self.limits.timeout_ms)),
            cpu_time_ms: wanted.cpu_time_ms,
            output_bytes: wanted.output_bytes.or(Some(self.limits.output_bytes)),
        };
        Limits::resolve(own, language, &most)
    }

    /// Whether something has this name in the workspace.
    async fn is_taken(&mut self, path: &str) -> bool {
        let (answer, mut answered) = oneshot::channel();
        let bytes = self.aside.ask(FileOp::Stat { path: path.to_owned() }, None, answer);
        if !self.line.say(&bytes).await {
            return false;
        }
        loop {
            if let Ok(Answer { outcome, .. }) = answered.try_recv() {
                return matches!(outcome, FileOutcome::Found { .. });
            }
            match self.line.hear().await {
                Some(frame) if self.aside.is_for(&frame) => self.aside.hear(frame),
                Some(_) => {}
                None => return false,
            }
        }
    }
}

/// Resolves when somebody wants it closed, or nobody has hold of it any more.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

/// A name for a main file whose usual one is taken: the same one whenever its content is.
fn other_name(usual: &str, content: &[u8]) -> String {
    let hash = crate::cache::hex(&Sha256::digest(content)[..4]);
    match usual.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}_{hash}.{extension}"),
        None => format!("{usual}_{hash}"),
    }
}
