//! A sandbox in which several programs run at once, each at a seat, on a line of its own to who runs it there.
//!
//! What concerns all of them is seen to here: files, standing still, and that the sandbox is over when any part of it is.
//! Who was at a seat then hears that the line is dead, and reports that; nobody reports a success.

use super::home::{Home, Visitors, closed};
use crate::aside::{Aside, Ask, Told};
use crate::conversation::Line;
use crate::isolator::native::Lease;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// How long those at other seats may take to say what became of their programs.
const FAREWELL: Duration = Duration::from_secs(5);

/// The task that sees to what concerns all seats.
pub(super) struct Hall {
    pub(super) lease: Lease,
    pub(super) line: Line,
    pub(super) aside: Aside,
    /// Where each seat hears that it shall stand still, or go on.
    pub(super) seats: Vec<mpsc::Sender<Ask>>,
}

impl Hall {
    pub(super) async fn live(
        mut self,
        homes: Vec<Home>,
        visitors: Visitors,
        mut closing: watch::Receiver<bool>,
    ) {
        let mut seats = JoinSet::new();
        for home in homes {
            seats.spawn(home.live(visitors.clone(), closing.clone()));
        }
        tokio::select! {
            () = self.serve(&mut closing) => {}
            _ = seats.join_next() => {}
        }
        // It is gone in any case when nobody holds its lines any more.
        let _ = self.lease.end(None).await;
        let _ = tokio::time::timeout(FAREWELL, async { while seats.join_next().await.is_some() {} }).await;
    }

    async fn serve(&mut self, closing: &mut watch::Receiver<bool>) {
        loop {
            tokio::select! {
                biased;
                () = closed(closing) => return,
                frame = self.line.hear() => match frame {
                    Some(frame) if self.aside.is_for(&frame) => self.aside.hear(frame),
                    // The answer to the first word.
                    Some(_) => {}
                    None => return,
                },
                told = self.aside.next() => match told {
                    Told::File(bytes) => if !self.line.say(&bytes).await { return },
                    Told::Pause => self.tell(|| Ask::Pause).await,
                    Told::Resume => self.tell(|| Ask::Resume).await,
                },
            }
        }
    }

    async fn tell(&self, ask: impl Fn() -> Ask) {
        for seat in &self.seats {
            // One that is gone takes the others with it.
            let _ = seat.send(ask()).await;
        }
    }
}

/// Names of main files that nobody else has: of programs that come without one, while others run.
#[derive(Debug)]
pub(super) struct Names {
    /// What they have in common, and nothing else in the workspace has.
    mark: String,
    last: AtomicU64,
}

impl Names {
    pub(super) fn new() -> Names {
        let mark = uuid::Uuid::new_v4().simple().to_string();
        Names { mark: format!("_{}_", &mark[..8]), last: AtomicU64::new(0) }
    }

    /// One more, made of the usual one.
    pub(super) fn next(&self, usual: &str) -> String {
        let (mark, number) = (&self.mark, self.last.fetch_add(1, Relaxed) + 1);
        match usual.rsplit_once('.') {
            Some((stem, extension)) => format!("{stem}{mark}{number}.{extension}"),
            None => format!("{usual}{mark}{number}"),
        }
    }

    /// Whether this is one of them: no file that a program made.
    pub(super) fn has_given(&self, path: &str) -> bool {
        !path.contains('/') && path.contains(&self.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_names_are_the_same_and_each_is_known() {
        let names = Names::new();
        let (first, second) = (names.next("main.py"), names.next("main.py"));
        assert_ne!(first, second);
        for name in [&first, &second] {
            assert!(name.starts_with("main_") && name.ends_with(".py"), "{name}");
            assert!(names.has_given(name));
            assert!(!names.has_given(&format!("results/{name}")));
            assert!(!Names::new().has_given(name));
        }
        assert!(!names.has_given("main.py"));
        assert!(names.has_given(&names.next("makefile")));
    }
}
