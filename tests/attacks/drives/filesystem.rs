//! Filesystem: descriptors of a careless caller, files that are given and saved, storage of the host.

mod given;
mod names;
mod saved;

use super::Drive;
use crate::stage::Stage;
use rustix::fs::statvfs;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) const DRIVES: &[(&str, Drive)] = &[
    ("given_archives", given::archives),
    ("given_links", given::links),
    ("given_names", names::given),
    ("host_storage", host_storage),
    ("inherited_descriptors", inherited_descriptors),
    ("refused_files", given::refused),
    ("saved_links", saved::links),
    ("saved_names", names::saved),
    ("saved_over_links", saved::over_links),
    ("saved_programs", saved::programs),
];

/// Whoever calls `sandboxd` has a directory, a file and a socket open, and did not say that they are its own.
fn inherited_descriptors(stage: &Stage) -> Result<(), String> {
    let directory = File::open("/").map_err(|e| e.to_string())?;
    let file = File::open("/etc/hosts").map_err(|e| e.to_string())?;
    let (socket, _other) = UnixStream::pair().map_err(|e| e.to_string())?;
    let numbers = [directory.as_raw_fd(), file.as_raw_fd(), socket.as_raw_fd()];
    let pass_on = |flags| {
        for fd in [directory.as_fd(), file.as_fd(), socket.as_fd()] {
            fcntl_setfd(fd, flags).map_err(|e| e.to_string())?;
        }
        Ok::<_, String>(())
    };
    pass_on(FdFlags::empty())?;
    let seen = Command::new("ls").arg("/proc/self/fd").output().map_err(|e| e.to_string());
    let outcome = stage.execute();
    pass_on(FdFlags::CLOEXEC)?;
    // Without this the program would find nothing because there is nothing.
    let listed = String::from_utf8_lossy(&seen?.stdout).into_owned();
    if let Some(number) = numbers.iter().find(|number| !listed.lines().any(|line| line == number.to_string()))
    {
        return Err(format!("descriptor {number} was not passed on: {listed:?}"));
    }
    stage.judge(&outcome)
}

/// Free bytes and free inodes of the disks and memory disks that a program could fill.
fn free() -> Vec<(&'static str, u64, u64)> {
    let places = ["/", "/tmp", "/var/tmp", "/dev/shm", "/run"];
    let asked = places
        .iter()
        .filter_map(|place| statvfs(*place).ok().map(|fs| (*place, fs.f_bavail * fs.f_frsize, fs.f_favail)));
    asked.collect()
}

/// Looks at the host's storage all the while. Others use it as well, so only what happens each time is ours.
fn host_storage(stage: &Stage) -> Result<(), String> {
    const LIMIT: (u64, u64) = (16 << 20, 2000);
    let mut taken = Vec::new();
    for _ in 0..3 {
        let before = free();
        let over = AtomicBool::new(false);
        let (outcome, least) = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut least = free();
                while !over.load(Ordering::Relaxed) {
                    for (least, now) in least.iter_mut().zip(free()) {
                        *least = (now.0, least.1.min(now.1), least.2.min(now.2));
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                least
            });
            let outcome = stage.execute();
            over.store(true, Ordering::Relaxed);
            (outcome, watcher.join().unwrap_or_default())
        });
        stage.judge(&outcome)?;
        let lost = before.iter().zip(least).map(|(before, least)| {
            (before.0, before.1.saturating_sub(least.1), before.2.saturating_sub(least.2))
        });
        taken = lost.filter(|(_, bytes, inodes)| *bytes > LIMIT.0 || *inodes > LIMIT.1).collect();
        if taken.is_empty() {
            return Ok(());
        }
    }
    Err(format!("the host lost more than the limit each time (place, bytes, inodes): {taken:?}"))
}
