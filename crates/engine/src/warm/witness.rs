//! Sees the end of a program that waited by itself, without PID 1: one less who has to be woken before the answer.
//!
//! The kernel's word is read where it keeps it: the exit code in the stat line of a process that has ended and that nobody
//! has waited for, because PID 1 dozes; what was used in the cgroup's files. That is enough when a program came and went
//! and left nothing: no process, no file, no limit that was reached. Everything else is PID 1's, which is then told to attend.

use jail::beneath::{Mark, PlainPath, Tree};
use jail::cgroup::{COUNTS, Counts, contents, traffic};
use jail::job::KEEPER;
use jail::spec::{BoxUsage, CgroupKind};
use protocol::{Collect, Ending, JobResult, Present, RunLimits, Usage, Written};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::fs::File;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// With this a program ends that could not be executed, and PID 1 knows why.
const NOT_EXECUTED: i32 = 127;

/// What is known of a program that waits.
#[derive(Debug)]
pub(super) struct Witness {
    program: AsyncFd<OwnedFd>,
    stat: File,
    io: File,
    children: File,
    counts: Counts,
    before: Before,
}

/// How it was before its errand.
#[derive(Debug)]
struct Before {
    usage: BoxUsage,
    traffic: (u64, u64),
    /// What is said of PID 1's children when the program has ended and started nobody: it, and whom it left its memory.
    children: String,
}

/// What its workspace holds when it begins.
pub(super) struct Workspace {
    files: Vec<(PlainPath, Mark)>,
    free_inodes: u64,
}

impl Workspace {
    /// How it is now; nothing where files made there would not be noticed.
    pub(super) fn of(tree: &Tree, files: &[Present]) -> Option<Workspace> {
        let (_, free_inodes) = tree.free().ok().filter(|(_, free)| *free > 0)?;
        let files = files.iter().map(|file| Some((PlainPath::parse(&file.path).ok()?, file.mark)));
        Some(Workspace { files: files.collect::<Option<_>>()?, free_inodes })
    }

    /// Whether the files it had are as they were, and no others there. Who links or moves one changes how it looks.
    fn is_unchanged(&self, tree: &Tree, free_inodes: u64) -> bool {
        let same =
            |(path, mark): &(PlainPath, Mark)| tree.stat(path).is_ok_and(|stat| Mark::of(&stat) == *mark);
        free_inodes == self.free_inodes && self.files.iter().all(same)
    }
}

impl Witness {
    /// Of a program that waits, by what came with the word of it. Nothing where not everything can be seen.
    pub(super) fn of(
        kind: CgroupKind,
        has_keeper: bool,
        mut came: impl Iterator<Item = OwnedFd>,
    ) -> Result<Option<Witness>, String> {
        let (Some(program), Some(children)) = (came.next(), came.next()) else { return Ok(None) };
        let Ok(counts) = <[OwnedFd; COUNTS]>::try_from(came.collect::<Vec<_>>()) else { return Ok(None) };
        let (children, counts) = (File::from(children), Counts::shared(kind, counts));
        // Its number here. It cannot be somebody else's as long as it lives.
        let Some(pid) = number_of(&program) else { return Ok(None) };
        let opened = |name: &str| File::open(format!("/proc/{pid}/{name}")).ok();
        let (Some(stat), Some(io)) = (opened("stat"), opened("io")) else { return Ok(None) };
        let Some(traffic) = traffic(&io) else { return Ok(None) };
        let mut before = Before { usage: counts.usage(), traffic, children: contents(&children) };
        if has_ended(program.as_fd(), Duration::ZERO)
            || before.usage.cpu_micros.is_none()
            || before.children.is_empty()
        {
            return Ok(None);
        }
        if has_keeper {
            before.children += &format!("{} ", KEEPER.as_raw_nonzero());
        }
        #[expect(deprecated, reason = "unsound only for what closes its descriptor early; this type cannot")]
        let program = AsyncFd::with_interest(program, Interest::READABLE).map_err(|e| e.to_string())?;
        Ok(Some(Witness { program, stat, io, children, counts, before }))
    }

    /// Whether it still waits.
    pub(super) fn is_alive(&self) -> bool {
        !has_ended(self.program.as_fd(), Duration::ZERO)
    }

