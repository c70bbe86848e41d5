//! Climbs, in a child that then ends, the rungs every sandbox has to climb: a user namespace with mapped
//! ids, the other namespaces, mounts inside them, and a system call filter.
//!
//! The order and the ids are those of the jail itself, so what works here works there. Nothing mounted
//! here is seen outside the child's own mount namespace, and all of it ends with the child.

use super::trial::{ANSWERS, Reporter, Trial, fork, in_child};
use crate::sys::exit_now;
use rustix::fs::{CWD, Mode, mkdir};
use rustix::io::{Errno, retry_on_intr};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount,
    open_tree,
};
use rustix::process::{Gid, Pid, Uid, WaitOptions, chdir, waitpid};
use rustix::thread::{
    UnshareFlags, set_no_new_privs, set_thread_res_gid, set_thread_res_uid, unshare_unsafe,
};
use serde::{Deserialize, Serialize};

/// Namespaces and what can be mounted inside them, each really tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// A user namespace.
    pub user: Trial,
    /// Mapping ids into it: those reserved for sandboxes when root, the own ones otherwise.
    pub id_map: Trial,
    /// A mount namespace, cut off from the host's.
    pub mount: Trial,
    /// A pid namespace.
    pub pid: Trial,
    /// A network namespace.
    pub net: Trial,
    /// An ipc namespace.
    pub ipc: Trial,
    /// A host name namespace.
    pub uts: Trial,
    /// A cgroup namespace.
    pub cgroup: Trial,
    /// Mounting a tmpfs inside.
    pub tmpfs: Trial,
    /// Mounting a read-only overlay over `/usr` and a second directory inside.
    pub overlay: Trial,
    /// Copying and placing a mount by `open_tree` and `move_mount` inside.
    pub move_mount: Trial,
    /// Mounting a new `/proc` inside.
    pub proc: Trial,
}

