//! The engine's end of the spawner: one order at a time, each answered before the next.

use crate::EngineError;
use crate::isolator::no_executor;
use jail::spec::JailSpec;
use protocol::spawner::{LONGEST, Order, Reply, pack, unpack};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

/// How long any one order may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running spawner. Dropping it ends it and everything it made, in its own time: it takes down what is
/// left when its socket closes, and nobody has to wait for that.
#[derive(Debug)]
pub(super) struct Spawner {
    socket: Socket,
    /// None for one that was forked off before there was an engine.
    process: Option<Child>,
    /// What was started, to name it when it does not work.
    executor: PathBuf,
}

/// A spawner can be started before there is an async runtime, and is spoken to only when there is one.
#[derive(Debug)]
enum Socket {
    Fresh(Option<StdStream>),
    Used(UnixStream),
}

impl Socket {
    fn used(&mut self) -> std::io::Result<&mut UnixStream> {
        if let Socket::Fresh(fresh) = self {
            let fresh = fresh.take().ok_or(std::io::ErrorKind::NotConnected)?;
            *self = Socket::Used(UnixStream::from_std(fresh)?);
        }
        match self {
            Socket::Used(socket) => Ok(socket),
            Socket::Fresh(_) => Err(std::io::ErrorKind::NotConnected.into()),
        }
    }
}

fn broken(what: &str, e: &dyn std::fmt::Display) -> EngineError {
    EngineError::Broken(format!("{what}: {e}"))
}

impl Spawner {
    /// One that runs already, at the other end of this socket.
    pub(super) fn at(socket: StdStream) -> std::io::Result<Spawner> {
        socket.set_nonblocking(true)?;
        Ok(Spawner { socket: Socket::Fresh(Some(socket)), process: None, executor: PathBuf::new() })
    }

    /// Tells a spawner that was not spoken to yet what it will be asked for.
    pub(super) fn expect(&self, spec: &JailSpec) -> Result<(), EngineError> {
        let order = pack(&Order::Expect { spec: Box::new(spec.clone()) }).map_err(|e| broken("order", &e))?;
        if let Socket::Fresh(Some(socket)) = &self.socket {
            // An empty socket takes all of it; should it not, the spawner would wait for the rest for ever.
            let sent = std::io::Write::write(&mut &*socket, &order).map_err(|e| broken("spawner", &e))?;
            if sent != order.len() {
                return Err(EngineError::Broken("the spawner does not listen".into()));
            }
        }
        Ok(())
    }

    pub(super) fn start(executor: &Path) -> Result<Spawner, EngineError> {
        let (ours, theirs) = StdStream::pair().map_err(|e| broken("spawner", &e))?;
        ours.set_nonblocking(true).map_err(|e| broken("spawner", &e))?;
        let process = Command::new(executor)
            .arg("spawner")
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // Not ours: whoever reads it would wait for the spawner, which goes on cleaning up after us.
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| no_executor(executor, &e))?;
        Ok(Spawner { socket: Socket::Fresh(Some(ours)), process: Some(process), executor: executor.into() })
    }

    /// Gives an order and waits for its answer, but not for ever.
    pub(super) async fn order(
        &mut self,
        order: &Order,
        stream: Option<StdStream>,
    ) -> Result<Reply, EngineError> {
        let executor = self.executor.clone();
        match tokio::time::timeout(PATIENCE, self.exchange(order, stream)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(EngineError::Broken(why))) => Err(no_executor(&executor, &why)),
            Ok(Err(other)) => Err(other),
            Err(_) => Err(no_executor(&executor, &"it does not answer")),
        }
    }

    async fn exchange(&mut self, order: &Order, stream: Option<StdStream>) -> Result<Reply, EngineError> {
        let socket = self.socket.used().map_err(|e| broken("spawner", &e))?;
        let text = pack(order).map_err(|e| broken("order", &e))?;
        if text.len() > LONGEST {
            return Err(EngineError::Broken("the order to the spawner is too long".into()));
        }
        let hung_up = |e: std::io::Error| broken("the spawner hung up", &e);
        let send = || -> std::io::Result<usize> {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let fds: Vec<_> = stream.iter().map(AsFd::as_fd).collect();
            if !fds.is_empty() {
                ancillary.push(SendAncillaryMessage::ScmRights(&fds));
            }
            Ok(sendmsg(socket.as_fd(), &[IoSlice::new(&text)], &mut ancillary, SendFlags::NOSIGNAL)?)
        };
        let sent = socket.async_io(Interest::WRITABLE, send).await.map_err(hung_up)?;
        socket.write_all(&text[sent..]).await.map_err(hung_up)?;
        let mut answer = Vec::new();
        loop {
            if let Some((reply, _)) = unpack(&answer).map_err(|e| broken("the spawner's answer", &e))? {
                return Ok(reply);
            }
            if answer.len() > LONGEST + 4 {
                return Err(EngineError::Broken("it talks without end".into()));
            }
            if socket.read_buf(&mut answer).await.map_err(hung_up)? == 0 {
                return Err(EngineError::Broken("the spawner ended unexpectedly".into()));
            }
        }
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        // One that broke is dead already and must not stay as a zombie.
        if let Some(process) = &mut self.process {
            let _ = process.try_wait();
        }
    }
}
