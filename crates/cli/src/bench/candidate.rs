//! Who takes part.

use serde::Serialize;

/// Who runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Candidate {
    /// Nobody but the kernel: what all others are compared with.
    Bare,
    Bubblewrap,
    Runc,
    Crun,
    /// A call to an engine that runs already, and makes everything when it is asked for.
    Nothing,
    /// A call to an engine that keeps nothing warm, as it is: while it is idle it begins a sandbox.
    Cold,
    /// The whole command.
    Command,
    /// A call to an engine that knows how to keep the program's kind warm and has none ready.
    Miss,
    /// A call to an engine that has one ready.
    Warm,
    /// One that has done something similar before.
    Rehearsed,
}

impl Candidate {
    pub(crate) const ALL: [Candidate; 10] = [
        Candidate::Bare,
        Candidate::Bubblewrap,
        Candidate::Runc,
        Candidate::Crun,
        Candidate::Nothing,
        Candidate::Cold,
        Candidate::Command,
        Candidate::Miss,
        Candidate::Warm,
        Candidate::Rehearsed,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Candidate::Bare => "bare command",
            Candidate::Bubblewrap => "bwrap --unshare-all",
            Candidate::Runc => "runc run",
            Candidate::Crun => "crun run",
            Candidate::Nothing => "sandboxd, from nothing",
            Candidate::Cold => "sandboxd, cold",
            Candidate::Command => "sandboxd run",
            Candidate::Miss => "sandboxd, pool miss",
            Candidate::Warm => "sandboxd, warm",
            Candidate::Rehearsed => "sandboxd, rehearsed",
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        use Candidate::{Cold, Command, Miss, Nothing, Rehearsed, Warm};
        matches!(self, Nothing | Cold | Command | Miss | Warm | Rehearsed)
    }
}
