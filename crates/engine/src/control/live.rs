//! Executions that are not over, or were until a moment ago: what they write, for whoever listens, from wherever.

use crate::storage::{ExecutionStatus, Json};
use crate::{Cancel, Event};
use bytes::Bytes;
use protocol::StepKind;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Something that happened to an execution, with its number. Numbers begin at 1 and leave nothing out.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
    /// Its number.
    pub sequence: u64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Its state changed.
    Status(ExecutionStatus),
    /// A toolchain is being prepared for it.
    Preparing,
    /// A step began: compiling, or running.
    Started(StepKind),
    /// It wrote.
    Stdout(Bytes),
    /// It complained.
    Stderr(Bytes),
    /// It stands still.
    Paused,
    /// It goes on.
    Resumed,
    /// What comes before is not kept any more: so many are missing.
    Missing(u64),
    /// It is over: the record.
    Finished(Arc<Json>),
}

/// One execution.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: String,
    pub(crate) owner: Arc<str>,
    pub(crate) session: Option<String>,
    pub(crate) cancel: Cancel,
    most_bytes: usize,
    state: Mutex<State>,
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    happenings: VecDeque<Happening>,
    bytes: usize,
    /// Number of the newest.
    last: u64,
    over: bool,
}

impl Live {
    pub(crate) fn new(id: String, owner: Arc<str>, session: Option<String>, most_bytes: usize) -> Live {
        let (cancel, state) = (Cancel::default(), Mutex::default());
        Live { id, owner, session, cancel, most_bytes, state, newest: watch::Sender::new(0) }
    }

    /// Takes note of something the engine tells.
    pub(crate) fn tell(&self, event: Event) {
        self.note(match event {
            Event::Preparing { .. } => What::Preparing,
            Event::Started { step } => What::Started(step),
            Event::Stdout { bytes, .. } => What::Stdout(bytes.into()),
            Event::Stderr { bytes, .. } => What::Stderr(bytes.into()),
        });
    }

    /// Takes note of something.
    pub(crate) fn note(&self, what: What) {
        let mut state = self.lock();
        if state.over {
            return;
        }
        state.last += 1;
        state.over = matches!(what, What::Finished(_));
        state.bytes += size(&what);
        let (sequence, at) = (state.last, super::now());
        state.happenings.push_back(Happening { sequence, at, what });
        while state.bytes > self.most_bytes && state.happenings.len() > 1 {
            if let Some(oldest) = state.happenings.pop_front() {
                state.bytes -= size(&oldest.what);
            }
        }
        drop(state);
        self.newest.send_replace(sequence);
    }

    /// What happened after this number, as far as it is kept, and whether there will be more.
    pub(crate) fn since(&self, after: u64) -> (Vec<Happening>, bool) {
        let state = self.lock();
        let oldest = state.happenings.front().map_or(state.last + 1, |first| first.sequence);
        let mut found = Vec::new();
        if after + 1 < oldest {
            let what = What::Missing(oldest - after - 1);
            found.push(Happening { sequence: oldest - 1, at: super::now(), what });
        }
        let skip = (after + 1).saturating_sub(oldest) as usize;
        found.extend(state.happenings.iter().skip(skip).cloned());
        (found, !state.over)
    }

    /// Waits until something happened after this number.
    pub(crate) async fn news(&self, after: u64) {
        // It is never gone while we have hold of it.
        let _ = self.newest.subscribe().wait_for(|newest| *newest > after).await;
    }

    /// Waits until it is over.
    pub(crate) async fn over(&self) {
        let mut newest = self.newest.subscribe();
        while !self.lock().over {
            if newest.changed().await.is_err() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(what: &What) -> usize {
    match what {
        What::Stdout(bytes) | What::Stderr(bytes) => 64 + bytes.len(),
        _ => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(most_bytes: usize) -> Live {
        Live::new("exec_1".into(), "a".into(), None, most_bytes)
    }

    fn out(text: &str) -> What {
        What::Stdout(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn whoever_comes_back_hears_the_rest() {
        let live = live(1 << 20);
        for text in ["a", "b", "c"] {
            live.note(out(text));
        }
        let (rest, more) = live.since(1);
        assert_eq!(
            rest.iter().map(|h| (h.sequence, h.what.clone())).collect::<Vec<_>>(),
            [(2, out("b")), (3, out("c"))]
        );
        assert!(more);
        assert_eq!(live.since(3).0, []);
        assert_eq!(live.since(99).0, []);
    }

    #[test]
    fn what_is_not_kept_is_said_to_be_missing() {
        let live = live(200);
        for text in ["a", "b", "c", "d", "e"] {
            live.note(out(text));
        }
        let (rest, _) = live.since(0);
        assert_eq!(rest[0].what, What::Missing(2));
        assert_eq!(rest[0].sequence + 1, rest[1].sequence);
        assert_eq!(rest.last().unwrap().what, out("e"));
        assert_eq!(live.since(2).0[0].sequence, 3);
    }

    #[tokio::test]
    async fn nothing_happens_after_the_end() {
        let live = live(200);
        live.note(What::Finished(Arc::new(Json::of(&1).unwrap())));
        live.note(out("late"));
        live.over().await;
        let (all, more) = live.since(0);
        assert_eq!(all.len(), 1);
        assert!(!more);
    }
}
