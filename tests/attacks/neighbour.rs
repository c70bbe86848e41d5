//! Somebody else who runs honest programs all the while, and notices when that gets slow or fails.

use crate::support::Sandboxd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Where it matters how quick it is.
    Often,
    /// Where it only matters that it can: at least once beside every case.
    Seldom,
}

impl Pace {
    fn cadence(self) -> Duration {
        Duration::from_millis(if self == Pace::Often { 100 } else { 500 })
    }
}

#[derive(Default)]
struct State {
    /// While it goes on.
    pace: Option<Pace>,
    over: bool,
    busy: bool,
    heard: Heard,
}

/// What the neighbour has to tell.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) times: Vec<Duration>,
    pub(crate) failures: Vec<String>,
}

impl Heard {
    /// The time within which 99 of 100 rounds ended. With fewer rounds that is the slowest.
    fn p99(&self) -> Option<Duration> {
        let mut times = self.times.clone();
        times.sort_unstable();
        times.get((times.len() * 99).div_ceil(100).checked_sub(1)?).copied()
    }

    /// How many times slower its p99 is than in quiet.
    pub(crate) fn p99_against(&self, quiet: &Heard) -> Option<f64> {
        Some(self.p99()?.as_secs_f64() / quiet.p99()?.as_secs_f64())
    }
}

pub(crate) struct Neighbour {
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Neighbour {
    /// Waits for [`Neighbour::resume`].
    pub(crate) fn new(person: Sandboxd, secret: String) -> Neighbour {
        let shared = Arc::<(Mutex<State>, Condvar)>::default();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || live(&theirs, || round(&person, &secret)));
        Neighbour { shared, thread: Some(thread) }
    }

    /// Goes on.
    pub(crate) fn resume(&self, pace: Pace) {
        let (state, news) = &*self.shared;
        state.lock().unwrap().pace = Some(pace);
        news.notify_all();
    }

    /// Stops after the current round, and tells what happened since the last time.
    pub(crate) fn pause(&self) -> Heard {
        let (state, news) = &*self.shared;
        let mut state = state.lock().unwrap();
        state.pace = None;
        news.notify_all();
        let mut state = news.wait_while(state, |state| state.busy).unwrap();
        std::mem::take(&mut state.heard)
    }

    /// How quick it is while nothing else happens.
    pub(crate) fn in_quiet(&self, rounds: usize) -> Heard {
        self.resume(Pace::Often);
        let (state, _) = &*self.shared;
        let cadence = Pace::Often.cadence();
        let deadline = Instant::now() + cadence * (rounds as u32 * 3);
        while state.lock().unwrap().heard.times.len() < rounds && Instant::now() < deadline {
            std::thread::sleep(cadence);
        }
        self.pause()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let (state, news) = &*self.shared;
        state.lock().unwrap().over = true;
        news.notify_all();
        self.thread.take().map(JoinHandle::join);
    }
}

fn live(shared: &(Mutex<State>, Condvar), round: impl Fn() -> Duration) {
    let (state, news) = shared;
    loop {
        let mut waiting = news.wait_while(state.lock().unwrap(), |s| s.pace.is_none() && !s.over).unwrap();
        let Some(pace) = waiting.pace.filter(|_| !waiting.over) else { return };
        waiting.busy = true;
        drop(waiting);
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(&round));
        let mut done = state.lock().unwrap();
        match outcome {
            Ok(took) => done.heard.times.push(took),
            Err(cause) => done.heard.failures.push(crate::stage::words(&*cause)),
        }
        done.busy = false;
        news.notify_all();
        let rest = pace.cadence().saturating_sub(began.elapsed());
        drop(news.wait_timeout_while(done, rest, |s| s.pace.is_some() && !s.over).unwrap());
    }
}

/// One honest run, with a secret in its environment and in its memory.
fn round(person: &Sandboxd, secret: &str) -> Duration {
    let run = person.run("python", "print(1)").arg("--env", format!("SECRET={secret}"));
    let record = run.within(Duration::from_secs(60)).json();
    record.is("success").exits(0).says("1\n");
    record.out.took
}
