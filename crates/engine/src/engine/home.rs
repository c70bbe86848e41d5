//! The task that owns a sandbox that lives, or a seat in one: takes programs as they come, and runs one at a time.

use super::hall::Names;
use super::run::Run;
use super::{Engine, Event, Request};
use crate::aside::{Answer, Aside, Told};
use crate::conversation::{self, End, FAREWELL, GRACE, Line, Speech};
use crate::execution::{Execution, Receipt, Start};
use crate::isolator::Isolator;
use crate::limits::{Limits, Wanted};
use crate::runtime::{find, plan};
use crate::{EngineError, Input};
use jail::spec::{BoxUsage, HostDir};
use protocol::{FileOp, FileOutcome};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{mpsc, oneshot, watch};

/// Programs that came, for whichever seat is free.
pub(super) type Visitors = Arc<tokio::sync::Mutex<mpsc::Receiver<Visit>>>;

/// A program to run in it, and who waits for what came of it.
pub(super) struct Visit {
    pub(super) request: Request,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) answer: oneshot::Sender<Result<Execution, EngineError>>,
    /// Whether it has begun, or will never: whoever finds it unset decides which.
    pub(super) decided: Arc<AtomicBool>,
}

/// The task that owns a sandbox, or a seat in one.
pub(super) struct Home {
    pub(super) engine: Arc<Engine>,
    pub(super) id: String,
    pub(super) line: Line,
    pub(super) aside: Aside,
    pub(super) host_dirs: Arc<[HostDir]>,
    pub(super) limits: Limits,
    pub(super) receipt: Receipt,
    /// Names for main files, at a seat.
    pub(super) names: Option<Arc<Names>>,
}

impl Home {
    pub(super) async fn live(mut self, visitors: Visitors, mut closing: watch::Receiver<bool>) {
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
                visit = async { visitors.lock().await.recv().await }, if !self.aside.paused => {
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
        let names = self.names.clone();
        if request.main.path.is_empty() {
            match &names {
                // Whether it is taken may be another when it is made.
                Some(names) => main = names.next(&main),
                None if self.is_taken(&main).await => main = other_name(&main, &request.main.content),
                None => {}
            }
        }
        let run = Run { request, runtime, limits, main, visits: true, names: names.as_deref() };
        let order = run.order(&found, &self.engine.native.places(&self.id))?;
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
        let feed = request.stdin.as_ref().and_then(Input::feed);
        // Who does not answer takes its neighbours along.
        let farewell = if names.is_some() { GRACE } else { FAREWELL };
        let speech = Speech { words: &words, feed, farewell };
        let mut heard = conversation::hold(line, &order.job, speech, events, &request.cancel, aside).await;
        heard.walled()?;
        let mut receipt = self.receipt.clone();
        receipt.complete(heard.seccomp_sha256.take(), heard.landlock_abi);
        let lives = matches!(heard.end, End::Finished(_) | End::Unable(_)) && {
            // What was begun has to be said, or the next word would be taken for a part of it.
            let (words_left, more) = std::mem::take(&mut heard.unsaid);
            let left = &words[words.len() - words_left..];
            self.line.say(left).await && self.line.say(&more).await
        };
        let usage = match (&names, &heard.end) {
            // What the kernel counts of the whole sandbox is not this program's.
            (Some(_), end) if !matches!(end, End::Finished(_)) => BoxUsage::default(),
            _ => self.engine.counted(&heard, &self.id).await,
        };
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
pub(super) async fn closed(closing: &mut watch::Receiver<bool>) {
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
