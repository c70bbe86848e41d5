//! What to do about a layer that is weaker or missing: one line with the exact command.
//!
//! Which command is right depends on why the kernel refused, and that is told apart by error number,
//! settings and whether this is a container.

use jail::probe::{Access, Hierarchy, Host, Layout, Trial};

// Linux error numbers are the same on every architecture we build for.
const EPERM: i32 = 1;
const ESRCH: i32 = 3;
const ENODEV: i32 = 19;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EUSERS: i32 = 87;
const EOPNOTSUPP: i32 = 95;

pub(super) fn user_namespace(host: &Host) -> Option<String> {
    let errno = host.namespaces.user.errno();
    if host.sysctls.max_user_namespaces == Some(0) || matches!(errno, Some(ENOSPC | EUSERS)) {
        return Some(format!("allow more of them: `{}sysctl user.max_user_namespaces=15000`", sudo(host)));
    }
    if !host.identity.root && host.sysctls.unprivileged_userns_clone == Some(0) {
        return Some("allow them to users: `sudo sysctl kernel.unprivileged_userns_clone=1`".to_owned());
    }
    if let Some(fix) = apparmor(host) {
        return Some(fix);
    }
    match (&host.namespaces.user, errno) {
        (Trial::Killed { .. }, _) => Some(container(host)),
        (_, Some(EPERM)) if filtered(host) => Some(container(host)),
        (_, Some(EPERM)) => Some("leave the chroot if this is one: the kernel refuses them there".to_owned()),
        _ => Some("boot a kernel built with `CONFIG_USER_NS=y`".to_owned()),
    }
}

pub(super) fn own_uid() -> Option<String> {
    Some("run as root to give every sandbox a uid of its own: `sudo sandboxd …`".to_owned())
}

pub(super) fn id_map(host: &Host) -> Option<String> {
    if host.namespaces.id_map.errno() == Some(ESRCH) {
        return Some("mount the `/proc` of this pid namespace: `mount -t proc proc /proc`".to_owned());
    }
    let has = |name: &str| host.identity.capabilities.iter().any(|c| c == name);
    if host.identity.root && !(has("SETUID") && has("SETGID")) {
        return Some(
            "give root back two capabilities: `docker run --cap-add SETUID --cap-add SETGID …`".to_owned(),
        );
    }
    if host.identity.root {
        return Some(
            "run `sandboxd` outside this user namespace, or in it as a user other than root".to_owned(),
        );
    }
    apparmor(host).or_else(|| filtered(host).then(|| container(host)))
}

pub(super) fn namespaces(host: &Host) -> Option<String> {
    apparmor(host).or_else(|| filtered(host).then(|| container(host)))
}

pub(super) fn proc(host: &Host) -> Option<String> {
    let masks = &host.surroundings.proc_masks;
    if masks.is_empty() {
        return namespaces(host);
    }
    if host.surroundings.container.is_some() {
        return Some(container(host));
    }
    let masks: Vec<_> = masks.iter().map(|path| path.display().to_string()).collect();
    Some(format!("uncover `/proc`: `{}umount {}`", sudo(host), masks.join(" ")))
}

pub(super) fn overlay(host: &Host) -> Option<String> {
    Some(match host.namespaces.overlay.errno() {
        Some(ENODEV) => format!("load it: `{}modprobe overlay`", sudo(host)),
        _ if older_than(&host.kernel.release, (5, 11)) => "boot Linux 5.11 or newer".to_owned(),
        _ => return namespaces(host),
    })
}

pub(super) fn seccomp(host: &Host) -> Option<String> {
    Some(if filtered(host) {
        container(host)
    } else {
        "boot a kernel built with `CONFIG_SECCOMP_FILTER=y`".to_owned()
    })
}

