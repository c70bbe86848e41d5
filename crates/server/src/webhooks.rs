//! Sends events to webhooks, until the server stops.
//!
//! Each webhook gets its events one after the other. One that fails is tried again, later each time and each time at a
//! moment of its own; in the end it is given up, and the webhook with it, until somebody resumes it. How far each got is
//! stored after every event, so nothing is left out after a restart; what was being sent then is sent again. Of several
//! servers on one database the one that has the lease of a webhook sends for it.

mod address;
mod send;

pub(crate) use address::fault;

use crate::State;
use crate::clock::now_ms;
use crate::events::Kinds;
use backon::{BackoffBuilder, ExponentialBuilder};
use engine::storage::{EVERYBODY, Event, MAX_PAGE, Store, StoreError, Webhook};
use send::Sender;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};

/// How long events may gather before webhooks are looked through.
const GATHER: Duration = Duration::from_millis(50);
/// How often webhooks are looked through where nothing happens.
const LOOK: Duration = Duration::from_secs(2);
/// Requests at a time.
const MOST_SENT: usize = 32;
/// After how many events that are not wanted it is stored that they are not.
const SELDOM: i64 = 1000;
/// Events that are read at a time.
const PIECE: usize = 100;
/// How much longer than it is needed a lease lasts, in milliseconds.
const SPARE: i64 = 15_000;

