//! What a program reads.

use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};

/// What a program reads.
#[derive(Clone, Debug)]
pub enum Input {
    /// All of it, known beforehand.
    Whole(Vec<u8>),
    /// Piece by piece, as it comes and as the program reads it.
    Live(Feed),
}

impl Input {
    /// What is known of it now.
    pub(crate) fn known(&self) -> &[u8] {
        match self {
            Input::Whole(bytes) => bytes,
            Input::Live(_) => &[],
        }
    }

    /// What comes later.
    pub(crate) fn feed(&self) -> Option<&Feed> {
        match self {
            Input::Whole(_) => None,
            Input::Live(feed) => Some(feed),
        }
    }
}

/// Input that comes while the program runs. It ends when nobody is left who could send more.
#[derive(Clone)]
pub struct Feed(Arc<Mutex<Source>>);

enum Source {
    /// Nobody has asked yet.
    Closed(Box<dyn FnOnce(mpsc::Sender<Vec<u8>>) + Send>),
    Open(mpsc::Receiver<Vec<u8>>),
}

impl Feed {
    /// A feed that `open` begins to fill when the program has begun. One piece waits at most: who fills it goes on when
    /// the program has taken in the one before.
    pub fn new(open: impl FnOnce(mpsc::Sender<Vec<u8>>) + Send + 'static) -> Feed {
        Feed(Arc::new(Mutex::new(Source::Closed(Box::new(open)))))
    }

    /// The next piece. None is lost when nobody waits for it to the end.
    pub(crate) async fn next(&self) -> Option<Vec<u8>> {
        let mut source = self.0.lock().await;
        loop {
            match &mut *source {
                Source::Closed(_) => {
                    let (fill, pieces) = mpsc::channel(1);
                    if let Source::Closed(open) = std::mem::replace(&mut *source, Source::Open(pieces)) {
                        open(fill);
                    }
                }
                Source::Open(pieces) => match pieces.recv().await {
                    // It would be taken for the end.
                    Some(piece) if piece.is_empty() => {}
                    piece => return piece,
                },
            }
        }
    }
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Feed")
    }
}