pub(super) fn landlock(host: &Host) -> String {
    match host.landlock.trial.errno() {
        Some(EOPNOTSUPP) => {
            let mut modules = vec!["landlock".to_owned()];
            modules.extend(host.surroundings.security_modules.iter().cloned());
            if modules.len() == 1 {
                modules.push("…".to_owned());
            }
            format!("put `lsm={}` on the kernel command line", modules.join(","))
        }
        Some(EPERM) if filtered(host) => container(host),
        _ => "boot Linux 5.13 or newer, built with `CONFIG_SECURITY_LANDLOCK=y`".to_owned(),
    }
}

pub(super) fn cgroup(host: &Host) -> String {
    let delegable = host.cgroup.hierarchies.iter().any(|h| h.version == 2 && bears(h, "memory"));
    match &host.cgroup.access {
        Access::Absent { controllers } if host.cgroup.layout != Layout::None => {
            let memory = controllers.iter().any(|c| c == "memory");
            let option = if memory { "cgroup_enable=memory" } else { "cgroup_no_v1=all" };
            format!("put `{option}` on the kernel command line")
        }
        Access::Occupied { parent } => {
            let parent = parent.display();
            format!(
                "move them one level down: `mkdir {parent}/init && xargs -rn1 < {parent}/cgroup.procs \
                 > {parent}/init/cgroup.procs`"
            )
        }
        _ if host.surroundings.container.is_some() && host.identity.root => {
            "start the container with writable cgroups: \
             `docker run --cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw …`"
                .to_owned()
        }
        Access::Absent { .. } => format!("mount one: `{}mount -t cgroup2 none /sys/fs/cgroup`", sudo(host)),
        Access::Lacks { .. } if !host.identity.root => "let systemd hand on all three, then log in again: \
             `sudo mkdir -p /etc/systemd/system/user@.service.d && \
             printf '[Service]\\nDelegate=cpu memory pids\\n' | \
             sudo tee /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload`"
            .to_owned(),
        Access::Refused { parent, errno: EROFS, .. } if host.identity.root => {
            format!("make it writable: `mount -o remount,bind,rw {}`", parent.display())
        }
        _ if host.identity.root => "run `sandboxd` outside this user namespace".to_owned(),
        _ if delegable => {
            "have a cgroup delegated: `systemd-run --user --scope -p Delegate=yes sandboxd run …`".to_owned()
        }
        _ => "run as root, cgroup v1 cannot be delegated: `sudo sandboxd …`".to_owned(),
    }
}

fn bears(hierarchy: &Hierarchy, controller: &str) -> bool {
    hierarchy.controllers.iter().any(|name| name == controller)
}

pub(super) fn kernel_calls(host: &Host) -> String {
    if filtered(host) && !older_than(&host.kernel.release, (5, 12)) {
        return container(host);
    }
    "boot Linux 5.12 or newer".to_owned()
}