/// Sends what there is to send, for as long as it is polled.
pub(crate) async fn deliver(state: &State) {
    let courier = Arc::new(Courier {
        store: state.store().clone(),
        state: state.clone(),
        name: name(&state.options().state_dir),
        sender: OnceLock::new(),
        turns: Semaphore::new(MOST_SENT),
    });
    let mut news = state.store().news();
    // Whoever is left when this is dropped ends with it.
    let (mut tasks, mut busy) = (JoinSet::new(), HashMap::<Id, String>::new());
    let mut scanned = HashMap::new();
    loop {
        news.borrow_and_update();
        match courier.waiting(&mut scanned, &busy).await {
            Ok(hooks) => {
                for hook in hooks {
                    let id = hook.id.clone();
                    busy.insert(tasks.spawn(courier.clone().serve(hook)).id(), id);
                }
            }
            Err(error) => tracing::debug!(%error, "webhooks cannot be looked through"),
        }
        tokio::select! {
            Some(ended) = tasks.join_next_with_id() => {
                busy.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
            }
            // Storage is gone with us.
            changed = news.changed() => match changed {
                Ok(()) => tokio::time::sleep(GATHER).await,
                Err(_) => return,
            },
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Whose events a webhook gets; none for everybody's.
fn owner(hook: &Webhook) -> Option<&str> {
    (hook.owner != EVERYBODY).then_some(hook.owner.as_str())
}

/// What this server is called among others on its database: the same after a restart.
fn name(state_dir: &std::path::Path) -> String {
    let host = rustix::system::uname();
    let whole = Sha256::new()
        .chain_update(host.nodename().to_bytes())
        .chain_update([0])
        .chain_update(state_dir.as_os_str().as_encoded_bytes())
        .finalize();
    whole.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

struct Courier {
    store: Arc<Store>,
    state: State,
    name: String,
    /// Made when the first event is sent.
    sender: OnceLock<Result<Sender, String>>,
    turns: Semaphore,
}

impl Courier {
    /// Webhooks for which there is something to send, beside those that are busy.
    async fn waiting(
        &self,
        scanned: &mut HashMap<String, i64>,
        busy: &HashMap<Id, String>,
    ) -> Result<Vec<Webhook>, StoreError> {
        let latest = self.store.latest_event().await?;
        let (mut found, mut known, mut after) = (Vec::new(), HashSet::new(), None);
        loop {
            let page = self.store.webhooks(None, after.as_ref(), MAX_PAGE).await?;
            known.extend(page.items.iter().map(|hook| hook.id.clone()));
            for hook in page.items.into_iter().filter(|hook| hook.active) {
                let from = scanned.get(&hook.id).map_or(hook.delivered, |from| hook.delivered.max(*from));
                if from >= latest || busy.values().any(|id| *id == hook.id) {
                    continue;
                }
                match self.scan(&hook, from, latest).await {
                    Ok(Some(through)) => drop(scanned.insert(hook.id, through)),
                    Ok(None) => found.push(hook),
                    // Nobody waits for somebody else's.
                    Err(error) => tracing::debug!(webhook = hook.id, %error, "a webhook cannot be looked at"),
                }
            }
            after = page.next;
            if after.is_none() {
                scanned.retain(|id, _| known.contains(id));
                return Ok(found);
            }
        }
    }

    /// Looks for an event that a webhook wants. If there is none, how far that is so, which is stored once in a while: it
    /// would be looked through again after a restart.
    async fn scan(&self, hook: &Webhook, mut from: i64, latest: i64) -> Result<Option<i64>, StoreError> {
        let kinds = Kinds::stored(hook.kinds.read()?);
        loop {
            let events = self.store.events(owner(hook), from, PIECE).await?;
            if events.iter().any(|event| kinds.include(&event.event.kind)) {
                return Ok(None);
            }
            from = events.last().map_or(from, |last| last.sequence);
            if events.len() < PIECE {
                break;
            }
        }
        let through = from.max(latest);
        if through - hook.delivered >= SELDOM {
            self.note(&Webhook { delivered: through, ..hook.clone() }, None).await?;
        }
        Ok(Some(through))
    }

    /// Sends everything a webhook has not got.
    async fn serve(self: Arc<Courier>, mut hook: Webhook) {
        match self.serve_all(&mut hook).await {
            // Removed, or got further with somebody else.
            Ok(()) | Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => {}
            Err(error) => tracing::warn!(webhook = hook.id, %error, "a webhook cannot be served"),
        }
        // Else it ends by itself.
        let _ = self.store.release_webhook(&hook.id, &self.name).await;
    }

    async fn serve_all(&self, hook: &mut Webhook) -> Result<(), StoreError> {
        if !self.lease(hook, Duration::ZERO).await? {
            return Ok(());
        }
        // What was found before may be old by now.
        *hook = self.store.webhook(None, &hook.id).await?;
        let kinds = Kinds::stored(hook.kinds.read()?);
        loop {
            let events = self.store.events(owner(hook), hook.delivered, PIECE).await?;
            let Some(last) = events.last().map(|event| event.sequence) else { return Ok(()) };
            for event in events.iter().filter(|event| kinds.include(&event.event.kind)) {
                if !self.send(hook, event).await? {
                    return Ok(());
                }
            }
            if hook.delivered < last {
                hook.delivered = last;
                self.note(hook, None).await?;
            }
        }
    }

    /// Sends an event until it has arrived. Whether it has; else the webhook is given up, or somebody else's.
    async fn send(&self, hook: &mut Webhook, event: &Event) -> Result<bool, StoreError> {
        let mut pauses = self.pauses().skip(usize::try_from(hook.failures).unwrap_or(usize::MAX));
        loop {
            // Nobody ever closes it.
            let turn = self.turns.acquire().await;
            if !self.lease(hook, Duration::ZERO).await? {
                return Ok(false);
            }
            let sent = match self.sender.get_or_init(|| Sender::new(self.state.options())) {
                Ok(sender) => sender.send(hook, event).await,
                Err(error) => Err(error.clone()),
            };
            drop(turn);
            let Err(why) = sent else {
                (hook.delivered, hook.failures) = (event.sequence, 0);
                self.note(hook, None).await?;
                return Ok(true);
            };
            hook.failures += 1;
            let pause = pauses.next();
            hook.active = pause.is_some();
            self.note(hook, Some(&why)).await?;
            let Some(pause) = pause else {
                tracing::warn!(webhook = hook.id, tries = hook.failures, why, "a webhook is given up");
                return Ok(false);
            };
            tracing::debug!(webhook = hook.id, why, "an event did not arrive");
            if !self.lease(hook, pause).await? {
                return Ok(false);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Has nobody else send for it for so long, and as long as sending takes. Whether that is so.
    async fn lease(&self, hook: &Webhook, more: Duration) -> Result<bool, StoreError> {
        let longest = more + self.state.options().webhook_timeout;
        let (now, longest) = (now_ms(), i64::try_from(longest.as_millis()).unwrap_or(i64::MAX / 4));
        self.store.lease_webhook(&hook.id, &self.name, now, now + longest + SPARE).await
    }

    async fn note(&self, hook: &Webhook, error: Option<&str>) -> Result<(), StoreError> {
        self.store.webhook_progress(&hook.id, hook.delivered, hook.failures, hook.active, error).await
    }

    /// How long to wait after each failure; nothing when it is given up.
    fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        let options = self.state.options();
        ExponentialBuilder::default()
            .with_jitter()
            .with_factor(2.0)
            .with_min_delay(options.webhook_retry_base)
            .with_max_delay(options.webhook_retry_max.max(options.webhook_retry_base))
            .with_max_times(options.webhook_attempts.saturating_sub(1) as usize)
            .build()
    }
}
