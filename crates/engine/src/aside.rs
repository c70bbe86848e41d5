//! What is asked of a sandbox beside its jobs: things to do with files, and to stand still for a while.

use protocol::{ASIDE, FileOp, FileOutcome, Frame, FromExecutor, FromHost, Kind, LONGEST_PIECE};
use std::collections::HashMap;
use tokio::sync::{mpsc, oneshot};

/// Most questions that are asked before the first one is answered.
const MOST_PENDING: usize = 16;

/// Something that is asked.
#[derive(Debug)]
pub(crate) enum Ask {
    /// Do something with files.
    File { op: FileOp, content: Option<Vec<u8>>, answer: oneshot::Sender<Answer> },
    /// Stand still.
    Pause,
    /// Go on.
    Resume,
}

/// What came of something that was done with files.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) outcome: FileOutcome,
    /// What was read.
    pub(crate) content: Vec<u8>,
}

/// What is to be said to the executor.
#[derive(Debug)]
pub(crate) enum Told {
    File(Vec<u8>),
    Pause,
    Resume,
}

/// Who asks, and who waits for answers.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    asks: Option<mpsc::Receiver<Ask>>,
    pending: HashMap<u32, (oneshot::Sender<Answer>, Vec<u8>)>,
    last: u32,
    /// Whether nothing shall go on at the moment.
    pub(crate) paused: bool,
}

impl Aside {
    pub(crate) fn new(asks: mpsc::Receiver<Ask>) -> Aside {
        Aside { asks: Some(asks), ..Aside::default() }
    }

    /// The next thing to say. Waits for ever where nobody can ask.
    pub(crate) async fn next(&mut self) -> Told {
        let asks = self.asks.as_mut().filter(|_| self.pending.len() < MOST_PENDING);
        let Some(asks) = asks else { return std::future::pending().await };
        match asks.recv().await {
            Some(Ask::File { op, content, answer }) => Told::File(self.ask(op, content, answer)),
            Some(Ask::Pause) => {
                self.paused = true;
                Told::Pause
            }
            Some(Ask::Resume) => {
                self.paused = false;
                Told::Resume
            }
            None => {
                self.asks = None;
                std::future::pending().await
            }
        }
    }

    /// Asks something: what is to be said.
    pub(crate) fn ask(
        &mut self,
        op: FileOp,
        content: Option<Vec<u8>>,
        answer: oneshot::Sender<Answer>,
    ) -> Vec<u8> {
        // Far more than are asked at once, and never so many that the number means something else.
        self.last = (self.last + 1) % ASIDE;
        let (id, mut bytes) = (self.last, Vec::new());
        Frame::control(&FromHost::File { id, op }).write_to(&mut bytes);
        if let Some(body) = content {
            Frame { kind: Kind::FileIn, stream: ASIDE | id, body }.write_to(&mut bytes);
        }
        self.pending.insert(id, (answer, Vec::new()));
        bytes
    }

    /// Whether a frame answers something that was asked.
    pub(crate) fn is_for(&self, frame: &Frame) -> bool {
        match frame.kind {
            Kind::FileOut => frame.stream & ASIDE != 0,
            Kind::Control => frame.body.starts_with(br#"{"file""#),
            _ => false,
        }
    }

    /// Passes an answer on.
    pub(crate) fn hear(&mut self, frame: Frame) {
        if frame.kind == Kind::FileOut {
            if let Some((_, content)) = self.pending.get_mut(&(frame.stream & !ASIDE))
                && content.len() + frame.body.len() <= LONGEST_PIECE
            {
                content.extend(frame.body);
            }
        } else if let Ok(FromExecutor::File { id, outcome }) = frame.message()
            && let Some((answer, content)) = self.pending.remove(&id)
        {
            // Who asked may not want to know any more.
            let _ = answer.send(Answer { outcome, content });
        }
    }
}