/// Ubuntu 23.10 and later let any program make a user namespace, but without rights inside.
fn apparmor(host: &Host) -> Option<String> {
    if host.identity.root || host.sysctls.apparmor_restrict_unprivileged_userns != Some(1) {
        return None;
    }
    let program = std::env::current_exe().ok()?;
    let program = program.display();
    Some(format!(
        "let `sandboxd` have user namespaces: `printf 'abi <abi/4.0>,\\nprofile sandboxd {program} \
         flags=(unconfined) {{ userns, }}\\n' | sudo tee /etc/apparmor.d/sandboxd && sudo apparmor_parser -r \
         /etc/apparmor.d/sandboxd`, or every program: \
         `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    ))
}

/// Whether a container's system call filter may be what refused.
fn filtered(host: &Host) -> bool {
    host.surroundings.container.is_some() || host.seccomp.inherited_filters > 0
}

fn container(host: &Host) -> String {
    match host.surroundings.container.as_deref() {
        Some("kubernetes") => "give the pod `securityContext: {procMount: Unmasked, seccompProfile: \
                               {type: Unconfined}}` and `hostUsers: false`"
            .to_owned(),
        Some("podman") => "start the container with \
                           `podman run --security-opt seccomp=unconfined --security-opt unmask=ALL …`"
            .to_owned(),
        Some(_) => "start the container with \
              `docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …`"
            .to_owned(),
        None => "loosen the system call filter over this process: under Docker by \
                 `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`, in a systemd unit \
                 without `SystemCallFilter=` and `RestrictNamespaces=`"
            .to_owned(),
    }
}

pub(super) fn sudo(host: &Host) -> &'static str {
    if host.identity.root { "" } else { "sudo " }
}

fn older_than(release: &str, wanted: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jail::probe::Cgroup;

    fn refused(errno: i32) -> Trial {
        Trial::Refused { errno, reason: "refused".into() }
    }

    /// A bare machine seen by an ordinary user, with no setting in the way.
    fn user() -> Host {
        let mut host = jail::probe::host();
        host.identity.root = false;
        host.surroundings.container = None;
        host.surroundings.proc_masks.clear();
        host.seccomp.inherited_filters = 0;
        host.sysctls.max_user_namespaces = Some(1000);
        host.sysctls.unprivileged_userns_clone = None;
        host.sysctls.apparmor_restrict_unprivileged_userns = None;
        host.namespaces.user = refused(EPERM);
        host
    }

    #[test]
    fn settings_that_forbid_user_namespaces_are_told_apart() {
        let mut host = user();
        host.sysctls.apparmor_restrict_unprivileged_userns = Some(1);
        let fix = user_namespace(&host).unwrap();
        assert!(fix.contains("sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"), "{fix}");
        assert!(fix.contains("{ userns, }"), "{fix}");
        host.sysctls.unprivileged_userns_clone = Some(0);
        assert!(user_namespace(&host).unwrap().contains("sysctl kernel.unprivileged_userns_clone=1"));
        host.sysctls.max_user_namespaces = Some(0);
        assert!(user_namespace(&host).unwrap().contains("sudo sysctl user.max_user_namespaces=15000"));
    }

    #[test]
    fn a_container_is_told_its_own_options() {
        let mut host = user();
        for (kind, option) in [
            ("docker", "--security-opt systempaths=unconfined"),
            ("podman", "--security-opt unmask=ALL"),
            ("kubernetes", "procMount: Unmasked"),
        ] {
            host.surroundings.container = Some(kind.into());
            assert!(user_namespace(&host).unwrap().contains(option));
            host.surroundings.proc_masks = vec!["/proc/kcore".into()];
            assert!(proc(&host).unwrap().contains(option));
        }
    }

    #[test]
    fn only_the_unified_hierarchy_is_delegated() {
        let mut host = user();
        let refused = Access::Refused { parent: "/sys/fs/cgroup".into(), errno: 13, reason: "no".into() };
        let hierarchy = |version| Hierarchy {
            version,
            mount: "/sys/fs/cgroup".into(),
            read_only: false,
            own: "/sys/fs/cgroup".into(),
            controllers: vec!["memory".into()],
        };
        host.cgroup = Cgroup { layout: Layout::V2, hierarchies: vec![hierarchy(2)], access: refused };
        assert!(cgroup(&host).contains("systemd-run --user --scope -p Delegate=yes sandboxd run"));
        host.cgroup.hierarchies = vec![hierarchy(1)];
        assert!(cgroup(&host).contains("sudo sandboxd"));
    }

    #[test]
    fn landlock_keeps_the_other_modules() {
        let mut host = user();
        host.landlock.trial = refused(EOPNOTSUPP);
        host.surroundings.security_modules = vec!["lockdown".into(), "yama".into()];
        assert!(landlock(&host).contains("`lsm=landlock,lockdown,yama`"));
    }

    #[test]
    fn compares_kernel_releases() {
        assert!(older_than("5.10.0-8-amd64", (5, 11)));
        assert!(older_than("4.19", (5, 11)));
        assert!(!older_than("5.11.0", (5, 11)));
        assert!(!older_than("6.1.0-54-cloud-amd64", (5, 12)));
        assert!(!older_than("nonsense", (5, 12)));
    }
}
