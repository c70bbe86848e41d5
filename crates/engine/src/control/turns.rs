//! Turns: how many programs run at once, and whose is next.
//!
//! Tenants take turns, however many programs one of them has waiting, and none has more running than it may. What a
//! tenant's programs compute is paid from an allowance that grows with time.

use super::error::ControlError;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// What a tenant may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Programs that run at once.
    pub concurrency: usize,
    /// Programs that wait for their turn.
    pub queued: usize,
    /// Sessions that are not over.
    pub sessions: usize,
    /// Seconds of CPU time in an hour; none for as many as there are.
    pub cpu_seconds_per_hour: Option<u64>,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { concurrency: 16, queued: 500, sessions: 50, cpu_seconds_per_hour: None }
    }
}

/// Who waits, and who runs.
#[derive(Debug)]
pub(crate) struct Turns {
    most_running: usize,
    most_waiting: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    waiting: usize,
    tenants: HashMap<Arc<str>, Tenant>,
    /// Tenants that have somebody waiting, in the order of their turns.
    order: VecDeque<Arc<str>>,
}

#[derive(Debug, Default)]
struct Tenant {
    running: usize,
    concurrency: usize,
    waiting: VecDeque<oneshot::Sender<()>>,
    /// Programs that will ask for a turn.
    reserved: usize,
    allowance: Option<Allowance>,
}

impl Tenant {
    /// Whether nothing is to be remembered of it.
    fn has_nothing(&self) -> bool {
        self.running + self.reserved == 0 && self.waiting.is_empty() && self.allowance.is_none()
    }
}

/// CPU time that may still be used, in milliseconds; less than none when a program took more than there was.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    left_ms: f64,
    most_ms: f64,
    at: Instant,
}

impl Allowance {
    fn new(seconds_per_hour: u64, now: Instant) -> Allowance {
        let most_ms = seconds_per_hour as f64 * 1000.0;
        Allowance { left_ms: most_ms, most_ms, at: now }
    }

    fn grow(&mut self, now: Instant) {
        let hours = now.saturating_duration_since(self.at).as_secs_f64() / 3600.0;
        self.left_ms = (self.left_ms + hours * self.most_ms).min(self.most_ms);
        self.at = now;
    }

    /// How long until there is some again.
    fn wait(&self) -> Option<Duration> {
        let hours = -self.left_ms / self.most_ms.max(1.0);
        (self.left_ms <= 0.0).then(|| Duration::from_secs_f64((hours * 3600.0).max(1.0)))
    }
}

/// A turn: whoever holds it may run one program.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    tenant: Arc<str>,
    /// Whether somebody else has it meanwhile.
    lent: AtomicBool,
}

impl Turns {
    pub(crate) fn new(most_running: usize, most_waiting: usize) -> Arc<Turns> {
        Arc::new(Turns { most_running: most_running.max(1), most_waiting, state: Mutex::default() })
    }

    /// Asks for a turn. Whether there will be one is known at once; when is not.
    pub(crate) fn ask(self: &Arc<Turns>, tenant: &Arc<str>, bounds: &Bounds) -> Result<Ticket, ControlError> {
        let mut state = self.lock();
        self.admit(&mut state, tenant, bounds)?;
        let called = self.line_up(&mut state, tenant);
        drop(state);
        Ok(Ticket { turns: self.clone(), tenant: tenant.clone(), held: true, called })
    }

    /// Keeps a place among those who wait, for somebody who will ask for a turn when something else is free.
    pub(crate) fn reserve(
        self: &Arc<Turns>,
        tenant: &Arc<str>,
        bounds: &Bounds,
    ) -> Result<Reservation, ControlError> {
        let mut state = self.lock();
        self.admit(&mut state, tenant, bounds)?;
        state.waiting += 1;
        state.tenants.entry(tenant.clone()).or_default().reserved += 1;
        drop(state);
        Ok(Reservation { turns: self.clone(), tenant: tenant.clone() })
    }

