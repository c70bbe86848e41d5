//! A client under watch: one that keeps us waiting is cut off.
//!
//! hyper has a time-out for heads, but starts it only once it knows which HTTP is spoken, and counts the pause between
//! requests as well. So the watch is on the stream itself: how long a head takes that has begun, how long there is
//! nothing at all, and how long the client takes nothing of what we have for it.

use super::stream::Stream;
use crate::Options;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a client is doing, as far as we can see.
pub(super) struct Watch {
    seen: Mutex<Seen>,
    header_timeout: Duration,
    idle_timeout: Duration,
    write_timeout: Duration,
}

struct Seen {
    /// Requests it waits for.
    in_flight: usize,
    /// Whether something of a request has come that is not complete.
    head_begun: bool,
    /// Since when that is so, or since when there is nothing to do.
    since: Instant,
    /// Since when it does not take what we write.
    stuck: Option<Instant>,
}

impl Watch {
    pub(super) fn new(options: &Options) -> Arc<Watch> {
        // Who connects has something to say.
        let seen = Seen { in_flight: 0, head_begun: true, since: Instant::now(), stuck: None };
        Arc::new(Watch {
            seen: Mutex::new(seen),
            header_timeout: options.header_timeout,
            idle_timeout: options.idle_timeout,
            write_timeout: options.write_timeout,
        })
    }

    /// Returns when the client has kept us waiting for too long.
    pub(super) async fn over(&self) {
        let least = self.header_timeout.min(self.idle_timeout).min(self.write_timeout);
        let mut look = tokio::time::interval((least / 4).max(Duration::from_millis(10)));
        loop {
            look.tick().await;
            if self.is_over(Instant::now()) {
                return;
            }
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let seen = self.seen();
        let passed = |since: Instant| now.saturating_duration_since(since);
        if seen.stuck.is_some_and(|since| passed(since) >= self.write_timeout) {
            return true;
        }
        let allowed = if seen.head_begun { self.header_timeout } else { self.idle_timeout };
        seen.in_flight == 0 && passed(seen.since) >= allowed
    }

    /// A request is complete; its answer is over when what is returned is dropped.
    pub(super) fn begin(self: &Arc<Watch>) -> Answering {
        let mut seen = self.seen();
        seen.in_flight += 1;
        seen.head_begun = false;
        Answering(self.clone())
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn heard(&self) {
        let mut seen = self.seen();
        if seen.in_flight == 0 && !seen.head_begun {
            seen.head_begun = true;
            seen.since = Instant::now();
        }
    }

    fn wrote<T>(&self, written: &Poll<T>) {
        let mut seen = self.seen();
        match written {
            Poll::Pending => drop(seen.stuck.get_or_insert_with(Instant::now)),
            Poll::Ready(_) => seen.stuck = None,
        }
    }
}

/// A request that is being answered.
pub(super) struct Answering(Arc<Watch>);

impl Drop for Answering {
    fn drop(&mut self) {
        let mut seen = self.0.seen();
        seen.in_flight -= 1;
        if seen.in_flight == 0 {
            seen.since = Instant::now();
        }
    }
}

/// A stream under watch.
pub(super) struct Watched {
    pub(super) stream: Stream,
    pub(super) watch: Arc<Watch>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.watch.heard();
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch.wrote(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_an_idle_client_and_a_deaf_one_have_bounds_of_their_own() {
        let options = Options {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(60),
            ..Options::default()
        };
        let watch = Watch::new(&options);
        let later = |seconds| Instant::now() + Duration::from_secs(seconds);
        assert!(!watch.is_over(later(9)) && watch.is_over(later(11)), "it says nothing");
        let answering = watch.begin();
        assert!(!watch.is_over(later(1000)), "it waits for us");
        watch.wrote::<()>(&Poll::Pending);
        assert!(watch.is_over(later(61)), "it does not listen");
        watch.wrote(&Poll::Ready(()));
        drop(answering);
        assert!(!watch.is_over(later(74)) && watch.is_over(later(76)), "it is idle");
        watch.heard();
        assert!(watch.is_over(later(11)), "it began something");
    }
}
