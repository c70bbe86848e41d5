//! How a waiting program is told what to do, and followed until it has done it.

use super::Program;
use super::streams::{Listening, Outbox, Stream};
use super::witness::{Witness, Workspace};
use crate::Cancel;
use crate::conversation::{End, GRACE, Heard, SLOW, cancelled, fed};
use crate::engine::Event;
use crate::input::{Feed, Input};
use jail::beneath::{Mark, PlainPath};
use jail::mutant::{Mutant, lacks};
use protocol::{
    Collect, Ending, Errand, FromExecutor, FromHost, Kind, LONGEST_BODY, Present, RunLimits, StepKind,
};
use rustix::fs::Mode;
use rustix::pipe::PIPE_BUF;
use std::io::{ErrorKind, Write};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long a cancelled program may take to end.
const FAREWELL: Duration = Duration::from_secs(1);
/// What takes longer is watched by PID 1.
const SHORT: Duration = Duration::from_millis(5);
/// How long a thread waits for a program and does nothing else, where no other program runs.
const MOMENT: Duration = Duration::from_millis(1);

/// What a waiting program shall do.
pub(crate) struct Task<'a> {
    /// The main file first.
    pub(crate) files: Vec<Placed<'a>>,
    /// What it is told.
    pub(crate) header: Vec<u8>,
    pub(crate) stdin: Option<&'a Input>,
    pub(crate) limits: RunLimits,
    pub(crate) collect: Collect,
}

/// A file, and where it goes.
pub(crate) struct Placed<'a> {
    pub(crate) place: protocol::Place,
    pub(crate) path: &'a str,
    pub(crate) content: &'a [u8],
    pub(crate) executable: bool,
}

/// How it went.
pub(crate) enum Outcome {
    /// Not at all: the program does not wait any more, and has not begun.
    NotBegun,
    /// This was heard.
    Heard(Box<Heard>),
}

impl Program {
    /// Has it do its task. Where it is `alone`, and no other program runs, nobody is kept waiting by whoever waits for it.
    pub(crate) async fn run(
        &mut self,
        task: Task<'_>,
        alone: bool,
        events: &mpsc::Sender<Event>,
        cancel: &Cancel,
    ) -> Outcome {
        let Task { files, header, stdin, limits, collect } = task;
        let files = match self.write_files(&files) {
            Ok(present) => present,
            Err(reason) => {
                let heard = Heard { end: End::Broken(reason), ..Heard::default() };
                return Outcome::Heard(Box::new(heard));
            }
        };
        let errand = Errand { began_ns: now_ns(), limits, collect, files };
        let order = self.order(&errand);
        // Who is not told at once may not have to be told at all.
        let before = self.witness.as_ref().filter(|_| !order.attended);
        let before = before.and_then(|_| Workspace::of(&self.workspace, &errand.files));
        let _ = events.send(Event::Started { step: StepKind::Run }).await;
        let mut input = Outbox::new(header, stdin.map_or(&[], Input::known));
        let feed = stdin.and_then(Input::feed);
        // What wakes the program comes last: the kernel lets it begin where we are, and not before we rest.
        if let Some(to) = &self.stdin
            && input.push(|bytes| Ok(rustix::io::write(to, bytes)?)).is_err()
        {
            return Outcome::NotBegun;
        }
        if input.is_empty() && feed.is_none() {
            self.stdin = None;
        }
        let followed = self.follow((&errand, before, alone), (input, feed), order, events, cancel);
        let heard = followed.await;
        Outcome::Heard(Box::new(heard))
    }

    /// Has PID 1 follow the program. It need not be told at once if it can be told at all: then nothing is left to say
    /// but that it should look.
    fn order(&self, errand: &Errand) -> Order {
        let letter = errand.letter();
        let quiet =
            letter.len() <= PIPE_BUF && rustix::io::write(&self.letterbox, &letter) == Ok(letter.len());
        let mut said = Outbox::new(Vec::new(), &[]);
        if !quiet {
            said.add(&FromHost::Follow(errand.clone()));
        }
        // A stream that is gone is found by listening to it.
        let _ = said.push(|bytes| self.stream.try_write(bytes));
        Order { said, attended: !quiet }
    }

