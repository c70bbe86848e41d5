//! Ways to run crun, which refuses hosts that have controllers in both kinds of cgroup hierarchies.
//!
//! Its own switch for doing without cgroups does not help there: it looks before it reads it. So it gets a view of the
//! host without the unified hierarchy.

use super::{Candidate, Container};
use std::io::Read;
use std::process::{Child, Command, Stdio};

/// A mount namespace without the unified hierarchy, kept by a process in it.
pub(super) struct View {
    keeper: Child,
}

impl View {
    /// `None` where there is nothing to hide, or we may not.
    pub(super) fn new() -> Option<View> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounted = |kind: &str| {
            let line = mounts.lines().find(|line| line.contains(&format!(" - {kind} ")));
            line.and_then(|line| line.split(' ').nth(4)).map(str::to_owned)
        };
        let (unified, _) = (mounted("cgroup2")?, mounted("cgroup")?);
        let mut keeper = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c"])
            .args(["umount \"$0\" && echo && exec cat", &unified])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut word = [0];
        let stands = keeper.stdout.as_mut().is_some_and(|from| from.read_exact(&mut word).is_ok());
        let view = View { keeper };
        stands.then_some(view)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // It reads until then.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// As it is, and else without cgroups, in that view of the host if there is one.
pub(super) fn ways(words: Vec<String>, view: Option<&View>) -> Vec<Container> {
    let entering =
        view.map(|view| vec!["nsenter".to_owned(), format!("--mount=/proc/{}/ns/mnt", view.keeper.id())]);
    let without =
        entering.into_iter().flatten().chain(words.clone()).chain(["--cgroup-manager=disabled".into()]);
    vec![
        Container { title: Candidate::Crun.title(), words },
        Container { title: "crun run, no cgroup", words: without.collect() },
    ]
}