impl Namespaces {
    /// The namespaces besides the user namespace, by name.
    pub fn others(&self) -> [(&'static str, &Trial); 6] {
        [
            ("mount", &self.mount),
            ("pid", &self.pid),
            ("net", &self.net),
            ("ipc", &self.ipc),
            ("uts", &self.uts),
            ("cgroup", &self.cgroup),
        ]
    }
}

/// What a process can do to itself without any namespace.
pub(super) struct Confinement {
    pub(super) no_new_privs: Trial,
    pub(super) filter: Trial,
}

// Questions in the order they are asked; a death is blamed on the one after the last answer.
const USER: usize = 0;
const ID_MAP: usize = 1;
const MOUNT: usize = 2;
const NET: usize = 3;
const IPC: usize = 4;
const UTS: usize = 5;
const CGROUP: usize = 6;
const TMPFS: usize = 7;
const OVERLAY: usize = 8;
const MOVE_MOUNT: usize = 9;
const PID: usize = 10;
const PROC: usize = 11;
const NO_NEW_PRIVS: usize = 12;
const FILTER: usize = 13;

pub(super) fn climb() -> (Namespaces, Confinement) {
    // SAFETY: `rungs` makes system calls only; its strings are constants.
    let found = unsafe { in_child(rungs, write_maps) };
    let mut found = found.unwrap_or_else(|errno| {
        let mut none = [const { Trial::NotTried }; ANSWERS];
        none[USER] = Trial::of::<()>(Err(errno));
        none
    });
    let mut take = |index: usize| std::mem::replace(&mut found[index], Trial::NotTried);
    let namespaces = Namespaces {
        user: take(USER),
        id_map: take(ID_MAP),
        mount: take(MOUNT),
        pid: take(PID),
        net: take(NET),
        ipc: take(IPC),
        uts: take(UTS),
        cgroup: take(CGROUP),
        tmpfs: take(TMPFS),
        overlay: take(OVERLAY),
        move_mount: take(MOVE_MOUNT),
        proc: take(PROC),
    };
    (namespaces, Confinement { no_new_privs: take(NO_NEW_PRIVS), filter: take(FILTER) })
}

/// Maps the child's root to what a sandbox gets: an id of the reserved range, or without root our own.
fn write_maps(pid: Pid) -> Result<(), Errno> {
    // A `/proc` of another pid namespace would lead to somebody else's process.
    let proc = std::fs::read_link("/proc/self").unwrap_or_default();
    if proc.to_str() != Some(std::process::id().to_string().as_str()) {
        return Err(Errno::SRCH);
    }
    let (uid, gid) = if rustix::process::geteuid().is_root() {
        (crate::identity::FIRST_UID, crate::identity::FIRST_UID)
    } else {
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    };
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/{}/{file}", pid.as_raw_nonzero()), text)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    write("setgroups", "deny".to_owned())?;
    write("gid_map", format!("0 {gid} 1\n"))?;
    write("uid_map", format!("0 {uid} 1\n"))
}

fn rungs(report: &Reporter<'_>) {
    if report.say(USER, unshare(UnshareFlags::NEWUSER))
        && report.wait_at_gate()
        && report.say(ID_MAP, take_ids())
    {
        inside(report);
    }
    if report.say(NO_NEW_PRIVS, set_no_new_privs(true)) {
        report.say(FILTER, allow_all());
    }
}

fn inside(report: &Reporter<'_>) {
    let mounts = report.say(MOUNT, unshare(UnshareFlags::NEWNS).and_then(|()| cut_off()));
    report.say(NET, unshare(UnshareFlags::NEWNET));
    report.say(IPC, unshare(UnshareFlags::NEWIPC));
    report.say(UTS, unshare(UnshareFlags::NEWUTS));
    report.say(CGROUP, unshare(UnshareFlags::NEWCGROUP));
    let ground = mounts && report.say(TMPFS, ground());
    if ground {
        report.say(OVERLAY, overlay());
        report.say(MOVE_MOUNT, copy_tree());
    }
    if report.say(PID, unshare(UnshareFlags::NEWPID)) && ground {
        proc_in_grandchild(report);
    }
}

fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: no flag used here is one that breaks Rust's view of descriptors or memory (`FILES`, `VM`);
    // namespaces of this short-lived child touch nothing that safe code relies on.
    unsafe { unshare_unsafe(flags) }
}

fn take_ids() -> Result<(), Errno> {
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)
}

fn cut_off() -> Result<(), Errno> {
    mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

/// An empty file system to stand on, where the jail has its own.
fn ground() -> Result<(), Errno> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount(c"tmpfs", c"/tmp", c"tmpfs", flags, c"size=64k,mode=755")?;
    chdir(c"/tmp")?;
    for name in [c"lower", c"merged", c"tree", c"proc"] {
        mkdir(name, Mode::from_raw_mode(0o755))?;
    }
    Ok(())
}

fn overlay() -> Result<(), Errno> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount(c"overlay", c"merged", c"overlay", flags, c"lowerdir=lower:/usr,userxattr")
}

fn copy_tree() -> Result<(), Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, c"lower", flags)?;
    move_mount(tree, c"", CWD, c"tree", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Only a process inside the new pid namespace may mount its `/proc`.
fn proc_in_grandchild(report: &Reporter<'_>) {
    // SAFETY: the child makes two system calls and exits.
    match unsafe { fork() } {
        Ok(None) => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            report.say(PROC, mount(c"proc", c"proc", c"proc", flags, c"hidepid=4"));
            exit_now(0);
        }
        Ok(Some(pid)) => {
            let ended = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
            if let Ok(Some((_, status))) = ended
                && let Some(signal) = status.terminating_signal()
            {
                report.say_killed(PROC, signal);
            }
        }
        Err(errno) => {
            report.say(PROC, Err(errno));
        }
    }
}

/// Installs a filter that allows everything.
fn allow_all() -> Result<(), Errno> {
    let mut allow = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    };
    let program = libc::sock_fprog { len: 1, filter: &raw mut allow };
    // SAFETY: `program` describes one instruction that outlives the call; the kernel copies it.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    super::calls::checked(result).map(drop)
}
