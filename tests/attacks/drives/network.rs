//! Sandboxes beside each other, and a host that calls one.

use super::Drive;
use super::host::arranged;
use crate::stage::Stage;
use crate::support::Running;
use rustix::process::Signal;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(super) const DRIVES: &[(&str, Drive)] = &[
    ("beside_a_neighbour_that_listens", beside_a_neighbour_that_listens),
    ("on_a_host_with_names_of_its_own", on_a_host_with_names_of_its_own),
    ("the_host_calls_a_sandbox_that_listens", the_host_calls_a_sandbox_that_listens),
];

const PATIENCE: Duration = Duration::from_secs(30);

/// The run as the data says, while another sandbox listens on everything. The other one hears nothing.
fn beside_a_neighbour_that_listens(stage: &Stage) -> Result<(), String> {
    let neighbour = listening(stage);
    let seen = stage.execute();
    stage.judge(&seen)?;
    heard_nothing(stage, neighbour)
}

/// Port 8001 of a sandbox that listens on all addresses is nobody's, seen from the host.
fn the_host_calls_a_sandbox_that_listens(stage: &Stage) -> Result<(), String> {
    let neighbour = listening(stage);
    for address in ["127.0.0.1:8001", "127.0.0.2:8001", "[::1]:8001", "[::ffff:127.0.0.1]:8001"] {
        let address: SocketAddr = address.parse().map_err(|e| format!("{address}: {e}"))?;
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            return Err(format!("{address} answers"));
        }
    }
    // The same from the network in which the commands of the suite live, where every address is local.
    let code = "import socket\nfor address in ('127.0.0.1', '0.0.0.0', '192.0.2.1', '10.0.0.1'):\n    \
        for port in (8000, 8001):\n        s = socket.socket()\n        s.settimeout(1)\n        \
        if s.connect_ex((address, port)) == 0: print(address, port)\n\
        s = socket.socket(socket.AF_UNIX)\nif s.connect_ex('\\0neighbour') == 0: print('abstract')\nprint('end')";
    let out = stage.person.run("python", code).options("--network host --quiet").out();
    if out.text() != "end\n" {
        return Err(format!("seen from the host's network: {}{}", out.text(), out.complaint()));
    }
    heard_nothing(stage, neighbour)
}

/// The host has a host name and a domain name; neither is to be seen inside.
fn on_a_host_with_names_of_its_own(stage: &Stage) -> Result<(), String> {
    let host = arranged(stage, &["named=ours.example,secret.example"]);
    let out = host.run("python", include_str!("../programs/ne_18_neutral.py")).flag("--json");
    let library =
        stage.person.write(&stage.folder().join("attack.py"), include_str!("../programs/attack.py"));
    let seen = stage.notice(&out.arg("--file", library).out());
    let text = String::from_utf8_lossy(&seen.stdout).into_owned();
    match text.lines().find(|line| line.contains(".example")) {
        _ if seen.status != "success" => {
            Err(format!("{}: {}", seen.status, String::from_utf8_lossy(&seen.stderr)))
        }
        Some(line) => Err(format!("a name of the host: {line}")),
        None => Ok(()),
    }
}

/// Another sandbox of the same person that listens on everything it can, and has things with names.
fn listening(stage: &Stage) -> Running {
    let code = include_str!("../programs/ne_14_neighbour.py");
    let neighbour = stage.person.run("python", code).options("--timeout 1m --quiet").start();
    neighbour.until_it_says("ready\n");
    neighbour
}

fn heard_nothing(stage: &Stage, mut neighbour: Running) -> Result<(), String> {
    if !neighbour.is_running() {
        return Err("the neighbour has ended by itself".into());
    }
    neighbour.signal(Signal::TERM);
    let out = neighbour.out(PATIENCE);
    stage.show(&out.stdout);
    if out.text() == "ready\n" { Ok(()) } else { Err(format!("the neighbour heard: {}", out.text())) }
}
