//! What the policy says: a verdict per system call number, per profile and architecture.
//!
//! The lines come from `policies/seccomp.policy` by way of `build.rs`; this file only knows their shape.

use super::Profile;
use super::rules::Rule;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Goes to the kernel.
    Allow,
    /// Refused.
    Eperm,
    /// Refused with the errno on which callers choose another way.
    Einval,
    /// Refused as a file system does that has no such thing.
    Enotsup,
    /// Answered as if the kernel did not have it.
    Enosys,
    /// Answers success without doing it.
    Zero,
    /// Ends the process.
    Kill,
    /// The arguments decide.
    Args(Rule),
}

/// One line of the policy.
pub(super) struct Line {
    nr: u32,
    verdicts: [Verdict; Profile::ALL.len()],
    #[cfg(test)]
    pub(super) name: &'static str,
    #[cfg(test)]
    pub(super) reason: &'static str,
}

/// A processor architecture as the kernel reports it to a filter.
pub(super) struct Arch {
    /// `AUDIT_ARCH_*`, compared before anything else.
    pub(super) audit: u32,
    /// Numbers that select another calling convention: first, and first after.
    foreign: Option<(u32, u32)>,
    /// Sorted by number.
    lines: &'static [Line],
}

/// From `first` up to the next step every number has this verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) first: u32,
    pub(super) verdict: Verdict,
}

include!(concat!(env!("OUT_DIR"), "/seccomp_tables.rs"));

#[cfg(target_arch = "x86_64")]
pub(super) use X86_64 as HERE;

#[cfg(target_arch = "aarch64")]
pub(super) use AARCH64 as HERE;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("no seccomp tables for this architecture: add policies/syscalls-ARCH.txt and an `Arch` here");

/// 64-bit x86. Its x32 convention shares the audit value and differs only by bit 30 of the number.
#[cfg(any(test, target_arch = "x86_64"))]
pub(super) static X86_64: Arch =
    Arch { audit: 0xC000_003E, foreign: Some((0x4000_0000, 0x8000_0000)), lines: X86_64_LINES };

/// 64-bit ARM. 32-bit programs there have an audit value of their own.
#[cfg(any(test, target_arch = "aarch64"))]
pub(super) static AARCH64: Arch = Arch { audit: 0xC000_00B7, foreign: None, lines: AARCH64_LINES };

impl Arch {
    /// The verdict of every 32-bit number, neighbours with the same verdict merged.
    pub(super) fn steps(&self, profile: Profile) -> Vec<Step> {
        let mut steps = Vec::with_capacity(256);
        let mut next = 0;
        for line in self.lines {
            if line.nr > next {
                push(&mut steps, next, Verdict::Enosys);
            }
            push(&mut steps, line.nr, line.verdicts[profile as usize]);
            next = line.nr + 1;
        }
        push(&mut steps, next, Verdict::Enosys);
        if let Some((first, after)) = self.foreign {
            push(&mut steps, first, Verdict::Kill);
            push(&mut steps, after, Verdict::Enosys);
        }
        steps
    }

    /// The line of a number, if it has one.
    #[cfg(test)]
    pub(super) fn line(&self, nr: u32) -> Option<&'static Line> {
        self.lines.binary_search_by_key(&nr, |line| line.nr).ok().map(|index| &self.lines[index])
    }
}

fn push(steps: &mut Vec<Step>, first: u32, verdict: Verdict) {
    if steps.last().is_none_or(|last| last.verdict != verdict) {
        steps.push(Step { first, verdict });
    }
}

#[cfg(test)]
impl Line {
    pub(super) fn nr(&self) -> u32 {
        self.nr
    }

    pub(super) fn verdict(&self, profile: Profile) -> Verdict {
        self.verdicts[profile as usize]
    }
}
