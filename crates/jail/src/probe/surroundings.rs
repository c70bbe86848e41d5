//! What this process runs in and beside: settings of the kernel, security modules, a container, KVM.

use super::trial::Trial;
use super::{read, text};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Settings of the kernel that bear on sandboxes. `None`: this kernel does not have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sysctls {
    /// `user.max_user_namespaces`.
    pub max_user_namespaces: Option<u64>,
    /// `kernel.unprivileged_userns_clone`, of Debian.
    pub unprivileged_userns_clone: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, of Ubuntu.
    pub apparmor_restrict_unprivileged_userns: Option<u64>,
    /// `kernel.unprivileged_userns_apparmor_policy`.
    pub unprivileged_userns_apparmor_policy: Option<u64>,
    /// `kernel.yama.ptrace_scope`.
    pub yama_ptrace_scope: Option<u64>,
    /// `dev.tty.legacy_tiocsti`: 1 lets a program type into its terminal.
    pub legacy_tiocsti: Option<u64>,
}

/// What this process runs in and beside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// The kind of container this process is in, if there are signs of one.
    pub container: Option<String>,
    /// What covers parts of `/proc` here; the kernel then refuses a new one in a user namespace.
    pub proc_masks: Vec<PathBuf>,
    /// Security modules of the kernel, where readable.
    pub security_modules: Vec<String>,
    /// The security module with profiles for programs.
    pub apparmor: AppArmor,
    /// Opening `/dev/kvm`, for microVMs.
    pub kvm: Trial,
}

/// The security module with profiles for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppArmor {
    /// Whether it is on.
    pub enabled: bool,
    /// The profile over this process.
    pub profile: Option<String>,
}

pub(super) fn sysctls() -> Sysctls {
    Sysctls {
        max_user_namespaces: number("user/max_user_namespaces"),
        unprivileged_userns_clone: number("kernel/unprivileged_userns_clone"),
        apparmor_restrict_unprivileged_userns: number("kernel/apparmor_restrict_unprivileged_userns"),
        unprivileged_userns_apparmor_policy: number("kernel/unprivileged_userns_apparmor_policy"),
        yama_ptrace_scope: number("kernel/yama/ptrace_scope"),
        legacy_tiocsti: number("dev/tty/legacy_tiocsti"),
    }
}

fn number<T: FromStr>(name: &str) -> Option<T> {
    read(Path::new("/proc/sys").join(name))?.parse().ok()
}

pub(super) fn find() -> Surroundings {
    let mounts = text::mounts(&read("/proc/self/mountinfo").unwrap_or_default());
    let modules = read("/sys/kernel/security/lsm").unwrap_or_default();
    Surroundings {
        container: container(),
        proc_masks: mounts.into_iter().map(|m| m.point).filter(|p| covers_proc(p)).collect(),
        security_modules: text::list(&modules, ','),
        apparmor: apparmor(),
        kvm: Trial::of(rustix::fs::open(c"/dev/kvm", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())),
    }
}

/// `binfmt_misc` lies on an empty directory made for it and hides nothing.
fn covers_proc(point: &Path) -> bool {
    point != Path::new("/proc")
        && point.starts_with("/proc")
        && !point.starts_with("/proc/sys/fs/binfmt_misc")
}

/// A machine may carry the marks of the container image it was made from, so marks alone are not enough.
fn container() -> Option<String> {
    if at_home() {
        return None;
    }
    if Path::new("/.dockerenv").exists() {
        return Some("docker".to_owned());
    }
    if Path::new("/run/.containerenv").exists() {
        return Some("podman".to_owned());
    }
    let told = read("/run/systemd/container").filter(|kind| !kind.is_empty());
    told.or_else(|| text::container_hint(&read("/proc/1/cgroup")?).map(str::to_owned))
        .or_else(|| std::env::var_os("KUBERNETES_SERVICE_HOST").map(|_| "kubernetes".to_owned()))
}

/// Whether this process sees the pids, host name and ipc of the machine itself. The kernel gives the first
/// namespaces fixed numbers.
fn at_home() -> bool {
    let first = ["pid:[4026531836]", "uts:[4026531838]", "ipc:[4026531839]"];
    first.iter().all(|name| {
        let link = name.split(':').next().map(|kind| Path::new("/proc/self/ns").join(kind));
        link.and_then(|link| std::fs::read_link(link).ok()).is_some_and(|target| target == Path::new(name))
    })
}

fn apparmor() -> AppArmor {
    let enabled = read("/sys/module/apparmor/parameters/enabled").as_deref() == Some("Y");
    let profile = read("/proc/self/attr/apparmor/current").filter(|profile| !profile.is_empty());
    AppArmor { enabled, profile: profile.filter(|_| enabled) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_covers_proc() {
        assert!(covers_proc(Path::new("/proc/kcore")));
        assert!(covers_proc(Path::new("/proc/sys")));
        assert!(!covers_proc(Path::new("/proc")));
        assert!(!covers_proc(Path::new("/process")));
        assert!(!covers_proc(Path::new("/proc/sys/fs/binfmt_misc")));
    }
}
