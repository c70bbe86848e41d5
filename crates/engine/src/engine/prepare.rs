//! Work a toolchain needs done once, done in a sandbox of its own.

use super::{Engine, Event, Request};
use crate::aside::Aside;
use crate::cache::{Beginning, Draft, Prepared};
use crate::conversation::{self, End, FAREWELL, Line, Speech};
use crate::execution::{Status, judge};
use crate::isolator::native::{Lease, Native};
use crate::isolator::{Isolator, PlaceSpec};
use crate::limits::{Ceiling, Limits, Wanted};
use crate::runtime::{Found, Runtime, find, plan};
use crate::{Cancel, EngineError, Network, Profile};
use jail::spec::{HostDir, HostDirMode};
use protocol::{Collect, Job, Step};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long preparing may take.
const PATIENCE: Duration = Duration::from_secs(600);

impl Engine {
    /// Has what toolchains need done once done before anybody waits for it. What fails is told to whoever wants it then.
    pub async fn prepare_languages(&self) {
        let (nobody, _listens) = mpsc::channel(1);
        for runtime in self.catalogue.runtimes().unwrap_or_default() {
            let Ok(found) = find::find(runtime) else { continue };
            if found.variant.prepare.is_some() {
                let request = Request::new(&runtime.name, "");
                let _ = self.host_dirs(&request, runtime, &found, true, &nobody).await;
            }
        }
    }

    /// The prepared directory of a variant, made in a sandbox of its own if need be.
    pub(super) async fn prepared(
        &self,
        request: &Request,
        runtime: &Runtime,
        found: &Found<'_>,
        dirs: &[HostDir],
        events: &mpsc::Sender<Event>,
    ) -> Result<PathBuf, EngineError> {
        let Some(prepare) = &found.variant.prepare else {
            return Err(EngineError::Broken("nothing to prepare".into()));
        };
        let words = format!("{} {:?} {:?}", found.fingerprint(), prepare.run, found.variant.env);
        let prepared = Prepared::of(&words)?;
        if let Some(ready) = prepared.ready() {
            return Ok(ready);
        }
        // Somebody who wants several languages, and does not listen, must not wait for himself.
        let _ = events.try_send(Event::Preparing { language: runtime.title.clone() });
        let draft = loop {
            match prepared.begin()? {
                Beginning::Draft(draft) => break draft,
                Beginning::Done(ready) => return Ok(ready),
                // Somebody else is at it, perhaps in this very process: waiting must not stop them.
                Beginning::Busy => tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(100)) => {}
                    () = request.cancel.cancelled() => return Err(EngineError::Cancelled),
                    () = events.closed() => return Err(EngineError::Cancelled),
                },
            }
        };
        let writable = HostDir {
            source: draft.folder().into(),
            target: (&prepare.mount).into(),
            mode: HostDirMode::Writable,
        };
        let limits = limits(runtime, &self.ceiling)?;
        let spec = PlaceSpec {
            id: uuid::Uuid::now_v7().simple().to_string(),
            limits,
            network: Network::None,
            profile: Profile::Default,
            host_dirs: dirs.iter().cloned().chain([writable]).collect(),
            allow_weaker: request.allow_weaker.clone(),
            zygote: None,
            keeper: false,
            seats: 0,
        };
        let step = plan::prepare(runtime, found, &spec.limits, &self.native.places(&spec.id));
        let preparation = Preparation {
            native: self.native.clone(),
            spec,
            step,
            title: runtime.title.clone(),
            optional: prepare.optional,
        };
        // Whoever asks next wants it too, so it is done even if nobody waits for it any more.
        let done = tokio::spawn(preparation.make(draft));
        tokio::select! {
            done = done => done.map_err(|e| EngineError::Broken(e.to_string()))?,
            () = request.cancel.cancelled() => Err(EngineError::Cancelled),
            () = events.closed() => Err(EngineError::Cancelled),
        }
    }
}

/// What preparing may use. How much at a time is for the operator to say; how long it takes, once, is no program's time.
fn limits(runtime: &Runtime, ceiling: &Ceiling) -> Result<Limits, EngineError> {
    let (most, usual) = (ceiling.0, Ceiling::default().0);
    let wanted = Wanted {
        timeout_ms: Some(PATIENCE.as_millis() as u64),
        memory_bytes: Some((2 << 30).min(most.memory_bytes)),
        cpu_millis: Some(most.cpu_millis),
        pids: Some(512.min(most.pids)),
        ..Wanted::default()
    };
    let ceiling = Ceiling(Limits { timeout_ms: usual.timeout_ms, cpu_time_ms: usual.cpu_time_ms, ..most });
    Limits::resolve(wanted, runtime.limits(), &ceiling)
}

/// The work of one toolchain.
struct Preparation {
    native: Arc<Native>,
    spec: PlaceSpec,
    step: Option<Step>,
    title: String,
    optional: bool,
}

impl Preparation {
    /// Fills a draft, and keeps it.
    async fn make(self, draft: Draft) -> Result<PathBuf, EngineError> {
        match self.fill().await {
            Ok(None) => draft.finish(),
            // It works without, only slower. Trying again with every run would be slower still.
            Ok(Some(_)) if self.optional => draft.finish_empty(),
            Ok(Some(why)) => {
                draft.discard();
                Err(EngineError::Broken(format!("{} could not be prepared: {why}", self.title)))
            }
            Err(error) => {
                draft.discard();
                Err(error)
            }
        }
    }

    /// Does the work, and says why it failed if it did.
    async fn fill(&self) -> Result<Option<String>, EngineError> {
        let job = Job {
            files: Vec::new(),
            steps: self.step.iter().cloned().collect(),
            limits: self.spec.limits.of_job(),
            stdin: false,
            collect: Collect {
                artifacts: false,
                contents: false,
                build: false,
                most_files: 0,
                most_bytes: 0,
                most_value_bytes: None,
            },
        };
        let words = conversation::words(&job, &[], None)?;
        let place = self.native.create(&self.spec, &words, None).await?;
        let lease = Lease::new(self.native.clone(), self.spec.id.clone());
        // What the toolchain says while it is prepared is not the program's output.
        let (quiet, mut nobody) = mpsc::channel(16);
        let (mut line, mut aside) = (Line::new(place.stream), Aside::default());
        let speech = Speech { words: &words[place.told..], feed: None, farewell: FAREWELL };
        let never = Cancel::default();
        let talk = conversation::hold(&mut line, &job, speech, &quiet, &never, &mut aside);
        tokio::pin!(talk);
        let heard = loop {
            tokio::select! {
                heard = &mut talk => break heard,
                Some(_) = nobody.recv() => {}
            }
        };
        let usage = lease.end(None).await?;
        Ok(match heard.end {
            End::Finished(result) => match judge(&result, &usage, &self.spec.limits) {
                (Status::Success, _) => None,
                (_, why) => {
                    let said = String::from_utf8_lossy(&heard.stderr).trim().to_owned();
                    Some(format!("{}: {said}", why.unwrap_or_default()))
                }
            },
            other => Some(format!("{other:?}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Catalogue;

    #[test]
    fn how_long_programs_may_take_bounds_no_preparing() {
        let most = Limits { timeout_ms: 3_000, cpu_time_ms: 3_000, pids: 100, ..Ceiling::default().0 };
        let catalogue = Catalogue::default();
        let limits = limits(catalogue.by_name("go").unwrap(), &Ceiling(most)).unwrap();
        assert_eq!((limits.timeout_ms, limits.pids), (600_000, 100));
        assert!(limits.cpu_time_ms > 600_000);
    }
}
