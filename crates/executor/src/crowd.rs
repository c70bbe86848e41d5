//! A crowd: so many processes, or sessions, that the rest of the machine would have hardly anything, or be slow.
//!
//! Being nice is of no use there: the kernel divides processors between sessions before it asks how nice their processes
//! are. Weighing little is not enough: whoever forks all the time is in the kernel, where nobody takes the processor from
//! it. So everybody stands still, and a few at a time go on for a moment. Where nothing counts processes, that has to begin
//! before anybody looks closely: among so many, whoever looks has to wait for the processor, too.

use crate::ground::Ground;
use crate::meters::{Sample, others_than};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// More than this many processes and threads are a crowd.
pub(crate) const MANY: u64 = 16;
/// More than this many sessions are one.
const SESSIONS: u64 = 8;
/// How long some of them go on.
const GOES_ON: Duration = Duration::from_millis(4);
/// How long all rest then, while others want a processor, and while nobody does.
const RESTS: Duration = Duration::from_millis(16);
const BREATHES: Duration = Duration::from_millis(1);
/// How long others are thought to be there that have been.
const LATELY: Duration = Duration::from_millis(200);

/// Whether what was seen is a crowd, where there may be so many processes.
pub(crate) fn is_crowd(seen: &Sample, most: u64) -> bool {
    seen.processes > MANY && (seen.sessions > SESSIONS || seen.processes >= most - most / 8)
}

/// One that takes turns.
pub(crate) struct Crowd {
    /// Until when it stays as it is.
    until: Instant,
    rests: bool,
    /// Who goes on next.
    queue: VecDeque<Pid>,
    /// How many processes there were when they were counted last, and how often they were.
    size: usize,
    rounds: u32,
    at_once: usize,
    /// When others were there, and whether somebody seemed to be at the last look.
    others: Instant,
    somebody: bool,
}

impl Crowd {
    /// Has it stand still.
    pub(crate) fn halt(ground: &impl Ground, now: Instant) -> Crowd {
        ground.signal_all(Signal::STOP);
        // Others find a processor at once, where there is more than one.
        let at_once = std::thread::available_parallelism().map_or(1, |all| all.get().div_ceil(2));
        let queue = VecDeque::new();
        let (until, others) = (now + RESTS, now);
        Crowd { until, rests: true, queue, size: 0, rounds: 0, at_once, others, somebody: false }
    }

    /// When something is to be done.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Does it. Whether all were told to stand still, as whoever asks them something would be as well.
    pub(crate) fn take_turns(&mut self, ground: &impl Ground, now: Instant) -> bool {
        self.rests = !self.rests;
        if self.rests {
            // There may be new ones.
            ground.signal_all(Signal::STOP);
            self.until = now + if now - self.others < LATELY { RESTS } else { BREATHES };
            return true;
        }
        self.look_for_others(now);
        if self.queue.is_empty() {
            let pid = |pid: u32| i32::try_from(pid).ok().and_then(Pid::from_raw);
            self.queue = others_than([ground.keeper(), None]).filter_map(pid).collect();
            self.size = self.queue.len();
            self.rounds += 1;
        }
        for pid in self.queue.drain(..self.at_once.min(self.queue.len())) {
            // Who is gone meanwhile has had its turn.
            let _ = kill_process(pid, Signal::CONT);
        }
        self.until = now + GOES_ON;
        false
    }

    /// Whether anybody but us wants a processor while all rest. Who is there by chance is not there twice.
    fn look_for_others(&mut self, now: Instant) {
        let somebody = load(&said()).is_none_or(|(running, _)| running > 1);
        if somebody && (self.somebody || now - self.others < LATELY) {
            self.others = now;
        }
        self.somebody = somebody;
    }

    /// How many rounds have begun: in each, everybody goes on once.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Whether so few processes are left that it is none any more.
    pub(crate) fn is_small(&self) -> bool {
        self.rounds > 0 && self.size as u64 <= MANY
    }

    /// It stood still for another reason, and goes on standing still for this one.
    pub(crate) fn stays(&mut self, now: Instant) {
        (self.rests, self.until) = (true, now + RESTS);
    }

    /// Lets everybody go on.
    pub(crate) fn disperse(self, ground: &impl Ground) {
        ground.signal_all(Signal::CONT);
    }
}

/// Sees a crowd coming, by as little as can be read.
#[derive(Default)]
pub(crate) struct Forecast {
    /// The last process that was made when it was asked last.
    last: Option<u64>,
}

impl Forecast {
    /// Whether many want a processor, and many processes were made here since it was asked last.
    pub(crate) fn is_bad(&mut self) -> bool {
        let Some((running, last)) = load(&said()) else { return false };
        let before = self.last.replace(last).unwrap_or(last);
        running > MANY && last.saturating_sub(before) > MANY
    }
}

fn said() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default()
}

/// How many want a processor, on the whole machine, and the last process that was made, in this place.
fn load(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace().skip(3);
    let (running, _) = fields.next()?.split_once('/')?;
    Some((running.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_what_the_kernel_says() {
        assert_eq!(load("18.05 11.54 5.24 66/231 64\n"), Some((66, 64)));
        assert_eq!(load("18.05 11.54 5.24\n"), None);
        assert!(load(&said()).is_some_and(|(running, last)| running > 0 && last > 0), "{}", said());
    }

    #[test]
    fn a_crowd_has_many_sessions_or_all_the_processes_it_may_have() {
        let seen = |processes, sessions| Sample { processes, sessions, ..Sample::default() };
        assert!(is_crowd(&seen(17, 9), 1000));
        assert!(is_crowd(&seen(56, 1), 64));
        assert!(!is_crowd(&seen(55, 8), 64));
        assert!(!is_crowd(&seen(16, 16), 16));
    }
}
