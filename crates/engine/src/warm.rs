//! A program that waits in a place of its own, and how it is told what to do.
//!
//! The place was made, and the interpreter started in it, before anybody asked. What is left at a request is to
//! write the program's files, a letter for PID 1, which it reads when there is something to do, and one message that
//! wakes the interpreter. What the program writes comes straight from it. The word that it has ended, and how, is the
//! kernel's, by [`witness`] or by PID 1.

mod follow;
mod streams;
mod witness;

pub(crate) use follow::{Outcome, Placed, Task, fits};

use self::streams::Tap;
use self::witness::Witness;
use crate::EngineError;
use crate::execution::Receipt;
use crate::isolator::native::{Lease, Native};
use crate::isolator::{Isolator, Place, PlaceSpec};
use jail::beneath::{PlainPath, Tree};
use protocol::{Frame, FromExecutor, FromHost, GENERATION, PARKED_FDS, Parked, Reader, Rehearsal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::FallocateFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// What an interpreter says when it waits.
const READY: u8 = 6;
/// How long one may take to get that far.
const PATIENCE: Duration = Duration::from_secs(20);

/// How places of one kind are made.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// What the place shall be; each gets a name of its own.
    pub(crate) spec: PlaceSpec,
    /// The program that waits in it.
    pub(crate) parked: Parked,
    /// A program that a copy of an interpreter runs before it waits.
    pub(crate) rehearsal: String,
}

/// A place whose program waits.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) lease: Lease,
    pub(crate) receipt: Receipt,
    stream: UnixStream,
    reader: Reader,
    stdin: Option<pipe::Sender>,
    stdout: Tap,
    stderr: Tap,
    workspace: Tree,
    build: Tree,
    letterbox: OwnedFd,
    /// Who sees its end without asking PID 1, where that is possible.
    witness: Option<Witness>,
    /// Whether somebody keeps its memory.
    pub(crate) has_keeper: bool,
    /// A file that is there already, because it will most likely be the main one, open for writing.
    source: Option<(String, File)>,
}

impl Program {
    /// Makes a place, and waits until its program waits. Where somebody has to wait for that, it is in a `hurry`: nothing
    /// is done that would only make later things faster.
    pub(crate) async fn make(
        native: &Arc<Native>,
        recipe: &Recipe,
        hurry: bool,
    ) -> Result<Program, EngineError> {
        let spec = PlaceSpec { id: uuid::Uuid::now_v7().simple().to_string(), ..recipe.spec.clone() };
        let parked = Parked { hurry, ..recipe.parked.clone() };
        let mut opening = Vec::new();
        Frame::control(&FromHost::Hello { generation: GENERATION }).write_to(&mut opening);
        Frame::control(&FromHost::Park(parked)).write_to(&mut opening);
        let pipes = || pipe_with(PipeFlags::CLOEXEC).map_err(|e| broken("pipe", &e));
        let ((their_in, our_in), (our_out, their_out), (our_err, their_err)) = (pipes()?, pipes()?, pipes()?);
        let receiver = |fd| pipe::Receiver::from_owned_fd(fd).map_err(|e| broken("pipe", &e));
        let mut stdin = pipe::Sender::from_owned_fd(our_in).map_err(|e| broken("pipe", &e))?;
        let (stdout, stderr) = (receiver(our_out)?, receiver(our_err)?);
        let place = native.create(&spec, &opening, Some([their_in, their_out, their_err])).await?;
        let lease = Lease::new(native.clone(), spec.id.clone());
        let mut rising =
            Rising { stream: place.stream, reader: Reader::default(), receipt: place.receipt, stdout };
        // So that the program can open them again by name, as `/dev/stdin` and its like.
        let owned = give(&rising.receipt, [stdin.as_fd(), rising.stdout.as_fd(), stderr.as_fd()]);
        let (is_copy, has_keeper) = (spec.zygote.is_some(), spec.keeper);
        let ready = async {
            owned?;
            if is_copy {
                let rehearsal = Rehearsal { program: recipe.rehearsal.clone(), hurry };
                let told = stdin.write_all(&rehearsal.bytes()).await;
                told.map_err(|_| "the program ended".to_owned())?;
            }
            rising.get_ready(recipe.parked.source.as_deref(), has_keeper).await
        };
        match tokio::time::timeout(PATIENCE, ready).await {
            Ok(Ok(Ready { workspace, build, letterbox, witness })) => {
                let Rising { stream, reader, receipt, stdout } = rising;
                let stdin = Some(stdin);
                let source = match &recipe.parked.source {
                    Some(source) => Some((source.clone(), opened(&workspace, source)?)),
                    None => None,
                };
                Ok(Program {
                    lease,
                    receipt,
                    stream,
                    reader,
                    stdin,
                    stdout: Tap::Open(stdout),
                    stderr: Tap::Open(stderr),
                    workspace,
                    build,
                    letterbox,
                    witness,
                    has_keeper,
                    source,
                })
            }
            // Whatever it is, nobody will use it.
            Ok(Err(why)) => Err(EngineError::Broken(format!("no program waits in the sandbox: {why}"))),
            Err(_) => {
                Err(EngineError::Broken("no program waits in the sandbox: it does not get ready".into()))
            }
        }
    }
}

