//! Events that are written a moment later, many at once. For what is stored by one statement: an event with it would be
//! a transaction of several, and whoever waits would wait for that.
//!
//! What was handed in and not yet written is lost when the process is killed.

use super::error::StoreError;
use super::events::{self, NewEvent};
use super::writer::Writer;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Events that may wait before callers wait to hand theirs in.
const QUEUE: usize = 4096;
/// Events of one transaction.
const TOGETHER: usize = 128;
/// How long others may join.
const GATHER: Duration = Duration::from_millis(5);
/// How often writing is tried while storage is away.
const TRIES: u32 = 5;

enum Word {
    Event(NewEvent),
    /// Told when everything before it is written.
    Flush(oneshot::Sender<()>),
}

/// Where such events are handed in.
pub(crate) struct Later {
    queue: mpsc::Sender<Word>,
}

impl Later {
    pub(crate) fn start(writer: Arc<Writer>, news: watch::Sender<u64>) -> Later {
        let (queue, words) = mpsc::channel(QUEUE);
        tokio::spawn(run(words, writer, news));
        Later { queue }
    }

    pub(crate) async fn tell(&self, event: NewEvent) {
        // Nobody takes it when storage is shut down, and then nobody can read it either.
        let Ok(place) = self.queue.clone().reserve_owned().await else { return };
        crate::afterwards(move || drop(place.send(Word::Event(event))));
    }

    /// Returns when what was handed in is written.
    pub(crate) async fn flush(&self) {
        let (done, told) = oneshot::channel();
        if self.queue.send(Word::Flush(done)).await.is_ok() {
            let _ = told.await;
        }
    }
}

async fn run(mut queue: mpsc::Receiver<Word>, writer: Arc<Writer>, news: watch::Sender<u64>) {
    let mut words = Vec::new();
    while queue.recv_many(&mut words, TOGETHER).await > 0 {
        let urgent = words.iter().any(|word| matches!(word, Word::Flush(_)));
        if !urgent && words.len() < TOGETHER {
            tokio::time::sleep(GATHER).await;
            while words.len() < TOGETHER
                && let Ok(word) = queue.try_recv()
            {
                words.push(word);
            }
        }
        let (mut events, mut waiting) = (Vec::new(), Vec::new());
        for word in words.drain(..) {
            match word {
                Word::Event(event) => events.push(event),
                Word::Flush(done) => waiting.push(done),
            }
        }
        if !events.is_empty() && write(&writer, &events).await.is_ok() {
            news.send_modify(|count| *count += 1);
        }
        for done in waiting {
            // Whoever does not wait any more need not know.
            let _ = done.send(());
        }
    }
}

async fn write(writer: &Writer, events: &[NewEvent]) -> Result<(), StoreError> {
    let mut pause = Duration::from_millis(100);
    for _ in 1..TRIES {
        match writer.write(events::change(events)).await {
            Err(error) if error.is_retryable() => tokio::time::sleep(pause).await,
            other => return other.map(drop),
        }
        pause *= 4;
    }
    writer.write(events::change(events)).await.map(drop)
}
