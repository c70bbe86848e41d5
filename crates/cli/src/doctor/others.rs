//! What the other isolators need: programs on `PATH`, the Docker engine's socket, KVM.
//!
//! No program found is run. None of it is needed for native sandboxes, so a fix is offered only for what is
//! there and cannot be used.

use super::fixes::sudo;
use super::{Part, Row, State};
use jail::probe::Host;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// What to call it, the program, and what it is for.
const PROGRAMS: [(&str, &str, &str); 8] = [
    ("bwrap", "bwrap", "isolator `bubblewrap`, grade 1"),
    ("runc", "runc", "isolator `oci`, grade 1"),
    ("crun", "crun", "isolator `oci`, grade 1"),
    ("runsc", "runsc", "isolator `oci` with gVisor, grade 2"),
    ("podman", "podman", "isolator `docker` through its socket"),
    ("kubectl", "kubectl", "isolator `kubernetes`"),
    ("firecracker", "firecracker", "isolator `firecracker`, grade 3"),
    ("qemu", "qemu-system-x86_64", "microVMs without KVM, for tests"),
];

pub(super) fn rows(host: &Host) -> Vec<Row> {
    let mut rows = vec![docker(host)];
    rows.extend(PROGRAMS.map(|(name, file, purpose)| program(name, file, purpose)));
    rows.push(kvm(host));
    rows
}

fn row(name: &'static str, state: State, found: String, purpose: &str, fix: Option<String>) -> Row {
    Row { part: Part::Other, name, state, found, consequence: purpose.to_owned(), fix }
}

fn program(name: &'static str, file: &str, purpose: &str) -> Row {
    match on_path(file) {
        Some(path) => row(name, State::Ok, format!("`{}`", path.display()), purpose, None),
        None => row(name, State::Missing, format!("no `{file}` on `PATH`"), purpose, None),
    }
}

fn docker(host: &Host) -> Row {
    let (name, purpose) = ("docker", "isolator `docker`, grade 1");
    let engine = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    let Some(socket) = engine.strip_prefix("unix://") else {
        let found = format!("`DOCKER_HOST` is `{engine}`, not asked");
        return row(name, State::Ok, found, purpose, None);
    };
    let client = on_path("docker").is_some();
    match UnixStream::connect(socket).map_err(|error| error.kind()) {
        Ok(_) => row(name, State::Ok, format!("the engine answers at `{socket}`"), purpose, None),
        Err(ErrorKind::NotFound) if !client => {
            row(name, State::Missing, "no `docker` on `PATH`, no engine".to_owned(), purpose, None)
        }
        Err(ErrorKind::PermissionDenied) => {
            let fix = "join its group, which is as good as root, and log in again: \
                       `sudo usermod -aG docker \"$USER\"`";
            let found = format!("`{socket}` is not yours to use");
            row(name, State::Missing, found, purpose, Some(fix.to_owned()))
        }
        Err(_) => {
            let fix = Some(format!("start the engine: `{}systemctl start docker`", sudo(host)));
            row(name, State::Missing, format!("no engine at `{socket}`"), purpose, fix)
        }
    }
}

fn kvm(host: &Host) -> Row {
    let (name, purpose) = ("/dev/kvm", "needed by isolator `firecracker`");
    if host.surroundings.kvm.works() {
        return row(name, State::Ok, "opened it".to_owned(), purpose, None);
    }
    let found = host.surroundings.kvm.to_string();
    if Path::new("/dev/kvm").exists() {
        let fix = "join its group and log in again: `sudo usermod -aG kvm \"$USER\"`";
        return row(name, State::Missing, found, purpose, Some(fix.to_owned()));
    }
    row(name, State::Missing, found, purpose, None)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