    /// Whether one more may come.
    fn admit(&self, state: &mut State, tenant: &Arc<str>, bounds: &Bounds) -> Result<(), ControlError> {
        let State { running, waiting, tenants, .. } = state;
        let own = tenants.entry(tenant.clone()).or_default();
        own.concurrency = bounds.concurrency.max(1);
        match bounds.cpu_seconds_per_hour {
            None => own.allowance = None,
            Some(seconds) => {
                let now = Instant::now();
                let allowance = own.allowance.get_or_insert_with(|| Allowance::new(seconds, now));
                allowance.most_ms = seconds as f64 * 1000.0;
                allowance.grow(now);
                if let Some(wait) = allowance.wait() {
                    return Err(ControlError::too_many("CPU time", "is used up for now", wait));
                }
            }
        }
        if own.waiting.is_empty() && *running < self.most_running && own.running < own.concurrency {
            return Ok(());
        }
        let waits = own.waiting.len() + own.reserved;
        if waits >= bounds.queued {
            let what = format!("{waits} programs wait already");
            return Err(ControlError::too_many("queued", &what, Duration::from_secs(1)));
        }
        if *waiting >= self.most_waiting {
            return Err(ControlError::Busy {
                why: format!("{waiting} programs wait already"),
                retry_after: Duration::from_secs(1),
            });
        }
        Ok(())
    }

    /// A turn at once, or somebody to be called.
    fn line_up(&self, state: &mut State, tenant: &Arc<str>) -> Option<oneshot::Receiver<()>> {
        let State { running, waiting, tenants, order } = state;
        let own = tenants.entry(tenant.clone()).or_default();
        if own.waiting.is_empty() && *running < self.most_running && own.running < own.concurrency {
            *running += 1;
            own.running += 1;
            return None;
        }
        let (call, called) = oneshot::channel();
        if own.waiting.is_empty() {
            order.push_back(tenant.clone());
        }
        own.waiting.push_back(call);
        *waiting += 1;
        Some(called)
    }

    /// Takes note of CPU time that was used.
    pub(crate) fn charge(&self, tenant: &Arc<str>, cpu_ms: f64) {
        if let Some(allowance) =
            self.lock().tenants.get_mut(tenant).and_then(|tenant| tenant.allowance.as_mut())
        {
            allowance.left_ms -= cpu_ms.max(0.0);
        }
    }

