//! Layers that a test build can leave out, one at a time, to prove that the attack suite notices.
//!
//! Only a build with debug assertions and the feature `mutants` has them. In every other build [`lacks`] is the
//! constant `false`, and the compiler removes what depends on it.

#[cfg(all(feature = "mutants", not(debug_assertions)))]
compile_error!("mutants are for test builds and must never be released");

macro_rules! mutants {
    ($($name:ident $text:literal,)*) => {
        /// A layer, or a part of one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $(#[doc = $text] $name,)*
        }

        #[cfg(feature = "mutants")]
        const ALL: &[(Mutant, &str)] = &[$((Mutant::$name, $text),)*];
    };
}

mutants! {
    Seccomp "seccomp",
    Architecture "architecture",
    Landlock "landlock",
    Capabilities "capabilities",
    UserNamespace "user-namespace",
    UniqueUid "unique-uid",
    NetworkNamespace "network-namespace",
    IpcNamespace "ipc-namespace",
    UtsNamespace "uts-namespace",
    CgroupNamespace "cgroup-namespace",
    OldRoot "old-root",
    ReadOnly "read-only",
    Devices "devices",
    ProcMasks "proc-masks",
    ProcReadOnly "proc-read-only",
    HidePid "hide-pid",
    Descriptors "descriptors",
    Environment "environment",
    Dumpable "dumpable",
    Rlimits "rlimits",
    Pids "pids",
    Memory "memory",
    CpuRate "cpu-rate",
    CpuTime "cpu-time",
    WallTime "wall-time",
    Disk "disk",
    Inodes "inodes",
    OutputCap "output-cap",
    OutputLimit "output-limit",
    KillTree "kill-tree",
    NoFollow "no-follow",
    ExitStatus "exit-status",
}

/// Whether this build leaves that layer out.
#[cfg(not(feature = "mutants"))]
pub const fn lacks(_layer: Mutant) -> bool {
    false
}

/// Whether this build leaves that layer out.
#[cfg(feature = "mutants")]
pub fn lacks(layer: Mutant) -> bool {
    CHOSEN.get().is_some_and(|chosen| chosen.contains(&layer))
}

#[cfg(feature = "mutants")]
static CHOSEN: std::sync::OnceLock<Vec<Mutant>> = std::sync::OnceLock::new();

/// Reads from `SANDBOXD_MUTANT` which layer to leave out, or which, joined by `+`; must come before anything is
/// forked. A name that means nothing ends the process: a mutant that mutates nothing would look like one that
/// nobody caught.
#[cfg(feature = "mutants")]
pub fn choose() {
    CHOSEN.get_or_init(|| {
        let names = std::env::var("SANDBOXD_MUTANT").unwrap_or_default();
        let layer = |name: &str| match ALL.iter().find(|(_, text)| *text == name) {
            Some((layer, _)) => *layer,
            None => {
                let known: Vec<&str> = ALL.iter().map(|(_, text)| *text).collect();
                eprintln!("`{name}` is no mutant; there are {}", known.join(", "));
                crate::sys::exit_now(2);
            }
        };
        names.split_terminator('+').map(layer).collect()
    });
}
