//! What the facts mean: whether the native isolator can run here, and how well.
//!
//! This is the only place that judges a whole host: which layers a sandbox cannot do without, which it can,
//! and by which name their absence is announced.

use super::{Access, Host};
use serde::{Deserialize, Serialize};

/// Whether the native isolator can run here, and how well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// 1: every layer is there. 0: it works, but weaker. `None`: it refuses.
    pub grade: Option<u8>,
    /// What is weaker, by short names: `shared-uid`, `cgroup: none`, `landlock: none`.
    pub degraded: Vec<String>,
    /// What is missing and cannot be done without; empty unless it refuses.
    pub missing: Vec<String>,
}

impl Verdict {
    /// Whether the native isolator can run at all.
    pub fn can_run(&self) -> bool {
        self.missing.is_empty()
    }
}

impl Host {
    /// Whether the native isolator can run here, and how well.
    pub fn verdict(&self) -> Verdict {
        let mut missing = self.missing_layers();
        let mut degraded = Vec::new();
        if !matches!(self.cgroup.access, Access::Usable { .. }) {
            // Root could have had one; without it nothing would bound memory across many sandboxes.
            if self.identity.root {
                missing.push("cgroup".to_owned());
            } else {
                degraded.push("cgroup: none".to_owned());
            }
        }
        if !self.identity.root {
            degraded.insert(0, "shared-uid".to_owned());
        }
        if self.landlock.abi == 0 {
            degraded.push("landlock: none".to_owned());
        }
        let grade = missing.is_empty().then_some(u8::from(degraded.is_empty()));
        Verdict { grade, degraded, missing }
    }

    /// Mandatory layers that were tried and failed; those resting on a failed one only if nothing else.
    fn missing_layers(&self) -> Vec<String> {
        let inside = &self.namespaces;
        let mut layers =
            vec![("user namespace".to_owned(), &inside.user), ("id map".to_owned(), &inside.id_map)];
        layers.extend(inside.others().map(|(name, trial)| (format!("{name} namespace"), trial)));
        layers.extend(
            [
                ("tmpfs", &inside.tmpfs),
                ("new /proc", &inside.proc),
                ("overlay", &inside.overlay),
                ("move_mount", &inside.move_mount),
                ("no_new_privs", &self.seccomp.no_new_privs),
                ("seccomp", &self.seccomp.filter),
            ]
            .map(|(name, trial)| (name.to_owned(), trial)),
        );
        layers.extend(self.calls.all().map(|(name, trial)| (name.to_owned(), trial)));
        layers.retain(|(_, trial)| !trial.works());
        if layers.iter().any(|(_, trial)| **trial != super::Trial::NotTried) {
            layers.retain(|(_, trial)| **trial != super::Trial::NotTried);
        }
        layers.into_iter().map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;

    fn whole() -> Host {
        let mut host = host();
        let works = || Trial::Works;
        host.identity.root = true;
        host.namespaces = Namespaces {
            user: works(),
            id_map: works(),
            mount: works(),
            pid: works(),
            net: works(),
            ipc: works(),
            uts: works(),
            cgroup: works(),
            tmpfs: works(),
            overlay: works(),
            move_mount: works(),
            proc: works(),
        };
        host.seccomp.filter = works();
        host.seccomp.no_new_privs = works();
        host.landlock = Landlock { abi: 7, trial: works() };
        host.calls = Calls {
            clone3: works(),
            pidfd_open: works(),
            openat2: works(),
            close_range: works(),
            open_tree: works(),
            mount_setattr: works(),
        };
        host.cgroup.access = Access::Usable { version: 2, parents: vec![], kill: true };
        host
    }

    fn eperm() -> Trial {
        Trial::Refused { errno: libc::EPERM, reason: "Operation not permitted".into() }
    }

    #[test]
    fn everything_there_is_grade_one() {
        let verdict = whole().verdict();
        assert_eq!((verdict.grade, verdict.can_run()), (Some(1), true));
        assert!(verdict.degraded.is_empty());
    }

    #[test]
    fn an_ordinary_user_is_weaker_and_says_why() {
        let mut host = whole();
        host.identity.root = false;
        assert_eq!(host.verdict().degraded, ["shared-uid"]);
        host.cgroup.access = Access::Absent { controllers: vec![] };
        host.landlock.abi = 0;
        let verdict = host.verdict();
        assert_eq!(verdict.grade, Some(0));
        assert_eq!(verdict.degraded, ["shared-uid", "cgroup: none", "landlock: none"]);
    }

    #[test]
    fn root_without_cgroup_refuses() {
        let mut host = whole();
        host.cgroup.access = Access::Absent { controllers: vec![] };
        assert_eq!(host.verdict().grade, None);
        assert_eq!(host.verdict().missing, ["cgroup"]);
    }

    #[test]
    fn only_causes_are_named_not_what_rests_on_them() {
        let mut host = whole();
        host.namespaces.user = eperm();
        host.namespaces.overlay = Trial::NotTried;
        host.namespaces.proc = Trial::NotTried;
        assert_eq!(host.verdict().missing, ["user namespace"]);
    }

    #[test]
    fn each_mandatory_layer_alone_refuses() {
        type Break = fn(&mut Host);
        let breaks: [(Break, &str); 6] = [
            (|h| h.namespaces.net = eperm(), "net namespace"),
            (|h| h.namespaces.proc = eperm(), "new /proc"),
            (|h| h.namespaces.overlay = eperm(), "overlay"),
            (|h| h.namespaces.id_map = eperm(), "id map"),
            (|h| h.seccomp.filter = eperm(), "seccomp"),
            (|h| h.calls.clone3 = eperm(), "clone3"),
        ];
        for (break_it, name) in breaks {
            let mut host = whole();
            break_it(&mut host);
            let verdict = host.verdict();
            assert_eq!(verdict.missing, [name]);
            assert!(!verdict.can_run());
        }
    }
}
