//! Where clients come in: a port of the loopback, a socket in the file system, or one that systemd has opened.

mod connection;
mod outflow;
mod stream;
mod watch;

pub(crate) use connection::{Connections, Door};

use crate::{Options, ServerError};
use rustix::fs::Mode;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open, umask};
use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use stream::Stream;
use tokio::net::{TcpListener, UnixListener};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// On a port.
    Tcp(SocketAddr),
    /// On a socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "http://{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer(Option<SocketAddr>);

impl Peer {
    /// Its address; none for this user, on a socket in the file system.
    pub(crate) fn address(self) -> Option<IpAddr> {
        self.0.map(|address| address.ip())
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => write!(f, "{}", address.ip().to_canonical()),
            None => f.write_str("local"),
        }
    }
}

/// What listens.
pub(crate) struct Listener {
    socket: Socket,
    address: Address,
    /// The file to remove in the end, if we made one.
    file: Option<PathBuf>,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens where the options say, if that is safe.
    pub(crate) async fn bind(options: &Options) -> Result<Listener, ServerError> {
        let listener =
            match (options.socket_activation.then(inherited).transpose()?.flatten(), &options.unix_socket) {
                (Some(fd), _) => adopted(fd)?,
                (None, Some(path)) => in_file_system(path)?,
                (None, None) => {
                    refuse_remote(options.address.ip(), options)?;
                    let bound = TcpListener::bind(options.address).await;
                    let socket = bound
                        .map_err(|error| ServerError::Bind { to: Address::Tcp(options.address), error })?;
                    let address = socket
                        .local_addr()
                        .map_err(|error| ServerError::Bind { to: Address::Tcp(options.address), error })?;
                    Listener { socket: Socket::Tcp(socket), address: Address::Tcp(address), file: None }
                }
            };
        if let Address::Tcp(address) = &listener.address {
            refuse_remote(address.ip(), options)?;
        }
        Ok(listener)
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The next client.
    async fn accept(&self) -> std::io::Result<(Stream, Peer)> {
        match &self.socket {
            Socket::Tcp(socket) => {
                let (stream, from) = socket.accept().await?;
                // Answers are small and somebody waits for them.
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream), Peer(Some(from))))
            }
            Socket::Unix(socket) => Ok((Stream::Unix(socket.accept().await?.0), Peer(None))),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Other machines are let in only by somebody who has said so twice.
fn refuse_remote(ip: IpAddr, options: &Options) -> Result<(), ServerError> {
    let safe = ip.to_canonical().is_loopback() || (options.allow_remote && options.token.is_some());
    if safe { Ok(()) } else { Err(ServerError::Remote { ip, lacks_token: options.allow_remote }) }
}

fn in_file_system(path: &Path) -> Result<Listener, ServerError> {
    let failed = |error| ServerError::Bind { to: Address::Unix(path.to_owned()), error };
    // A socket nobody listens on was left behind.
    if let Ok(found) = std::fs::symlink_metadata(path) {
        let dead = std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if !found.file_type().is_socket() || !dead {
            return Err(failed(std::io::Error::from(ErrorKind::AddrInUse)));
        }
        std::fs::remove_file(path).map_err(failed)?;
    }
    // It must not be there for others for even a moment.
    let before = umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    let socket = Socket::Unix(bound.map_err(failed)?);
    Ok(Listener { socket, address: Address::Unix(path.to_owned()), file: Some(path.to_owned()) })
}

/// The first socket that systemd has opened for us, if it has.
fn inherited() -> Result<Option<OwnedFd>, ServerError> {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    if variable("LISTEN_PID") != Some(std::process::id()) || variable("LISTEN_FDS").unwrap_or(0) == 0 {
        return Ok(None);
    }
    // The first one is always descriptor 3. A copy of it is ours without any doubt.
    let own: Pid = getpid();
    let copy = pidfd_open(own, PidfdFlags::empty())
        .and_then(|pidfd| pidfd_getfd(pidfd, 3, PidfdGetfdFlags::empty()));
    copy.map(Some).map_err(|error| ServerError::Activation(error.into()))
}

fn adopted(fd: OwnedFd) -> Result<Listener, ServerError> {
    use rustix::net::{AddressFamily, sockopt::socket_domain};
    let failed = ServerError::Activation;
    let domain = socket_domain(&fd).map_err(|error| failed(error.into()))?;
    if domain == AddressFamily::UNIX {
        let socket = std::os::unix::net::UnixListener::from(fd);
        socket.set_nonblocking(true).map_err(failed)?;
        let path = socket.local_addr().map_err(failed)?.as_pathname().map(Path::to_owned).unwrap_or_default();
        let socket = Socket::Unix(UnixListener::from_std(socket).map_err(failed)?);
        return Ok(Listener { socket, address: Address::Unix(path), file: None });
    }
    let socket = std::net::TcpListener::from(fd);
    socket.set_nonblocking(true).map_err(failed)?;
    let socket = TcpListener::from_std(socket).map_err(failed)?;
    let address = Address::Tcp(socket.local_addr().map_err(failed)?);
    Ok(Listener { socket: Socket::Tcp(socket), address, file: None })
}