    async fn follow(
        &mut self,
        (errand, before, alone): (&Errand, Option<Workspace>, bool),
        (mut input, feed): (Outbox<'_>, Option<&Feed>),
        mut order: Order,
        events: &mpsc::Sender<Event>,
        cancel: &Cancel,
    ) -> Heard {
        let Errand { limits, collect, .. } = errand;
        let now = Instant::now();
        let deadline = now + Duration::from_millis(limits.wall_ms);
        let mut listening = Listening {
            out: Stream::new(Kind::Stdout),
            err: Stream::new(Kind::Stderr),
            sequence: 0,
            most: if lacks(Mutant::OutputCap) { usize::MAX } else { limits.output_bytes as usize },
            deadline: deadline + SLOW,
            events,
            buffer: Vec::with_capacity(64 << 10),
            heard: Heard { greeted: true, ..Heard::default() },
        };
        let seen = self.witness.as_ref().zip(before);
        // To be told by the runtime, or to be woken for what it writes, takes longer than a short program. What is longer
        // has its output kept by the kernel meanwhile.
        if let Some((witness, before)) = seen.as_ref()
            && alone
            && self.stdin.is_none()
            && witness.ends_within(MOMENT)
        {
            let took = Duration::from_nanos(now_ns().saturating_sub(errand.began_ns));
            match witness.testify(took, (&self.workspace, before), (limits, collect)) {
                Some(result) => {
                    return self.heard(listening, End::Finished(Box::new(result)), None).await;
                }
                None => order.attend(),
            }
        }
        let patience = sleep_until(deadline + GRACE);
        let long = sleep_until(now + SHORT);
        tokio::pin!(patience, long);
        // Why it was told to end, if it was. Who has written too much may write no more: a pipe that nobody empties is
        // soon full.
        let mut told: Option<Ending> = None;
        let end = loop {
            match self.reader.next_frame() {
                Ok(Some(frame)) if frame.kind == Kind::FileOut => {
                    match listening.heard.take_file(&frame, collect) {
                        Ok(()) => continue,
                        Err(end) => break end,
                    }
                }
                Ok(Some(frame)) => match frame.message::<FromExecutor>() {
                    Ok(FromExecutor::Finished(result)) => break End::Finished(result),
                    Ok(FromExecutor::Broken { reason }) => break End::Broken(reason),
                    Ok(_) => continue,
                    Err(e) => break End::Broken(e.to_string()),
                },
                Ok(None) => {}
                Err(e) => break End::Broken(e.to_string()),
            }
            let enough = told == Some(Ending::OutputLimit);
            tokio::select! {
                biased;
                ready = self.stream.readable() => {
                    listening.buffer.clear();
                    match ready.and_then(|()| self.stream.try_read_buf(&mut listening.buffer)) {
                        Ok(length) if length > 0 => self.reader.push(&listening.buffer),
                        Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                        Ok(_) | Err(_) => break End::HungUp,
                    }
                }
                Some((witness, before)) = ended(&seen), if !order.attended => {
                    let took = Duration::from_nanos(now_ns().saturating_sub(errand.began_ns));
                    match witness.testify(took, (&self.workspace, before), (limits, collect)) {
                        Some(result) => break End::Finished(Box::new(result)),
                        None => order.attend(),
                    }
                }
                () = self.stdout.ready(), if listening.out.open && !enough => {
                    let read = self.stdout.read(&mut listening.buffer);
                    listening.hear(Kind::Stdout, read).await;
                    self.stdout.rest_after(&listening.out);
                }
                () = self.stderr.ready(), if listening.err.open && !enough => {
                    let read = self.stderr.read(&mut listening.buffer);
                    listening.hear(Kind::Stderr, read).await;
                    self.stderr.rest_after(&listening.err);
                }
                Some(()) = writable(&self.stdin), if !input.is_empty() => {
                    let gone = self.stdin.as_ref().is_none_or(|to| input.push(|bytes| to.try_write(bytes)).is_err());
                    // Who closed its input does not want the rest.
                    if gone || (input.is_empty() && feed.is_none()) {
                        input.clear();
                        self.stdin = None;
                    }
                }
                piece = fed(feed), if input.is_empty() && self.stdin.is_some() => match piece {
                    Some(piece) => input = Outbox::new(piece, &[]),
                    None => self.stdin = None,
                },
                _ = self.stream.writable(), if !order.said.is_empty() => {
                    if order.said.push(|bytes| self.stream.try_write(bytes)).is_err() {
                        order.said.clear();
                    }
                }
                () = &mut long, if !order.attended => order.attend(),
                () = cancelled(cancel, events), if told.is_none() => {
                    told = Some(Ending::Cancelled);
                    order.cancel();
                    patience.as_mut().reset(Instant::now() + FAREWELL);
                }
                () = &mut patience => match told {
                    Some(Ending::Cancelled) => break End::Cancelled,
                    _ => break End::Silent,
                },
            }
            let written = listening.out.written.max(listening.err.written);
            if written > limits.output_written_bytes && told.is_none() && !lacks(Mutant::OutputLimit) {
                told = Some(Ending::OutputLimit);
                order.cancel();
                patience.as_mut().reset(Instant::now() + GRACE);
            }
        };
        self.heard(listening, end, told).await
    }

    /// Everything that was heard when it is over.
    async fn heard(&self, mut listening: Listening<'_>, end: End, told: Option<Ending>) -> Heard {
        // Nobody is left who could write, so what is left has an end.
        if matches!(end, End::Finished(_) | End::HungUp) {
            listening.drain(Kind::Stdout, &self.stdout).await;
            listening.drain(Kind::Stderr, &self.stderr).await;
        }
        listening.finish(end, told)
    }

    /// Makes the program's files, and says how those of the workspace look.
    fn write_files(&mut self, files: &[Placed<'_>]) -> Result<Vec<Present>, String> {
        let mut source = self.source.take();
        if let Some((name, _)) =
            source.as_ref().filter(|(name, _)| files.iter().all(|file| file.path != name))
        {
            let failed = |e: &dyn std::fmt::Display| format!("file `{name}`: {e}");
            let path = PlainPath::parse(name).map_err(|e| failed(&e))?;
            self.workspace.remove(&path).map_err(|e| failed(&e))?;
        }
        let owner = self.receipt.host_uid.filter(|_| self.receipt.host_uid_unique);
        let mut present = Vec::with_capacity(files.len());
        for file in files {
            let failed = |e: &dyn std::fmt::Display| format!("file `{}`: {e}", file.path);
            let path = PlainPath::parse(file.path).map_err(|e| failed(&e))?;
            let mode = if file.executable { 0o755 } else { 0o644 };
            let in_workspace = file.place == protocol::Place::Workspace;
            let mut opened = match source.take_if(|(name, _)| in_workspace && file.path == name) {
                Some((_, there)) if file.executable => {
                    rustix::fs::fchmod(&there, Mode::from_raw_mode(mode)).map(|()| there)
                }
                Some((_, there)) => Ok(there),
                None => {
                    let tree = if in_workspace { &self.workspace } else { &self.build };
                    jail::sys::with_file_ids(owner, || tree.create(&path, mode))
                }
            }
            .map_err(|e| failed(&e))?;
            opened.write_all(file.content).map_err(|e| failed(&e))?;
            if in_workspace {
                let stat = rustix::fs::fstat(&opened).map_err(|e| failed(&e))?;
                present.push(Present { path: path.as_str().to_owned(), mark: Mark::of(&stat) });
            }
        }
        Ok(present)
    }
}

/// Resolves when the program has ended, if anybody sees that.
async fn ended<'a>(seen: &'a Option<(&Witness, Workspace)>) -> Option<(&'a Witness, &'a Workspace)> {
    let (witness, before) = seen.as_ref()?;
    witness.end().await;
    Some((witness, before))
}

async fn writable(to: &Option<pipe::Sender>) -> Option<()> {
    to.as_ref()?.writable().await.ok()
}

/// What PID 1 is told.
struct Order {
    said: Outbox<'static>,
    /// Whether it knows.
    attended: bool,
}

impl Order {
    fn attend(&mut self) {
        if !std::mem::replace(&mut self.attended, true) {
            self.said.add(&FromHost::Attend);
        }
    }

    fn cancel(&mut self) {
        self.attend();
        self.said.add(&FromHost::Cancel);
    }
}

/// The clock that only goes forward, as PID 1 reads it.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A message to PID 1 has to fit a frame.
pub(crate) fn fits(files: usize, words: usize) -> bool {
    const OF_A_FILE: usize = 4096 + 128;
    files * OF_A_FILE + words < LONGEST_BODY
}