    /// How many run, and how many wait.
    pub(crate) fn count(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running, state.waiting)
    }

    /// A turn is over: whoever is next is called.
    fn give_back(&self, tenant: &Arc<str>) {
        let mut state = self.lock();
        state.running = state.running.saturating_sub(1);
        if let Some(own) = state.tenants.get_mut(tenant) {
            own.running = own.running.saturating_sub(1);
            if own.has_nothing() {
                state.tenants.remove(tenant);
            }
        }
        self.call(&mut state);
    }

    fn call(&self, state: &mut State) {
        let State { running, waiting, tenants, order } = state;
        // Each tenant is looked at once: one that may not have more has to wait for its own.
        for _ in 0..order.len() {
            if *running >= self.most_running {
                return;
            }
            let Some(name) = order.pop_front() else { return };
            let Some(own) = tenants.get_mut(&name) else { continue };
            while own.running < own.concurrency && *running < self.most_running {
                let Some(call) = own.waiting.pop_front() else { break };
                *waiting = waiting.saturating_sub(1);
                // Who does not wait any more is passed over.
                if call.send(()).is_ok() {
                    own.running += 1;
                    *running += 1;
                    break;
                }
            }
            if !own.waiting.is_empty() {
                order.push_back(name);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Takes note of CPU time that was used in it.
    pub(crate) fn charge(&self, cpu_ms: f64) {
        self.turns.charge(&self.tenant, cpu_ms);
    }

    /// Lets others have it for as long as its program stands still.
    pub(crate) fn lend(&self) {
        if !self.lent.swap(true, Relaxed) {
            self.turns.give_back(&self.tenant);
        }
    }

    /// Takes it back. Its program goes on at once, even if there is one more for a while.
    pub(crate) fn take_back(&self) {
        if self.lent.swap(false, Relaxed) {
            let mut state = self.turns.lock();
            state.running += 1;
            state.tenants.entry(self.tenant.clone()).or_default().running += 1;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.lent.load(Relaxed) {
            self.turns.give_back(&self.tenant);
        }
    }
}

/// A place among those who wait, kept for one who does not ask for a turn yet.
#[derive(Debug)]
pub(crate) struct Reservation {
    turns: Arc<Turns>,
    tenant: Arc<str>,
}

impl Reservation {
    /// Asks for the turn.
    pub(crate) fn ask(self) -> Ticket {
        let called = self.turns.line_up(&mut self.turns.lock(), &self.tenant);
        Ticket { turns: self.turns.clone(), tenant: self.tenant.clone(), held: true, called }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        state.waiting = state.waiting.saturating_sub(1);
        if let Some(own) = state.tenants.get_mut(&self.tenant) {
            own.reserved = own.reserved.saturating_sub(1);
            if own.has_nothing() {
                state.tenants.remove(&self.tenant);
            }
        }
    }
}

/// A turn to come. Whoever does not wait for it to the end passes it on.
#[derive(Debug)]
pub(crate) struct Ticket {
    turns: Arc<Turns>,
    tenant: Arc<str>,
    /// Whether it still stands for a turn.
    held: bool,
    called: Option<oneshot::Receiver<()>>,
}

impl Ticket {
    /// Waits for the turn.
    pub(crate) async fn turn(mut self) -> Result<Turn, ControlError> {
        if let Some(called) = &mut self.called {
            // A caller that is gone is a server that ends.
            called.await.map_err(|_| ControlError::ending())?;
        }
        self.held = false;
        let lent = AtomicBool::new(false);
        Ok(Turn { turns: self.turns.clone(), tenant: self.tenant.clone(), lent })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let called = match &mut self.called {
            None => true,
            Some(called) => {
                called.close();
                called.try_recv().is_ok()
            }
        };
        if self.held && called {
            self.turns.give_back(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Arc<str> {
        name.into()
    }

    fn bounds(concurrency: usize, queued: usize) -> Bounds {
        Bounds { concurrency, queued, ..Bounds::default() }
    }

    #[tokio::test]
    async fn tenants_take_turns_however_many_one_has_waiting() {
        let turns = Turns::new(1, 1000);
        let (a, b) = (tenant("a"), tenant("b"));
        let first = turns.ask(&a, &bounds(9, 100)).unwrap().turn().await.unwrap();
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let mut tasks = Vec::new();
        for name in [&a, &a, &a, &b, &b] {
            let (turns, name, told) = (turns.clone(), name.clone(), told.clone());
            tasks.push(tokio::spawn(async move {
                let turn = turns.ask(&name, &bounds(9, 100)).unwrap().turn().await.unwrap();
                told.send(name.to_string()).unwrap();
                tokio::task::yield_now().await;
                drop(turn);
            }));
            tokio::task::yield_now().await;
        }
        assert_eq!(turns.count(), (1, 5));
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        let mut order = Vec::new();
        while let Ok(name) = heard.try_recv() {
            order.push(name);
        }
        assert_eq!(order, ["a", "b", "a", "b", "a"]);
        assert_eq!(turns.count(), (0, 0));
        assert!(turns.lock().tenants.is_empty(), "nobody is remembered who has nothing");
    }

    #[tokio::test]
    async fn nobody_has_more_than_they_may() {
        let turns = Turns::new(8, 3);
        let (a, b) = (tenant("a"), tenant("b"));
        let held = turns.ask(&a, &bounds(1, 1)).unwrap().turn().await.unwrap();
        let waits = tokio::spawn({
            let (turns, a) = (turns.clone(), a.clone());
            async move { turns.ask(&a, &bounds(1, 1)).unwrap().turn().await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert!(matches!(turns.ask(&a, &bounds(1, 1)), Err(ControlError::TooMany { .. })));
        drop(turns.ask(&b, &bounds(1, 1)).unwrap().turn().await.unwrap());
        drop(held);
        waits.await.unwrap().unwrap();
        assert_eq!(turns.count(), (0, 0));
    }

    #[tokio::test]
    async fn who_does_not_wait_any_more_is_passed_over() {
        let turns = Turns::new(1, 10);
        let a = tenant("a");
        let held = turns.ask(&a, &bounds(9, 9)).unwrap().turn().await.unwrap();
        let (gone, stays) = [0, 1]
            .map(|_| {
                let (turns, a) = (turns.clone(), a.clone());
                tokio::spawn(async move { turns.ask(&a, &bounds(9, 9)).unwrap().turn().await.map(drop) })
            })
            .into();
        tokio::task::yield_now().await;
        gone.abort();
        assert!(gone.await.is_err());
        drop(held);
        stays.await.unwrap().unwrap();
        assert_eq!(turns.count(), (0, 0));
    }

    #[tokio::test]
    async fn who_has_a_place_takes_no_turn_until_they_ask() {
        let turns = Turns::new(1, 10);
        let a = tenant("a");
        let held = turns.ask(&a, &bounds(9, 2)).unwrap().turn().await.unwrap();
        let places = [0, 1].map(|_| turns.reserve(&a, &bounds(9, 2)).unwrap());
        assert_eq!(turns.count(), (1, 2));
        assert!(matches!(turns.reserve(&a, &bounds(9, 2)), Err(ControlError::TooMany { .. })));
        drop(held);
        // Nobody has asked, so a turn is free.
        drop(turns.ask(&a, &bounds(9, 9)).unwrap().turn().await.unwrap());
        let [first, second] = places;
        let turn = first.ask().turn().await.unwrap();
        drop(second);
        assert_eq!(turns.count(), (1, 0));
        drop(turn);
        assert!(turns.lock().tenants.is_empty(), "nobody is remembered who has nothing");
    }

    #[tokio::test]
    async fn a_turn_that_is_lent_is_somebody_elses() {
        let turns = Turns::new(1, 10);
        let (a, b) = (tenant("a"), tenant("b"));
        let stands = turns.ask(&a, &bounds(1, 1)).unwrap().turn().await.unwrap();
        let waits = turns.ask(&b, &bounds(1, 1)).unwrap();
        stands.lend();
        stands.lend();
        let goes = waits.turn().await.unwrap();
        stands.take_back();
        assert_eq!(turns.count(), (2, 0));
        drop(goes);
        stands.lend();
        drop(stands);
        assert_eq!(turns.count(), (0, 0));
        assert!(turns.lock().tenants.is_empty(), "nobody is remembered who has nothing");
    }

    #[tokio::test]
    async fn an_allowance_is_used_up_and_grows_again() {
        let turns = Turns::new(1, 10);
        let a = tenant("a");
        let few = Bounds { cpu_seconds_per_hour: Some(3600), ..Bounds::default() };
        let turn = turns.ask(&a, &few).unwrap().turn().await.unwrap();
        turn.charge(3_600_000.0 + 5_000.0);
        drop(turn);
        let Err(ControlError::TooMany { retry_after, .. }) = turns.ask(&a, &few) else {
            panic!("there is none left");
        };
        assert!((4..=6).contains(&retry_after.as_secs()), "{retry_after:?}");
        let mut allowance = Allowance::new(3600, Instant::now());
        allowance.left_ms = -5000.0;
        allowance.grow(allowance.at + Duration::from_secs(6));
        assert_eq!(allowance.wait(), None);
    }
}
