//! Who this process is and what that permits.

use super::{read, text};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Who this process is and what that permits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Effective uid.
    pub uid: u32,
    /// Effective gid.
    pub gid: u32,
    /// Name of the uid in `/etc/passwd`.
    pub user: Option<String>,
    /// Whether the uid is 0.
    pub root: bool,
    /// Effective capabilities that making sandboxes can need, by their short names.
    pub capabilities: Vec<String>,
    /// All effective capabilities, as `/proc/self/status` shows them.
    pub capability_mask: String,
    /// Further uids, as `(first, count)`, that `newuidmap` would map for this user.
    pub sub_uids: Vec<(u32, u32)>,
    /// Further gids, as `(first, count)`, that `newgidmap` would map for this user.
    pub sub_gids: Vec<(u32, u32)>,
    /// The program that maps further uids for ordinary users.
    pub newuidmap: Option<PathBuf>,
}

/// Capabilities that making sandboxes can need, by number.
const CAPABILITIES: [(u32, &str); 12] = [
    (0, "CHOWN"),
    (1, "DAC_OVERRIDE"),
    (5, "KILL"),
    (6, "SETGID"),
    (7, "SETUID"),
    (8, "SETPCAP"),
    (12, "NET_ADMIN"),
    (18, "SYS_CHROOT"),
    (19, "SYS_PTRACE"),
    (21, "SYS_ADMIN"),
    (24, "SYS_RESOURCE"),
    (31, "SETFCAP"),
];

pub(super) fn find() -> Identity {
    let uid = rustix::process::geteuid().as_raw();
    let passwd = read("/etc/passwd").unwrap_or_default();
    let user = text::user_name(&passwd, uid);
    let sub_ids = |file| text::sub_ids(&read(file).unwrap_or_default(), user, uid);
    let status = read("/proc/self/status").unwrap_or_default();
    let mask = text::status_field(&status, "CapEff").unwrap_or("0");
    Identity {
        uid,
        gid: rustix::process::getegid().as_raw(),
        root: uid == 0,
        capabilities: names(mask),
        capability_mask: mask.to_owned(),
        sub_uids: sub_ids("/etc/subuid"),
        sub_gids: sub_ids("/etc/subgid"),
        newuidmap: on_path("newuidmap"),
        user: user.map(str::to_owned),
    }
}

fn names(mask: &str) -> Vec<String> {
    let mask = u64::from_str_radix(mask, 16).unwrap_or(0);
    CAPABILITIES.iter().filter(|(bit, _)| mask >> bit & 1 == 1).map(|(_, name)| (*name).to_owned()).collect()
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_capabilities() {
        assert_eq!(names("0000000000200080"), ["SETUID", "SYS_ADMIN"]);
        assert!(names("0000000000000000").is_empty());
        assert!(names("nonsense").is_empty());
    }
}
