//! One job, talked through with an executor: everything out at once, everything that comes back folded.
//!
//! What the executor says is checked, not believed: sizes, counts and order are bounded here again.

use crate::aside::{Aside, Told};
use crate::engine::Event;
use crate::input::{Feed, Input};
use crate::{Cancel, EngineError};
use jail::Step;
use jail::mutant::{Mutant, lacks};
use protocol::{
    Collect, Ending, Frame, FromExecutor, FromHost, GENERATION, Job, JobResult, Kind, LONGEST_BODY, Reader,
    VALUE_STREAM,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long after its time-out a job may still take to report.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// How long after its time somebody may still take to listen to what a job wrote.
pub(crate) const SLOW: Duration = Duration::from_millis(300);
/// How long a cancelled job may take to report.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Whether the executor said anything at all.
    pub(crate) greeted: bool,
    pub(crate) seccomp_sha256: Option<String>,
    pub(crate) landlock_abi: u32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) files: BTreeMap<u32, Vec<u8>>,
    /// The value it left, as it left it.
    pub(crate) value: Vec<u8>,
    pub(crate) end: End,
    /// How many of the words nobody wanted to hear any more, and what would have come after them.
    pub(crate) unsaid: (usize, Vec<u8>),
}

impl Heard {
    /// Refused, if a wall could not be put up around the program, which therefore did not start. What it could not start
    /// from for other reasons, its directory or its own file, is an outcome like others.
    pub(crate) fn walled(&self) -> Result<(), EngineError> {
        let End::Finished(result) = &self.end else { return Ok(()) };
        match &result.ending {
            Ending::StartFailed { error }
                if !matches!(error.step, Step::Descriptors | Step::WorkingDirectory | Step::Exec) =>
            {
                Err(EngineError::Refused { error: error.clone(), hint: None })
            }
            _ => Ok(()),
        }
    }

    /// Takes a part of a file that comes out.
    pub(crate) fn take_file(&mut self, frame: &Frame, bounds: &Collect) -> Result<(), End> {
        if frame.stream == VALUE_STREAM {
            let most = bounds.most_value_bytes.unwrap_or(0);
            if (self.value.len() + frame.body.len()) as u64 > most {
                return Err(End::Broken("the executor sent a larger value than it may".into()));
            }
            self.value.extend(&frame.body);
            return Ok(());
        }
        let so_far: u64 = self.files.values().map(|file| file.len() as u64).sum();
        // What is listed and what is built are bounded apart.
        let too_much = so_far + frame.body.len() as u64 > 2 * bounds.most_bytes;
        if too_much || self.files.len() > 2 * bounds.most_files as usize {
            return Err(End::Broken("the executor sent more files than it may".into()));
        }
        self.files.entry(frame.stream).or_default().extend(&frame.body);
        Ok(())
    }
}

/// How the conversation ended.
#[derive(Debug, Default)]
pub(crate) enum End {
    /// With a result.
    Finished(Box<JobResult>),
    /// The executor could not do this job, and waits for the next.
    Unable(String),
    /// The executor could not do its work.
    Broken(String),
    /// The stream closed before a result came.
    #[default]
    HungUp,
    /// No result came in time.
    Silent,
    /// The caller gave up, and no result came after that.
    Cancelled,
}

/// Everything there is to say to the executor at once, as bytes: the job, its files, its input as far as it is known.
pub(crate) fn words(job: &Job, files: &[&[u8]], stdin: Option<&Input>) -> Result<Vec<u8>, EngineError> {
    let mut bytes = Vec::new();
    Frame::control(&FromHost::Hello { generation: GENERATION }).write_to(&mut bytes);
    let run = Frame::control(&FromHost::Run(job.clone()));
    if run.body.len() > LONGEST_BODY {
        let what = "arguments, environment and file names are too long together";
        return Err(EngineError::invalid("args", what).with_hint("pass large data as a file or as input"));
    }
    run.write_to(&mut bytes);
    let mut say =
        |kind, stream, chunk: &[u8]| Frame { kind, stream, body: chunk.to_vec() }.write_to(&mut bytes);
    for (index, file) in (0..).zip(files) {
        file.chunks(LONGEST_BODY / 4).for_each(|chunk| say(Kind::FileIn, index, chunk));
    }
    if let Some(Input::Whole(input)) = stdin {
        input.chunks(LONGEST_BODY / 4).for_each(|chunk| say(Kind::Stdin, 0, chunk));
        say(Kind::Stdin, 0, &[]);
    }
    Ok(bytes)
}

/// The stream to an executor, and what of it was heard only in part.
#[derive(Debug)]
pub(crate) struct Line {
    stream: UnixStream,
    reader: Reader,
    /// Only the pages of it that are used cost anything.
    buffer: Vec<u8>,
}

