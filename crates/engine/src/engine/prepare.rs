//! Work a toolchain needs done once, done in a sandbox of its own.

use super::{Engine, Event, Request};
use crate::aside::Aside;
use crate::cache::{Beginning, Prepared};
use crate::conversation::{self, End, Line, Speech};
use crate::execution::{Status, judge};
use crate::isolator::{Isolator, PlaceSpec};
use crate::limits::{Limits, Wanted};
use crate::runtime::{Found, Runtime, plan};
use crate::{EngineError, Network, Profile};
use jail::spec::{HostDir, HostDirMode};
use protocol::{Collect, Job};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;

impl Engine {
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
        let _ = events.send(Event::Preparing { language: runtime.title.clone() }).await;
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
        let wanted = Wanted {
            timeout_ms: Some(600_000.min(self.ceiling.0.timeout_ms)),
            memory_bytes: Some((2 << 30).min(self.ceiling.0.memory_bytes)),
            cpu_millis: Some(self.ceiling.0.cpu_millis),
            pids: Some(512.min(self.ceiling.0.pids)),
            ..Wanted::default()
        };
        let limits = Limits::resolve(wanted, runtime.limits(), &self.ceiling)?;
        let spec = PlaceSpec {
            id: uuid::Uuid::now_v7().simple().to_string(),
            limits,
            network: Network::None,
            profile: Profile::Default,
            host_dirs: dirs.iter().cloned().chain([writable]).collect(),
            allow_weaker: request.allow_weaker.clone(),
            zygote: None,
        };
        let outcome = self.prepare_in(&spec, runtime, found, request, events).await;
        match outcome {
            Ok(None) => draft.finish(),
            // It works without, only slower. Trying again with every run would be slower still.
            Ok(Some(_)) if prepare.optional => draft.finish_empty(),
            Ok(Some(why)) => {
                draft.discard();
                Err(EngineError::Broken(format!("{} could not be prepared: {why}", runtime.title)))
            }
            Err(error) => {
                draft.discard();
                Err(error)
            }
        }
    }

    /// Does the work, and says why it failed if it did.
    async fn prepare_in(
        &self,
        spec: &PlaceSpec,
        runtime: &Runtime,
        found: &Found<'_>,
        request: &Request,
        events: &mpsc::Sender<Event>,
    ) -> Result<Option<String>, EngineError> {
        let step = plan::prepare(runtime, found, &spec.limits, &self.native.places(&spec.id));
        let job = Job {
            files: Vec::new(),
            steps: step.into_iter().collect(),
            limits: spec.limits.of_job(),
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
        let place = self.native.create(spec, &words, None).await?;
        // What the toolchain says while it is prepared is not the program's output.
        let (quiet, mut nobody) = mpsc::channel(16);
        let (mut line, mut aside) = (Line::new(place.stream), Aside::default());
        let speech = Speech { words: &words[place.told..], feed: None };
        let talk = conversation::hold(&mut line, &job, speech, &quiet, &request.cancel, &mut aside);
        tokio::pin!(talk);
        let heard = loop {
            tokio::select! {
                heard = &mut talk => break heard,
                Some(_) = nobody.recv() => {}
                () = events.closed() => request.cancel.cancel(),
            }
        };
        let usage = self.native.destroy(&spec.id).await?;
        match heard.end {
            End::Finished(result) => match judge(&result, &usage, &spec.limits) {
                (Status::Success, _) => Ok(None),
                (Status::Cancelled, _) => Err(EngineError::Cancelled),
                (_, why) => {
                    let said = String::from_utf8_lossy(&heard.stderr).trim().to_owned();
                    Ok(Some(format!("{}: {said}", why.unwrap_or_default())))
                }
            },
            End::Cancelled => Err(EngineError::Cancelled),
            other => Ok(Some(format!("{other:?}"))),
        }
    }
}
