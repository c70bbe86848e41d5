//! Who a box is on the outside.
//!
//! A spawner running as root gives each box two uids of its own from a reserved range, so no two boxes,
//! and no box and the host, ever share one. A slot of that range is a byte of one lock file: the kernel
//! frees it when the spawner ends, however it ends. A spawner without root can map only its own uid.

use crate::error::{At, JailError, Step};
use crate::mutant::{Mutant, lacks};
use crate::sys;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::{Pid, geteuid};
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// First outside uid of the reserved range; above what distributions give to people and containers.
pub const FIRST_UID: u32 = 2_010_000_000;
/// How many boxes may live at once.
pub const SLOTS: u32 = 100_000;
/// Inside uid of user code.
pub const USER: u32 = 1000;

const LOCKS: &str = "/run/sandboxd";

/// The outside ids of a box, reserved until dropped.
#[derive(Debug)]
pub enum Identity {
    /// `FIRST_UID + 2 * slot` for PID 1 and the next for user code.
    Own {
        /// Index in the reserved range.
        slot: u32,
        /// Holds the lock.
        locks: File,
    },
    /// Everything runs as this uid of the spawner.
    Shared {
        /// The spawner's uid.
        uid: u32,
        /// The spawner's gid.
        gid: u32,
    },
}

impl Identity {
    /// Reserves ids for a new box.
    pub fn reserve() -> Result<Identity, JailError> {
        let uid = geteuid();
        if uid.is_root() {
            return reserve_slot(Path::new(LOCKS));
        }
        Ok(Identity::Shared { uid: uid.as_raw(), gid: rustix::process::getegid().as_raw() })
    }

    /// Whether PID 1 and user code have different uids.
    pub fn two_ids(&self) -> bool {
        matches!(self, Identity::Own { .. })
    }

    /// What holds the lock on them, if they are locked.
    pub fn lock(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Identity::Own { locks, .. } => Some(locks.as_fd()),
            Identity::Shared { .. } => None,
        }
    }

    /// Outside uid of user code.
    pub fn host_uid(&self) -> u32 {
        match self {
            Identity::Own { slot, .. } => FIRST_UID + 2 * slot + 1,
            Identity::Shared { uid, .. } => *uid,
        }
    }

    /// Writes the id maps of `pid`, which has just made its user namespace and waits.
    pub fn write_maps(&self, pid: Pid) -> Result<(), JailError> {
        if lacks(Mutant::UserNamespace) {
            return Ok(());
        }
        let (uids, gids) = match self {
            Identity::Own { slot, .. } => {
                let init = FIRST_UID + 2 * slot;
                let map = format!("0 {init} 1\n{USER} {} 1\n", init + 1);
                (map.clone(), map)
            }
            Identity::Shared { uid, gid } => (format!("{USER} {uid} 1\n"), format!("{USER} {gid} 1\n")),
        };
        write(pid, "setgroups", "deny")?;
        write(pid, "gid_map", &gids)?;
        write(pid, "uid_map", &uids)
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        if let Identity::Own { slot, locks } = self {
            // Closing the last description would free it as well; a failure costs one slot of many.
            let _ = sys::unlock_byte(locks.as_fd(), i64::from(*slot));
        }
    }
}

fn write(pid: Pid, file: &str, text: &str) -> Result<(), JailError> {
    let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
    std::fs::write(&path, text).at(Step::IdMaps, file)
}

fn reserve_slot(dir: &Path) -> Result<Identity, JailError> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(e).at(Step::Identity, dir.display().to_string());
        }
        _ => {}
    }
    let locks = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(dir.join("uids"))
        .at(Step::Identity, "lock file")?;
    // Starting at a place that differs between spawners, the first try nearly always succeeds, and a uid
    // that was just freed rests for a while.
    let mut start = [0u8; 4];
    rustix::rand::getrandom(&mut start[..], rustix::rand::GetRandomFlags::empty())
        .at(Step::Identity, "random start")?;
    let start = u32::from_ne_bytes(start) % SLOTS;
    if lacks(Mutant::UniqueUid) {
        return Ok(Identity::Own { slot: 0, locks });
    }
    for step in 0..SLOTS {
        let slot = (start + step) % SLOTS;
        if sys::lock_byte(locks.as_fd(), i64::from(slot)).at(Step::Identity, "lock")? {
            return Ok(Identity::Own { slot, locks });
        }
    }
    Err(JailError::new(Step::Identity, "every id of the reserved range is taken", rustix::io::Errno::BUSY))
}