impl Line {
    pub(crate) fn new(stream: UnixStream) -> Line {
        Line { stream, reader: Reader::default(), buffer: Vec::with_capacity(64 << 10) }
    }

    pub(crate) fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Hears something while no job is done; nothing when nothing comes any more.
    pub(crate) async fn hear(&mut self) -> Option<Frame> {
        let (read, _) = self.stream.split();
        let mut ear = Ear { read, reader: &mut self.reader, buffer: &mut self.buffer };
        ear.next().await?.ok()
    }

    /// Says something while no job is done, when an executor always listens. `false` when it does not.
    pub(crate) async fn say(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }
}

/// What is said to an executor about a job.
pub(crate) struct Speech<'a> {
    /// What is left to say of what is known.
    pub(crate) words: &'a [u8],
    /// Input that comes meanwhile.
    pub(crate) feed: Option<&'a Feed>,
    /// How long it may take to report when it is cancelled.
    pub(crate) farewell: Duration,
}

/// Has a job done. The stream stays open: when it is closed, PID 1 ends, and the
/// kernel lets it do that before anybody else gets to do anything.
pub(crate) async fn hold(
    line: &mut Line,
    job: &Job,
    speech: Speech<'_>,
    events: &mpsc::Sender<Event>,
    cancel: &Cancel,
    aside: &mut Aside,
) -> Heard {
    let Line { stream, reader, buffer } = line;
    let (read, mut write) = stream.split();
    let Speech { words, mut feed, farewell: patience } = speech;
    let mut voice = Voice { words, more: Vec::new() };
    let mut listener = Listener {
        ear: Ear { read, reader, buffer },
        job,
        deadline: Instant::now() + Duration::from_millis(job.limits.wall_ms),
        events,
        cancel,
        heard: Heard::default(),
    };
    let mut paused = None::<Instant>;
    loop {
        // Speaking and listening go on at the same time: an executor that is busy talking does not listen.
        tokio::select! {
            biased;
            frame = listener.ear.next() => match frame {
                Some(Ok(frame)) if aside.is_for(&frame) => aside.hear(frame),
                Some(Ok(frame)) => if !listener.understand(frame).await { break },
                Some(Err(why)) => {
                    listener.heard.end = End::Broken(why);
                    break;
                }
                None => break,
            },
            said = write.write(voice.next()), if !voice.next().is_empty() => voice.said(said),
            piece = fed(feed), if voice.next().is_empty() => {
                feed = feed.filter(|_| piece.is_some());
                let mut rest = piece.unwrap_or_default();
                while rest.len() > LONGEST_BODY {
                    let later = rest.split_off(LONGEST_BODY);
                    voice.feed(std::mem::replace(&mut rest, later));
                }
                // An empty one says that nothing follows.
                voice.feed(rest);
            }
            told = aside.next() => match told {
                Told::File(bytes) => voice.more.extend(bytes),
                Told::Pause => {
                    Frame::control(&FromHost::Pause).write_to(&mut voice.more);
                    paused.get_or_insert_with(Instant::now);
                }
                Told::Resume => {
                    Frame::control(&FromHost::Resume).write_to(&mut voice.more);
                    if let Some(since) = paused.take() {
                        listener.deadline += since.elapsed();
                    }
                }
            },
            () = cancelled(cancel, events) => {
                listener.heard.end = End::Cancelled;
                Frame::control(&FromHost::Cancel).write_to(&mut voice.more);
                let _ = tokio::time::timeout(patience, farewell(&mut listener, &mut voice, &mut write)).await;
                break;
            }
            () = sleep_until(listener.deadline + GRACE), if paused.is_none() => {
                listener.heard.end = End::Silent;
                break;
            }
        }
    }
    listener.heard.unsaid = (voice.words.len(), voice.more);
    listener.heard
}

/// Resolves when the caller cancels, or nobody listens to the events any more.
pub(crate) async fn cancelled(cancel: &Cancel, events: &mpsc::Sender<Event>) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = events.closed() => {}
    }
}

/// The next piece of input; for ever none where nothing feeds.
pub(crate) async fn fed(feed: Option<&Feed>) -> Option<Vec<u8>> {
    match feed {
        Some(feed) => feed.next().await,
        None => std::future::pending().await,
    }
}

/// Asks the executor to end the job, and hears what it still has to say.
async fn farewell(listener: &mut Listener<'_>, voice: &mut Voice<'_>, write: &mut WriteHalf<'_>) {
    loop {
        tokio::select! {
            biased;
            frame = listener.ear.next() => match frame {
                Some(Ok(frame)) => if !listener.understand(frame).await { return },
                _ => return,
            },
            said = write.write(voice.next()), if !voice.next().is_empty() => voice.said(said),
        }
    }
}