impl Program {
    /// Whether it still waits. What does has nothing to say.
    pub(crate) fn is_alive(&self) -> bool {
        let Tap::Open(stdout) = &self.stdout else { return false };
        let mut fds = [
            PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN),
            PollFd::new(&self.stream, PollFlags::IN),
        ];
        // Not what the reactor knows: it may not have looked for a while.
        poll(&mut fds, Some(&Timespec::default())) == Ok(0)
            && self.witness.as_ref().is_none_or(Witness::is_alive)
    }

    /// Its place, for something else than what waits in it.
    pub(crate) fn into_place(self) -> (Lease, Place) {
        (self.lease, Place { stream: self.stream, seats: Vec::new(), told: 0, receipt: self.receipt })
    }
}

/// The main file, open for writing and with room for a short one.
fn opened(workspace: &Tree, source: &str) -> Result<File, EngineError> {
    const SHORT: u64 = 4096;
    let path = PlainPath::parse(source).map_err(|e| broken(source, &e))?;
    let file = workspace.overwrite(&path).map_err(|e| broken(source, &e))?;
    // What cannot be made room for now may still be written then.
    let _ = rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, SHORT);
    Ok(file)
}

/// Whether this is all there is in a workspace.
fn holds_only(workspace: &Tree, source: Option<&str>) -> bool {
    let there = workspace.list("").unwrap_or_default();
    there.len() == usize::from(source.is_some())
        && there.iter().all(|(name, _)| Some(name.as_str()) == source)
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

/// A place whose program does not wait yet.
struct Rising {
    stream: UnixStream,
    reader: Reader,
    receipt: Receipt,
    stdout: pipe::Receiver,
}

/// What comes with a program that waits.
struct Ready {
    workspace: Tree,
    build: Tree,
    letterbox: OwnedFd,
    witness: Option<Witness>,
}

impl Rising {
    /// Returns once it waits.
    async fn get_ready(&mut self, source: Option<&str>, has_keeper: bool) -> Result<Ready, String> {
        let mut came = Vec::new();
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
                None => came.extend(self.receive().await?),
            }
        }
        let mut said = vec![0];
        self.stdout.read_exact(&mut said).await.map_err(|_| "the program ended".to_owned())?;
        if said != [READY] {
            // It had nothing to say but what went wrong.
            let _ = self.stdout.read_to_end(&mut said).await;
            return Err(jail::job::decode(&said).to_string());
        }
        let mut came = came.into_iter();
        let (Some(workspace), Some(build), Some(letterbox)) = (came.next(), came.next(), came.next()) else {
            return Err("no workspace came".into());
        };
        let (workspace, build) = (Tree::of(workspace), Tree::of(build));
        // What a rehearsal left is an artifact, and PID 1 the one who knows.
        let witness = match holds_only(&workspace, source) {
            true => Witness::of(self.receipt.cgroup, has_keeper, came)?,
            false => None,
        };
        let mut word = Vec::new();
        Frame::control(&FromHost::Settle).write_to(&mut word);
        if witness.is_some() {
            Frame::control(&FromHost::Doze).write_to(&mut word);
        }
        self.stream.write_all(&word).await.map_err(|e| e.to_string())?;
        Ok(Ready { workspace, build, letterbox, witness })
    }

    /// Takes in what has arrived, and the descriptors that came along.
    async fn receive(&mut self) -> Result<Vec<OwnedFd>, String> {
        let mut buffer = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PARKED_FDS))];
        let stream = &self.stream;
        let (length, fds) = stream
            .async_io(Interest::READABLE, || {
                let mut ancillary = RecvAncillaryBuffer::new(&mut space);
                let mut parts = [IoSliceMut::new(&mut buffer)];
                let message = recvmsg(stream.as_fd(), &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
                let mut came = Vec::new();
                for part in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(fds) = part {
                        came.extend(fds);
                    }
                }
                Ok((message.bytes, came))
            })
            .await
            .map_err(|e| e.to_string())?;
        if length == 0 {
            return Err("PID 1 ended".into());
        }
        self.reader.push(&buffer[..length]);
        Ok(fds)
    }
}

fn broken(what: &str, e: &dyn std::fmt::Display) -> EngineError {
    EngineError::Broken(format!("{what}: {e}"))
}
