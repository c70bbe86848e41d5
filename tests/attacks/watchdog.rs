//! Ends what a case started when it takes for ever, so that the suite goes on.

use crate::support::host;
use rustix::process::{Pid, Signal, kill_process};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longest time for one case.
const LONGEST: Duration = Duration::from_secs(90);

#[derive(Clone)]
pub(crate) struct Watchdog {
    began: Arc<Mutex<Option<Instant>>>,
    bitten: Arc<Mutex<bool>>,
}

impl Watchdog {
    /// Never touches these processes, nor what they started.
    pub(crate) fn new(spared: Vec<u32>) -> Watchdog {
        let dog = Watchdog { began: Arc::default(), bitten: Arc::default() };
        let watching = dog.clone();
        std::thread::spawn(move || {
            // It ends when nobody else holds it.
            while Arc::strong_count(&watching.began) > 1 {
                std::thread::sleep(Duration::from_millis(200));
                let late = watching.began.lock().unwrap().is_some_and(|began| began.elapsed() > LONGEST);
                if late {
                    *watching.bitten.lock().unwrap() = true;
                    end_all_but(&spared);
                }
            }
        });
        dog
    }

    pub(crate) fn watch(&self) {
        *self.began.lock().unwrap() = Some(Instant::now());
    }

    /// What it had to do since [`Watchdog::watch`].
    pub(crate) fn rest(&self) -> Option<String> {
        *self.began.lock().unwrap() = None;
        let bitten = std::mem::take(&mut *self.bitten.lock().unwrap());
        bitten.then(|| format!("it took more than {} s, and was ended", LONGEST.as_secs()))
    }
}

fn end_all_but(spared: &[u32]) {
    for child in host::children(std::process::id()).into_iter().filter(|child| !spared.contains(child)) {
        for pid in host::descendants(child).into_iter().chain([child]) {
            let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}
