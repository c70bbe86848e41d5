//! A program that waits in a place of its own, and how it is told what to do.
//!
//! The place was made, and the interpreter started in it, before anybody asked. What is left at a request is to
//! write the program's files, one message that wakes the interpreter, and another for PID 1, which watches. What the
//! program writes comes straight from it. The word that it has ended, and how, is PID 1's, which has it from the
//! kernel.

use crate::conversation::{End, GRACE, Heard, SLOW, cancelled};
use crate::engine::{Event, SourceFile};
use crate::execution::Receipt;
use crate::isolator::native::{Lease, Native};
use crate::isolator::{Isolator, Place, PlaceSpec};
use crate::{Cancel, EngineError};
use jail::beneath::{Mark, PlainPath, Tree};
use jail::mutant::{Mutant, lacks};
use protocol::{
    Ending, Frame, FromExecutor, FromHost, GENERATION, Job, Kind, LONGEST_BODY, Parked, Present, Reader,
    StepKind,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io::{ErrorKind, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// What an interpreter says when it waits.
const READY: u8 = 6;
/// How long one may take to get that far.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a cancelled program may take to end.
const FAREWELL: Duration = Duration::from_secs(1);

/// How places of one kind are made.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// What the place shall be; each gets a name of its own.
    pub(crate) spec: PlaceSpec,
    /// The program that waits in it, if one shall.
    pub(crate) parked: Option<Parked>,
}

/// A place that waits.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// For any program.
    Place(Lease, Place),
    /// With a program that waits too.
    Program(Box<Program>),
}

/// A place whose program waits.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) lease: Lease,
    pub(crate) receipt: Receipt,
    stream: UnixStream,
    reader: Reader,
    stdin: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    workspace: Tree,
}

/// What a waiting program shall do.
pub(crate) struct Task<'a> {
    /// The main file first.
    pub(crate) files: Vec<&'a SourceFile>,
    /// The path of the main file, as the command would have it, and the program's arguments.
    pub(crate) args: Vec<&'a str>,
    /// What is added to its environment.
    pub(crate) env: &'a [(String, String)],
    pub(crate) stdin: Option<&'a [u8]>,
    pub(crate) job: Job,
}

/// How it went.
pub(crate) enum Outcome {
    /// Not at all: the program does not wait any more, and has not begun.
    NotBegun,
    /// This was heard.
    Heard(Box<Heard>, Job),
}

impl Waiting {
    /// Makes a place, and waits until its program waits, if one shall.
    pub(crate) async fn make(native: &Arc<Native>, recipe: &Recipe) -> Result<Waiting, EngineError> {
        let spec = PlaceSpec { id: uuid::Uuid::now_v7().simple().to_string(), ..recipe.spec.clone() };
        match &recipe.parked {
            Some(parked) => Program::make(native, spec, parked).await.map(Box::new).map(Waiting::Program),
            None => {
                let place = native.create(&spec, &[], None).await?;
                Ok(Waiting::Place(Lease::new(native.clone(), spec.id), place))
            }
        }
    }

    /// What keeps its place.
    pub(crate) fn lease(&mut self) -> &mut Lease {
        match self {
            Waiting::Place(lease, _) => lease,
            Waiting::Program(program) => &mut program.lease,
        }
    }

    /// Whether it still waits. What does has nothing to say.
    pub(crate) fn is_alive(&self) -> bool {
        let mut fds = Vec::with_capacity(2);
        match self {
            Waiting::Place(_, place) => fds.push(PollFd::new(&place.stream, PollFlags::IN)),
            Waiting::Program(program) => {
                fds.push(PollFd::new(&program.stdout, PollFlags::IN));
                fds.push(PollFd::new(&program.stream, PollFlags::IN));
            }
        }
        // Not what the reactor knows: it may not have looked for a while.
        poll(&mut fds, Some(&Timespec::default())) == Ok(0)
    }
}

