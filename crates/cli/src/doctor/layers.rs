//! The layers of a native sandbox, one row each.

use super::{Part, Row, State, fixes};
use jail::probe::{Access, Host, Layout, Trial};

pub(super) fn rows(host: &Host) -> Vec<Row> {
    vec![
        user_namespace(host),
        own_uid(host),
        namespaces(host),
        proc(host),
        overlay(host),
        seccomp(host),
        landlock(host),
        cgroup(host),
        kernel_calls(host),
    ]
}

fn row(
    name: &'static str,
    state: State,
    found: impl Into<String>,
    consequence: &str,
    fix: Option<String>,
) -> Row {
    let consequence = consequence.to_owned();
    Row { part: Part::Native, name, state, found: found.into(), consequence, fix }
}

/// A layer no sandbox goes without.
fn mandatory(name: &'static str, trial: &Trial, found: &str, gain: &str, fix: Option<String>) -> Row {
    match trial {
        Trial::Works => row(name, State::Ok, found, gain, None),
        Trial::NotTried => row(name, State::Missing, "not tried", "rests on what is missing above", None),
        refused => row(name, State::Missing, refused.to_string(), REFUSES, fix),
    }
}

const REFUSES: &str = "native sandboxes refuse to start";

fn user_namespace(host: &Host) -> Row {
    mandatory(
        "user namespace",
        &host.namespaces.user,
        "made one",
        "root inside a sandbox is nobody outside",
        fixes::user_namespace(host),
    )
}

fn own_uid(host: &Host) -> Row {
    let name = "own uid";
    if !host.namespaces.id_map.works() {
        return mandatory(name, &host.namespaces.id_map, "", "", fixes::id_map(host));
    }
    if host.identity.root {
        return row(
            name,
            State::Ok,
            "mapped one of the reserved ids",
            "every sandbox has a host uid of its own",
            None,
        );
    }
    row(
        name,
        State::Weaker,
        format!("not root, only uid {} can be mapped", host.identity.uid),
        "`shared-uid`: all sandboxes run as your uid",
        fixes::own_uid(),
    )
}

fn namespaces(host: &Host) -> Row {
    let broken: Vec<_> = host.namespaces.others().into_iter().filter(|(_, t)| !t.works()).collect();
    let mounting = [("tmpfs", &host.namespaces.tmpfs), ("move_mount", &host.namespaces.move_mount)];
    let broken = if broken.is_empty() {
        mounting.into_iter().filter(|(_, trial)| !trial.works()).collect()
    } else {
        broken
    };
    let name = "namespaces";
    // One that was tried says more than those that were not reached.
    match broken.iter().find(|(_, t)| **t != Trial::NotTried).or(broken.first()) {
        None => row(
            name,
            State::Ok,
            "mount, pid, net, ipc, uts, cgroup",
            "a sandbox sees no file, process or network of the host",
            None,
        ),
        Some((_, Trial::NotTried)) => mandatory(name, &Trial::NotTried, "", "", None),
        Some((which, trial)) => {
            row(name, State::Missing, format!("`{which}`: {trial}"), REFUSES, fixes::namespaces(host))
        }
    }
}

fn proc(host: &Host) -> Row {
    let gain = "a sandbox sees only its own processes";
    let mut row = mandatory("new /proc", &host.namespaces.proc, "mounted one", gain, fixes::proc(host));
    if let ([first, more @ ..], Some(_)) = (&host.surroundings.proc_masks[..], host.namespaces.proc.errno()) {
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        row.found += &format!("; something covers `{}`{more}", first.display());
    }
    row
}

fn overlay(host: &Host) -> Row {
    mandatory(
        "overlay",
        &host.namespaces.overlay,
        "mounted one over `/usr`",
        "no lock or watch on a shared file links two sandboxes",
        fixes::overlay(host),
    )
}

fn seccomp(host: &Host) -> Row {
    let both = [&host.seccomp.no_new_privs, &host.seccomp.filter];
    let worst = both.into_iter().find(|trial| !trial.works()).unwrap_or(&Trial::Works);
    mandatory(
        "seccomp",
        worst,
        "installed a filter, `no_new_privs` set",
        "only system calls on the list reach the kernel",
        fixes::seccomp(host),
    )
}

fn landlock(host: &Host) -> Row {
    let name = "landlock";
    if host.landlock.abi == 0 {
        let lost = "`landlock: none`: one wall less around files";
        return row(name, State::Weaker, host.landlock.trial.to_string(), lost, Some(fixes::landlock(host)));
    }
    let gain = match host.landlock.abi {
        1..6 => "second wall around files",
        _ => "second wall around files, signals and abstract sockets",
    };
    row(name, State::Ok, format!("version {}", host.landlock.abi), gain, None)
}

fn cgroup(host: &Host) -> Row {
    let name = "cgroup";
    let found = match &host.cgroup.access {
        Access::Usable { version, parents, .. } => {
            let place = parents.first().map(|p| p.display().to_string()).unwrap_or_default();
            let more = match parents.len() {
                0 | 1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            let found = format!("v{version}, below `{place}`{more}");
            let gain = "memory, processes and CPU are limited by the kernel";
            return row(name, State::Ok, found, gain, None);
        }
        Access::Absent { .. } if host.cgroup.layout == Layout::None => "none is mounted".to_owned(),
        Access::Absent { controllers } => format!("no controller {}", quoted(controllers)),
        Access::Lacks { parent, controllers } => {
            format!("`{}` hands on no {}", parent.display(), quoted(controllers))
        }
        Access::Occupied { parent } => format!("processes sit in `{}` itself", parent.display()),
        Access::Refused { parent, errno, reason } => {
            format!("`{}`: {reason} (errno {errno})", parent.display())
        }
    };
    if host.identity.root {
        return row(name, State::Missing, found, REFUSES, Some(fixes::cgroup(host)));
    }
    let lost = "`cgroup: none`: memory is limited by sampling instead of the kernel";
    row(name, State::Weaker, found, lost, Some(fixes::cgroup(host)))
}

fn kernel_calls(host: &Host) -> Row {
    let broken: Vec<_> = host.calls.all().into_iter().filter(|(_, trial)| !trial.works()).collect();
    let name = "kernel calls";
    if broken.is_empty() {
        return row(
            name,
            State::Ok,
            "all present",
            "a sandbox inherits nothing and starts without a race",
            None,
        );
    }
    let found: Vec<_> = broken.iter().map(|(name, trial)| format!("`{name}`: {trial}")).collect();
    row(name, State::Missing, found.join(", "), REFUSES, Some(fixes::kernel_calls(host)))
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