    /// Whether the program has ended before this time is over. This thread does nothing else meanwhile.
    pub(super) fn ends_within(&self, time: Duration) -> bool {
        has_ended(self.program.as_fd(), time)
    }

    /// Resolves when the program has ended.
    pub(super) async fn end(&self) {
        // An error is found by looking.
        let _ = self.program.readable().await;
    }

    /// What there is to say of a program that has ended, if it left nothing behind that PID 1 has to see to.
    pub(super) fn testify(
        &self,
        took: Duration,
        (tree, workspace): (&Tree, &Workspace),
        (limits, collect): (&RunLimits, &Collect),
    ) -> Option<JobResult> {
        let code = exit_code(&contents(&self.stat))?;
        // Who may not read this is not told the exit code either, but that it is zero.
        let (read, written) = traffic(&self.io)?;
        let (free_bytes, free_inodes) = tree.free().ok()?;
        let usage = self.counts.usage();
        let before = &self.before;
        let cpu_us = usage.cpu_micros?.saturating_sub(before.usage.cpu_micros?);
        let plain = code != NOT_EXECUTED
            && contents(&self.children) == before.children
            && (usage.oom_kills, usage.pids_refused) == (before.usage.oom_kills, before.usage.pids_refused)
            && cpu_us < limits.cpu_ms * 1000
            && !collect.build
            && collect.most_value_bytes.is_none()
            && (!collect.artifacts || workspace.is_unchanged(tree, free_inodes));
        plain.then(|| JobResult {
            step: 0,
            ending: Ending::Exited { code },
            usage: Usage {
                wall_us: took.as_micros() as u64,
                cpu_us,
                read_bytes: read.saturating_sub(before.traffic.0),
                write_bytes: written.saturating_sub(before.traffic.1),
                ..Usage::default()
            },
            counted: Some(BoxUsage { cpu_micros: Some(cpu_us), oom_kills: 0, pids_refused: 0, ..usage }),
            written: Written::default(),
            disk_full: free_bytes < 4096 || free_inodes == 0,
            artifacts: Vec::new(),
            artifacts_truncated: false,
            build: Vec::new(),
            returned: None,
        })
    }
}

/// The number of the process behind a descriptor, where this process sees it.
fn number_of(program: &OwnedFd) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).ok()?;
    jail::cgroup::keyed(&text, "Pid:").filter(|pid| *pid > 0)
}

fn has_ended(program: BorrowedFd<'_>, within: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(program, PollFlags::IN)];
    let within = Timespec { tv_sec: 0, tv_nsec: within.subsec_nanos().into() };
    poll(&mut fds, Some(&within)) != Ok(0)
}

/// With what a process ended by itself, by its stat line: none for one that was ended, or that somebody has waited for.
fn exit_code(stat: &str) -> Option<i32> {
    const EXIT_CODE: usize = 49; // field 52, after the first two
    let mut fields = stat.rsplit_once(") ")?.1.split_ascii_whitespace();
    if fields.next() != Some("Z") {
        return None;
    }
    let status: i32 = fields.nth(EXIT_CODE - 1)?.parse().ok()?;
    (status & 0x7f == 0).then_some(status >> 8 & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exit_is_an_exit_code() {
        let line = |state: &str, status: &str| format!("7 (a) b) {state}{} {status}\n", " 0".repeat(48));
        assert_eq!(exit_code(&line("Z", "0")), Some(0));
        assert_eq!(exit_code(&line("Z", "768")), Some(3));
        assert_eq!(exit_code(&line("Z", "9")), None);
        assert_eq!(exit_code(&line("Z", "139")), None);
        assert_eq!(exit_code(&line("S", "0")), None);
        assert_eq!(exit_code(""), None);
    }

    #[test]
    fn a_child_that_nobody_has_waited_for_tells_its_exit_code() {
        let mut child = std::process::Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let stat = File::open(format!("/proc/{}/stat", child.id())).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        assert_eq!(number_of(&pidfd), Some(u64::from(child.id())));
        let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None);
        assert!(has_ended(pidfd.as_fd(), Duration::ZERO));
        assert_eq!(exit_code(&contents(&stat)), Some(7));
        child.wait().unwrap();
        assert_eq!(exit_code(&contents(&stat)), None);
    }
}