impl Program {
    async fn make(native: &Arc<Native>, spec: PlaceSpec, parked: &Parked) -> Result<Program, EngineError> {
        let mut opening = Vec::new();
        Frame::control(&FromHost::Hello { generation: GENERATION }).write_to(&mut opening);
        Frame::control(&FromHost::Park(parked.clone())).write_to(&mut opening);
        let pipes = || pipe_with(PipeFlags::CLOEXEC).map_err(|e| broken("pipe", &e));
        let ((their_in, our_in), (our_out, their_out), (our_err, their_err)) = (pipes()?, pipes()?, pipes()?);
        let receiver = |fd| pipe::Receiver::from_owned_fd(fd).map_err(|e| broken("pipe", &e));
        let stdin = pipe::Sender::from_owned_fd(our_in).map_err(|e| broken("pipe", &e))?;
        let (stdout, stderr) = (receiver(our_out)?, receiver(our_err)?);
        let place = native.create(&spec, &opening, Some([their_in, their_out, their_err])).await?;
        let lease = Lease::new(native.clone(), spec.id);
        let mut rising =
            Rising { stream: place.stream, reader: Reader::default(), receipt: place.receipt, stdout };
        // So that the program can open them again by name, as `/dev/stdin` and its like.
        let owned = give(&rising.receipt, [stdin.as_fd(), rising.stdout.as_fd(), stderr.as_fd()]);
        let ready = async {
            owned?;
            rising.get_ready().await
        };
        match tokio::time::timeout(PATIENCE, ready).await {
            Ok(Ok(workspace)) => {
                let Rising { stream, reader, receipt, stdout } = rising;
                let stdin = Some(stdin);
                Ok(Program { lease, receipt, stream, reader, stdin, stdout, stderr, workspace })
            }
            // Whatever it is, nobody will use it.
            Ok(Err(why)) => Err(EngineError::Broken(format!("no program waits in the sandbox: {why}"))),
            Err(_) => {
                Err(EngineError::Broken("no program waits in the sandbox: it does not get ready".into()))
            }
        }
    }

    /// Has it do its task.
    pub(crate) async fn run(
        &mut self,
        task: Task<'_>,
        events: &mpsc::Sender<Event>,
        cancel: &Cancel,
    ) -> Outcome {
        let header = header(&task);
        let Task { files, stdin, mut job, .. } = task;
        match self.write_files(&files) {
            Ok(present) => job.parked = Some(present),
            Err(reason) => {
                let heard = Heard { end: End::Broken(reason), ..Heard::default() };
                return Outcome::Heard(Box::new(heard), job);
            }
        }
        let mut order = Vec::new();
        Frame::control(&FromHost::Run(job.clone())).write_to(&mut order);
        let mut order = Outbox::new(order, &[]);
        // A stream that is gone is found by listening to it.
        let _ = order.push(|bytes| self.stream.try_write(bytes));
        let _ = events.send(Event::Started { step: StepKind::Run }).await;
        let mut input = Outbox::new(header, stdin.unwrap_or_default());
        // What wakes the program comes last: the kernel lets it begin where we are, and not before we rest.
        if let Some(to) = &self.stdin
            && input.push(|bytes| Ok(rustix::io::write(to, bytes)?)).is_err()
        {
            return Outcome::NotBegun;
        }
        if input.is_empty() {
            self.stdin = None;
        }
        let heard = self.follow(&job, input, order, events, cancel).await;
        Outcome::Heard(Box::new(heard), job)
    }

