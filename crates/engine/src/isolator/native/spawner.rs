//! The engine's end of the spawner: one order at a time, each answered before the next.

use crate::EngineError;
use crate::isolator::{Load, Zygote, no_executor};
use jail::spec::MOST_SEATS;
use protocol::spawner::{LONGEST, Order, Reply, pack, unpack};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::json;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

/// How long any one order may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A running spawner. Dropping it ends it and everything it made, in its own time: it takes down what is
/// left when its socket closes, and nobody has to wait for that.
#[derive(Debug)]
pub(super) struct Spawner {
    socket: UnixStream,
    process: Option<Child>,
    /// What was started, to name it when it does not work.
    executor: PathBuf,
    /// What it loads, there until it has.
    library: Option<OwnedFd>,
}

/// A copy of a file that has no name: programs can see what they have loaded, and it is nobody's business where.
fn nameless(path: &Path) -> std::io::Result<OwnedFd> {
    let content = std::fs::read(path)?;
    let copy = rustix::fs::memfd_create("sandboxd", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(copy);
    std::io::Write::write_all(&mut file, &content)?;
    Ok(file.into())
}

fn broken(what: &str, e: &dyn std::fmt::Display) -> EngineError {
    EngineError::Broken(format!("{what}: {e}"))
}

/// Our end of a line, and theirs.
fn line() -> Result<(UnixStream, OwnedFd), EngineError> {
    let failed = |e: std::io::Error| broken("spawner", &e);
    let (ours, theirs) = StdStream::pair().map_err(failed)?;
    ours.set_nonblocking(true).map_err(failed)?;
    Ok((UnixStream::from_std(ours).map_err(failed)?, theirs.into()))
}

/// What an interpreter loads on top of what it has.
fn settings(zygote: &Zygote) -> String {
    let nothing = Load::default();
    let Load { preload, warm_up } = zygote.loads.last().unwrap_or(&nothing);
    json!({"preload": preload, "load_env": zygote.load_env, "warm_up": warm_up}).to_string()
}

impl Spawner {
    pub(super) fn start(executor: &Path, ahead: bool) -> Result<Spawner, EngineError> {
        let mut command = Command::new(executor);
        command.arg("spawner").args((!ahead).then_some("--nothing-ahead")).env_clear();
        Spawner::begin(executor, command)
    }

    /// An interpreter that becomes a spawner when it is loaded, by the library that makes it one.
    pub(super) fn start_zygote(zygote: &Zygote, library: &Path) -> Result<Spawner, EngineError> {
        let library = nameless(library).map_err(|e| EngineError::Unavailable {
            what: format!("`{}` cannot be used: {e}", library.display()),
            hint: Some("`make build` leaves it beside `sandboxd`".into()),
        })?;
        let loaded = format!("/proc/{}/fd/{}", std::process::id(), library.as_raw_fd());
        let mut command = Command::new(&zygote.program);
        command
            .arg0(zygote.program.file_name().unwrap_or_default())
            .arg(&zygote.source)
            .env_clear()
            .envs(zygote.env.iter().map(|(name, value)| (name, value)))
            .env("LD_PRELOAD", loaded)
            // What is bound before the copy is made need not be bound in each.
            .env("LD_BIND_NOW", "1")
            .env("SANDBOXD_ZYGOTE", settings(zygote))
            .current_dir("/");
        let mut begun = Spawner::begin(&zygote.program, command)?;
        begun.library = Some(library);
        Ok(begun)
    }

    /// An interpreter that will be a copy of another, which has to be given this order, with this beside it.
    pub(super) fn branch(zygote: &Zygote) -> Result<(Spawner, Order, OwnedFd), EngineError> {
        let (socket, theirs) = line()?;
        let spawner = Spawner { socket, process: None, executor: zygote.program.clone(), library: None };
        Ok((spawner, Order::Branch { load: settings(zygote) }, theirs))
    }

    fn begin(executor: &Path, mut command: Command) -> Result<Spawner, EngineError> {
        let (socket, theirs) = line()?;
        let process = command
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            // Not ours: whoever reads it would wait for the spawner, which goes on cleaning up after us.
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| no_executor(executor, &e))?;
        Ok(Spawner { socket, process: Some(process), executor: executor.into(), library: None })
    }

    /// Gives an order and waits for its answer, but not for ever.
    pub(super) async fn order(&mut self, order: &Order, lines: Vec<OwnedFd>) -> Result<Reply, EngineError> {
        let executor = self.executor.clone();
        match tokio::time::timeout(PATIENCE, self.exchange(order, lines)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(EngineError::Broken(why))) => Err(no_executor(&executor, &why)),
            Ok(Err(other)) => Err(other),
            Err(_) => Err(no_executor(&executor, &"it does not answer")),
        }
    }

    async fn exchange(&mut self, order: &Order, lines: Vec<OwnedFd>) -> Result<Reply, EngineError> {
        let socket = &mut self.socket;
        let text = pack(order).map_err(|e| broken("order", &e))?;
        if text.len() > LONGEST {
            return Err(EngineError::Broken("the order to the spawner is too long".into()));
        }
        let hung_up = |e: std::io::Error| broken("the spawner hung up", &e);
        let send = || -> std::io::Result<usize> {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1 + MOST_SEATS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let fds: Vec<_> = lines.iter().map(AsFd::as_fd).collect();
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
        let Some(mut process) = self.process.take() else { return };
        // It ends in its own time, and must not stay as a zombie then. Whoever does not live to see that has no need to.
        if !matches!(process.try_wait(), Ok(Some(_))) {
            std::thread::spawn(move || process.wait());
        }
    }
}
