//! What a host listens on, and who came.

use crate::outer::{LAN, Outer};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::Result;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(crate) struct Listeners {
    hits: Arc<Mutex<Vec<String>>>,
    /// Where they are, as variables for programs.
    pub(crate) variables: Vec<(&'static str, String)>,
}

struct Sockets {
    lan: SocketAddr,
    tcp: Vec<TcpListener>,
    udp: Vec<UdpSocket>,
    unix: Vec<(&'static str, UnixListener)>,
    variables: Vec<(&'static str, String)>,
}

impl Listeners {
    /// Listens in the network that commands see: in the outer one, where every address is ours, or in the host's
    /// own at addresses of its own.
    pub(crate) fn start(outer: Option<&Outer>, ground: &Path, nonce: &str) -> Result<Listeners> {
        let Some(outer) = outer else { return Ok(accept(open(false, ground, nonce)?)) };
        let net = File::open(format!("/proc/{}/ns/net", outer.holder()))?;
        // A socket stays in the network in which it was made; the thread that went there ends.
        let made = std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                move_into_link_name_space(net.as_fd(), Some(LinkNameSpaceType::Network))?;
                open(true, ground, nonce)
            });
            made.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()))
        });
        Ok(accept(made?))
    }

    /// Who came since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.hits.lock().unwrap())
    }
}

fn open(everywhere: bool, ground: &Path, nonce: &str) -> Result<Sockets> {
    let mut tcp = Vec::new();
    let mut variables = Vec::new();
    // Port 0 is one that is free.
    let mut listen = |address: SocketAddr| -> Result<u16> {
        tcp.push(TcpListener::bind(address)?);
        Ok(tcp[tcp.len() - 1].local_addr()?.port())
    };
    let lan: SocketAddr;
    let dns: SocketAddr;
    if everywhere {
        let port = listen((Ipv4Addr::UNSPECIFIED, 0).into())?;
        for usual in [53, 80, 443] {
            listen((Ipv4Addr::UNSPECIFIED, usual).into())?;
        }
        variables.push(("ATTACK_TCP4", format!("127.0.0.1:{port}")));
        lan = format!("{LAN}:{port}").parse().map_err(std::io::Error::other)?;
        dns = (Ipv4Addr::UNSPECIFIED, 53).into();
    } else {
        let port = listen((Ipv4Addr::LOCALHOST, 0).into())?;
        variables.push(("ATTACK_TCP4", format!("127.0.0.1:{port}")));
        lan = SocketAddr::new(own_address()?, listen(SocketAddr::new(own_address()?, 0))?);
        dns = (Ipv4Addr::LOCALHOST, 0).into();
    }
    // A host may have no IPv6; then nothing listens there, and nothing can be reached.
    let six = listen((Ipv6Addr::LOCALHOST, 0).into()).unwrap_or(9);
    variables.push(("ATTACK_TCP6", format!("[::1]:{six}")));
    variables.push(("ATTACK_LAN", lan.to_string()));
    let udp = UdpSocket::bind(dns)?;
    variables.push(("ATTACK_DNS", format!("127.0.0.1:{}", udp.local_addr()?.port())));

    let name = format!("attack-{nonce}");
    let hidden = UnixListener::bind_addr(&UnixAddr::from_abstract_name(&name)?)?;
    variables.push(("ATTACK_ABSTRACT", name));
    let path = ground.join("socket");
    let named = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))?;
    variables.push(("ATTACK_SOCKET", path.display().to_string()));
    let unix = vec![("the abstract socket", hidden), ("the socket", named)];
    Ok(Sockets { lan, tcp, udp: vec![udp], unix, variables })
}

/// The address from which this host would speak to others. Nothing is sent to find out.
fn own_address() -> Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    match socket.connect((LAN, 9)) {
        Ok(()) => Ok(socket.local_addr()?.ip()),
        Err(_) => Ok(Ipv4Addr::LOCALHOST.into()),
    }
}

fn accept(sockets: Sockets) -> Listeners {
    let hits = Arc::new(Mutex::new(Vec::new()));
    // Threads that wait for visitors end with the program.
    let follow = |mut next: Box<dyn FnMut() -> Result<String> + Send>| {
        let hits = Arc::clone(&hits);
        std::thread::spawn(move || {
            while let Ok(visitor) = next() {
                hits.lock().unwrap().push(visitor);
            }
        });
    };
    for listener in sockets.tcp {
        follow(Box::new(move || {
            let address = listener.accept()?.0.local_addr()?;
            let kind = if address == sockets.lan { "tcp in the LAN" } else { "tcp" };
            Ok(format!("{kind} {address}"))
        }));
    }
    for socket in sockets.udp {
        follow(Box::new(move || {
            socket.recv_from(&mut [0; 512])?;
            Ok(format!("udp {}", socket.local_addr()?))
        }));
    }
    for (name, listener) in sockets.unix {
        follow(Box::new(move || listener.accept().map(|_| name.to_owned())));
    }
    Listeners { hits, variables: sockets.variables }
}