    async fn follow(
        &mut self,
        job: &Job,
        mut input: Outbox<'_>,
        mut order: Outbox<'_>,
        events: &mpsc::Sender<Event>,
        cancel: &Cancel,
    ) -> Heard {
        let deadline = Instant::now() + Duration::from_millis(job.limits.wall_ms);
        let mut listening = Listening {
            out: Stream::new(Kind::Stdout),
            err: Stream::new(Kind::Stderr),
            sequence: 0,
            most: if lacks(Mutant::OutputCap) { usize::MAX } else { job.limits.output_bytes as usize },
            deadline: deadline + SLOW,
            events,
            buffer: vec![0; 64 << 10],
            heard: Heard { greeted: true, ..Heard::default() },
        };
        let patience = sleep_until(deadline + GRACE);
        tokio::pin!(patience);
        // Why it was told to end, if it was.
        let mut told: Option<Ending> = None;
        let end = loop {
            match self.reader.next_frame() {
                Ok(Some(frame)) if frame.kind == Kind::FileOut => {
                    match listening.heard.take_file(&frame, &job.collect) {
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
            tokio::select! {
                biased;
                ready = self.stream.readable() => {
                    match ready.and_then(|()| self.stream.try_read(&mut listening.buffer)) {
                        Ok(length) if length > 0 => self.reader.push(&listening.buffer[..length]),
                        Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                        Ok(_) | Err(_) => break End::HungUp,
                    }
                }
                _ = self.stdout.readable(), if listening.out.open => {
                    let read = self.stdout.try_read(&mut listening.buffer);
                    listening.hear(Kind::Stdout, read).await;
                }
                _ = self.stderr.readable(), if listening.err.open => {
                    let read = self.stderr.try_read(&mut listening.buffer);
                    listening.hear(Kind::Stderr, read).await;
                }
                Some(()) = writable(&self.stdin), if !input.is_empty() => {
                    let gone = self.stdin.as_ref().is_none_or(|to| input.push(|bytes| to.try_write(bytes)).is_err());
                    // Who closed its input does not want the rest.
                    if gone || input.is_empty() {
                        input.clear();
                        self.stdin = None;
                    }
                }
                _ = self.stream.writable(), if !order.is_empty() => {
                    if order.push(|bytes| self.stream.try_write(bytes)).is_err() {
                        order.clear();
                    }
                }
                () = cancelled(cancel, events), if told.is_none() => {
                    told = Some(Ending::Cancelled);
                    order.add(&FromHost::Cancel);
                    patience.as_mut().reset(Instant::now() + FAREWELL);
                }
                () = &mut patience => match told {
                    Some(Ending::Cancelled) => break End::Cancelled,
                    _ => break End::Silent,
                },
            }
            let written = listening.out.written.max(listening.err.written);
            if written > job.limits.output_written_bytes && told.is_none() && !lacks(Mutant::OutputLimit) {
                told = Some(Ending::OutputLimit);
                order.add(&FromHost::Cancel);
                patience.as_mut().reset(Instant::now() + GRACE);
            }
        };
        // Nobody is left who could write, so what is left has an end.
        if matches!(end, End::Finished(_)) {
            listening.drain(Kind::Stdout, &self.stdout).await;
            listening.drain(Kind::Stderr, &self.stderr).await;
        }
        listening.finish(end, told)
    }

    /// Makes the program's files, and says how they look. The main file is there already where the interpreter was
    /// started with its name.
    fn write_files(&self, files: &[&SourceFile]) -> Result<Vec<Present>, String> {
        let owner = self.receipt.host_uid.filter(|_| self.receipt.host_uid_unique);
        let mut present = Vec::with_capacity(files.len());
        for file in files {
            let failed = |e: &dyn std::fmt::Display| format!("file `{}`: {e}", file.path);
            let path = PlainPath::parse(&file.path).map_err(|e| failed(&e))?;
            let mode = if file.executable { 0o755 } else { 0o644 };
            let opened = match self.workspace.overwrite(&path) {
                Err(Errno::NOENT) => jail::sys::with_file_ids(owner, || self.workspace.create(&path, mode)),
                opened => opened,
            };
            let mut opened = opened.map_err(|e| failed(&e))?;
            opened.write_all(&file.content).map_err(|e| failed(&e))?;
            let stat = rustix::fs::fstat(&opened).map_err(|e| failed(&e))?;
            present.push(Present { path: path.as_str().to_owned(), mark: Mark::of(&stat) });
        }
        Ok(present)
    }
}

/// Makes pipes the user's of that place.
fn give(receipt: &Receipt, pipes: [BorrowedFd<'_>; 3]) -> Result<(), String> {
    let Some(user) = receipt.host_uid.filter(|_| receipt.host_uid_unique) else { return Ok(()) };
    let (uid, gid) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(user));
    let mut pipes = pipes.iter();
    pipes
        .try_for_each(|pipe| rustix::fs::fchown(pipe, Some(uid), Some(gid)))
        .map_err(|e| format!("pipe: {e}"))
}

async fn writable(to: &Option<pipe::Sender>) -> Option<()> {
    to.as_ref()?.writable().await.ok()
}

/// A place whose program does not wait yet.
struct Rising {
    stream: UnixStream,
    reader: Reader,
    receipt: Receipt,
    stdout: pipe::Receiver,
}

impl Rising {
    async fn get_ready(&mut self) -> Result<Tree, String> {
        let mut workspace = None;
        loop {
            match self.reader.next_frame().map_err(|e| e.to_string())? {
                Some(frame) => match frame.message::<FromExecutor>().map_err(|e| e.to_string())? {
                    FromExecutor::Hello { seccomp_sha256, landlock_abi, .. } => {
                        self.receipt.complete(seccomp_sha256, landlock_abi);
                    }
                    FromExecutor::Parked => break,
                    FromExecutor::Broken { reason } => return Err(reason),
                    other => return Err(format!("PID 1 said {other:?}")),
                },
                None => workspace = self.receive().await?.or(workspace),
            }
        }
        let mut said = vec![0];
        self.stdout.read_exact(&mut said).await.map_err(|_| "the program ended".to_owned())?;
        if said != [READY] {
            // It had nothing to say but what went wrong.
            let _ = self.stdout.read_to_end(&mut said).await;
            return Err(jail::job::decode(&said).to_string());
        }
        workspace.map(Tree::of).ok_or_else(|| "no workspace came".into())
    }

    /// Takes in what has arrived, and a descriptor if one came along.
    async fn receive(&mut self) -> Result<Option<OwnedFd>, String> {
        let mut buffer = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let stream = &self.stream;
        let (length, fd) = stream
            .async_io(Interest::READABLE, || {
                let mut ancillary = RecvAncillaryBuffer::new(&mut space);
                let mut parts = [IoSliceMut::new(&mut buffer)];
                let message = recvmsg(stream.as_fd(), &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
                let fd = ancillary.drain().find_map(|part| match part {
                    RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                    _ => None,
                });
                Ok((message.bytes, fd))
            })
            .await
            .map_err(|e| e.to_string())?;
        if length == 0 {
            return Err("PID 1 ended".into());
        }
        self.reader.push(&buffer[..length]);
        Ok(fd)
    }
}

/// Bytes on their way out.
struct Outbox<'a> {
    first: Vec<u8>,
    rest: &'a [u8],
    sent: usize,
}

impl<'a> Outbox<'a> {
    fn new(first: Vec<u8>, rest: &'a [u8]) -> Outbox<'a> {
        Outbox { first, rest, sent: 0 }
    }

    fn is_empty(&self) -> bool {
        self.sent == self.first.len() + self.rest.len()
    }

    fn clear(&mut self) {
        *self = Outbox::new(Vec::new(), &[]);
    }

    /// Adds a message at the end, where nothing but messages goes out.
    fn add(&mut self, message: &FromHost) {
        Frame::control(message).write_to(&mut self.first);
    }

    /// Sends as much as there is room for.
    fn push(&mut self, mut write: impl FnMut(&[u8]) -> std::io::Result<usize>) -> std::io::Result<()> {
        while !self.is_empty() {
            let bytes = match self.sent.checked_sub(self.first.len()) {
                None => &self.first[self.sent..],
                Some(sent) => &self.rest[sent..],
            };
            match write(bytes) {
                Ok(length) => self.sent += length,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

struct Stream {
    kind: Kind,
    open: bool,
    kept: Vec<u8>,
    written: u64,
}

impl Stream {
    fn new(kind: Kind) -> Stream {
        Stream { kind, open: true, kept: Vec::new(), written: 0 }
    }
}

/// What a program writes, kept within bounds and passed on.
struct Listening<'a> {
    out: Stream,
    err: Stream,
    sequence: u64,
    most: usize,
    /// Until when somebody may take to listen.
    deadline: Instant,
    events: &'a mpsc::Sender<Event>,
    buffer: Vec<u8>,
    heard: Heard,
}

impl Listening<'_> {
    /// Takes what was read of a stream into the buffer.
    async fn hear(&mut self, kind: Kind, read: std::io::Result<usize>) {
        let stream = if kind == Kind::Stdout { &mut self.out } else { &mut self.err };
        let length = match read {
            Ok(0) => {
                stream.open = false;
                return;
            }
            Ok(length) => length,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(_) => {
                stream.open = false;
                return;
            }
        };
        stream.written += length as u64;
        let bytes = &self.buffer[..length.min(self.most.saturating_sub(stream.kept.len()))];
        if bytes.is_empty() {
            return;
        }
        stream.kept.extend_from_slice(bytes);
        self.sequence += 1;
        let (sequence, bytes) = (self.sequence, bytes.to_vec());
        let event = match stream.kind {
            Kind::Stdout => Event::Stdout { sequence, bytes },
            _ => Event::Stderr { sequence, bytes },
        };
        // Nobody listening any more is noticed as a cancellation.
        let _ = tokio::time::timeout_at(self.deadline, self.events.send(event)).await;
    }

    /// Takes what is left, however the reactor sees it.
    async fn drain(&mut self, kind: Kind, from: &pipe::Receiver) {
        loop {
            let read = rustix::io::read(from, &mut *self.buffer);
            match read {
                Ok(length) if length > 0 => self.hear(kind, Ok(length)).await,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    fn finish(self, mut end: End, told: Option<Ending>) -> Heard {
        if let End::Finished(result) = &mut end {
            result.written = protocol::Written { stdout: self.out.written, stderr: self.err.written };
            if let (Ending::Cancelled, Some(told)) = (&result.ending, told) {
                result.ending = told;
            }
        }
        Heard { stdout: self.out.kept, stderr: self.err.kept, end, ..self.heard }
    }
}

/// What tells a waiting program its arguments and environment: the length of the rest in eight hexadecimal digits, then
/// strings that end in NUL: how many arguments there are, the arguments, and `NAME=value` for each variable.
fn header(task: &Task<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    let mut say = |text: &str| {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    };
    say(&task.args.len().to_string());
    task.args.iter().for_each(|arg| say(arg));
    task.env.iter().for_each(|(name, value)| say(&format!("{name}={value}")));
    let mut bytes = format!("{:08x}", body.len()).into_bytes();
    bytes.extend(body);
    bytes
}

fn broken(what: &str, e: &dyn std::fmt::Display) -> EngineError {
    EngineError::Broken(format!("{what}: {e}"))
}

/// A message to PID 1 has to fit a frame.
pub(crate) fn fits(files: usize, words: usize) -> bool {
    const OF_A_FILE: usize = 4096 + 128;
    files * OF_A_FILE + words < LONGEST_BODY
}
