//! A program that waits in a place of its own, and how it is told what to do.
//!
//! The place was made, and the interpreter started in it, before anybody asked. What is left at a request is to
//! write the program's files, a letter for PID 1, which it reads when there is something to do, and one message that
//! wakes the interpreter. What the program writes comes straight from it. The word that it has ended, and how, is
//! PID 1's, which has it from the kernel.

mod follow;
mod streams;

pub(crate) use follow::{Outcome, Placed, Task, fits};

use self::streams::Tap;
use crate::EngineError;
use crate::execution::Receipt;
use crate::isolator::native::{Lease, Native};
use crate::isolator::{Isolator, Place, PlaceSpec};
use jail::beneath::Tree;
use protocol::{Frame, FromExecutor, FromHost, GENERATION, Parked, Reader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::pipe::{PipeFlags, pipe_with};
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
    /// Whether somebody keeps its memory.
    pub(crate) has_keeper: bool,
    /// A file that is there already, because it will most likely be the main one.
    source: Option<String>,
}

impl Program {
    /// Makes a place, and waits until its program waits.
    pub(crate) async fn make(native: &Arc<Native>, recipe: &Recipe) -> Result<Program, EngineError> {
        let spec = PlaceSpec { id: uuid::Uuid::now_v7().simple().to_string(), ..recipe.spec.clone() };
        let parked = &recipe.parked;
        let mut opening = Vec::new();
        Frame::control(&FromHost::Hello { generation: GENERATION }).write_to(&mut opening);
        Frame::control(&FromHost::Park(parked.clone())).write_to(&mut opening);
        let pipes = || pipe_with(PipeFlags::CLOEXEC).map_err(|e| broken("pipe", &e));
        let ((their_in, our_in), (our_out, their_out), (our_err, their_err)) = (pipes()?, pipes()?, pipes()?);
        let receiver = |fd| pipe::Receiver::from_owned_fd(fd).map_err(|e| broken("pipe", &e));
        let stdin = pipe::Sender::from_owned_fd(our_in).map_err(|e| broken("pipe", &e))?;
        let (stdout, stderr) = (receiver(our_out)?, receiver(our_err)?);
        let place = native.create(&spec, &opening, Some([their_in, their_out, their_err])).await?;
        let lease = Lease::new(native.clone(), spec.id.clone());
        let mut rising =
            Rising { stream: place.stream, reader: Reader::default(), receipt: place.receipt, stdout };
        // So that the program can open them again by name, as `/dev/stdin` and its like.
        let owned = give(&rising.receipt, [stdin.as_fd(), rising.stdout.as_fd(), stderr.as_fd()]);
        let ready = async {
            owned?;
            rising.get_ready().await
        };
        match tokio::time::timeout(PATIENCE, ready).await {
            Ok(Ok((workspace, build, letterbox))) => {
                let Rising { stream, reader, receipt, stdout } = rising;
                let stdin = Some(stdin);
                let (source, has_keeper) = (parked.source.clone(), spec.zygote.is_some());
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
    }

    /// Its place, for something else than what waits in it.
    pub(crate) fn into_place(self) -> (Lease, Place) {
        (self.lease, Place { stream: self.stream, told: 0, receipt: self.receipt })
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

/// A place whose program does not wait yet.
struct Rising {
    stream: UnixStream,
    reader: Reader,
    receipt: Receipt,
    stdout: pipe::Receiver,
}

impl Rising {
    /// Its workspace, its build directory and its letterbox, once it waits.
    async fn get_ready(&mut self) -> Result<(Tree, Tree, OwnedFd), String> {
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
        let mut word = Vec::new();
        Frame::control(&FromHost::Settle).write_to(&mut word);
        self.stream.write_all(&word).await.map_err(|e| e.to_string())?;
        match <[OwnedFd; 3]>::try_from(came) {
            Ok([workspace, build, letterbox]) => Ok((Tree::of(workspace), Tree::of(build), letterbox)),
            Err(_) => Err("no workspace came".into()),
        }
    }

    /// Takes in what has arrived, and the descriptors that came along.
    async fn receive(&mut self) -> Result<Vec<OwnedFd>, String> {
        let mut buffer = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
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