/// What is still to be said.
struct Voice<'a> {
    words: &'a [u8],
    more: Vec<u8>,
}

impl Voice<'_> {
    fn next(&self) -> &[u8] {
        if self.words.is_empty() { &self.more } else { self.words }
    }

    fn feed(&mut self, body: Vec<u8>) {
        Frame { kind: Kind::Stdin, stream: 0, body }.write_to(&mut self.more);
    }

    /// Takes note of how much was said. An error is for the listener to find: the other side is gone.
    fn said(&mut self, said: std::io::Result<usize>) {
        match said {
            Ok(length) if self.words.is_empty() => drop(self.more.drain(..length)),
            Ok(length) => self.words = &self.words[length..],
            Err(_) => {
                self.words = &[];
                self.more.clear();
            }
        }
    }
}

/// Hears frames.
struct Ear<'a> {
    read: ReadHalf<'a>,
    reader: &'a mut Reader,
    buffer: &'a mut Vec<u8>,
}

impl Ear<'_> {
    /// The next frame; none when nothing comes any more. Nothing is lost when nobody waits for it to the end.
    async fn next(&mut self) -> Option<Result<Frame, String>> {
        loop {
            match self.reader.next_frame() {
                Ok(Some(frame)) => return Some(Ok(frame)),
                Err(e) => return Some(Err(e.to_string())),
                Ok(None) => {}
            }
            self.buffer.clear();
            match self.read.read_buf(self.buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => self.reader.push(self.buffer),
            }
        }
    }
}

struct Listener<'a> {
    ear: Ear<'a>,
    job: &'a Job,
    /// When the job's time is over.
    deadline: Instant,
    events: &'a mpsc::Sender<Event>,
    cancel: &'a Cancel,
    heard: Heard,
}

impl Listener<'_> {
    fn end(&mut self, end: End) -> bool {
        self.heard.end = end;
        false
    }

    /// Takes in a frame. `false` when the conversation is over.
    async fn understand(&mut self, frame: Frame) -> bool {
        match frame.kind {
            Kind::Stdout | Kind::Stderr => self.output(&frame).await,
            Kind::FileOut => match self.heard.take_file(&frame, &self.job.collect) {
                Ok(()) => true,
                Err(end) => self.end(end),
            },
            Kind::Control => match frame.message::<FromExecutor>() {
                Ok(message) => self.message(message).await,
                Err(e) => self.end(End::Broken(e.to_string())),
            },
            Kind::Stdin | Kind::FileIn => {
                self.end(End::Broken("the executor sent what only we may send".into()))
            }
        }
    }

    async fn output(&mut self, frame: &Frame) -> bool {
        let most = if lacks(Mutant::OutputCap) { usize::MAX } else { self.job.limits.output_bytes as usize };
        let (sequence, bytes) = match frame.chunk() {
            Ok(chunk) => chunk,
            Err(e) => return self.end(End::Broken(e.to_string())),
        };
        let kept = if frame.kind == Kind::Stdout { &mut self.heard.stdout } else { &mut self.heard.stderr };
        let bytes = &bytes[..bytes.len().min(most.saturating_sub(kept.len()))];
        if bytes.is_empty() {
            return true;
        }
        kept.extend(bytes);
        let event = match frame.kind {
            Kind::Stdout => Event::Stdout { sequence, bytes: bytes.to_vec() },
            _ => Event::Stderr { sequence, bytes: bytes.to_vec() },
        };
        // Nobody listening any more is noticed as a cancellation. Who listens so slowly that the job's time is over
        // meanwhile must not keep us from hearing its end.
        tokio::select! {
            biased;
            _ = tokio::time::timeout_at(self.deadline + SLOW, self.events.send(event)) => {}
            () = cancelled(self.cancel, self.events) => {}
        }
        true
    }

    async fn message(&mut self, message: FromExecutor) -> bool {
        match message {
            FromExecutor::Hello { seccomp_sha256, landlock_abi, .. } => {
                self.heard.greeted = true;
                self.heard.seccomp_sha256 = seccomp_sha256;
                self.heard.landlock_abi = landlock_abi;
                true
            }
            FromExecutor::Started { step } => {
                if let Some(step) = self.job.steps.get(step) {
                    let _ = self.events.send(Event::Started { step: step.kind }).await;
                }
                true
            }
            // Nobody waits for it any more.
            FromExecutor::File { .. } => true,
            FromExecutor::Parked => self.end(End::Broken("nobody asked for a program that waits".into())),
            FromExecutor::Finished(result) => self.end(End::Finished(result)),
            FromExecutor::Broken { reason } => self.end(End::Unable(reason)),
        }
    }
}
