//! What a job uses, read from the kernel; sampled where no cgroup counts.

use crate::ground::descendants;
use crate::survey::number;
use jail::beneath::Tree;
use jail::cgroup::{COUNTS, Counts, MeterFds, traffic};
use jail::spec::{BoxUsage, CgroupKind};
use jail::sys::{self, Others, Tally};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::Pid;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

pub(crate) struct Meters {
    kind: CgroupKind,
    oom: Option<OwnedFd>,
    counts: Counts,
    io: Option<File>,
    weight: Option<File>,
    idle: Option<File>,
    weighs: Cell<Weight>,
    seat: Option<Seat>,
}

/// What is known of a job that runs beside others, of which the kernel's counts of the box do not tell it apart.
struct Seat {
    /// What each of them has in memory.
    tally: Tally,
    /// Resident memory of the largest process that has ended.
    largest: Cell<u64>,
}

/// What a box weighs beside others who want the processors, as a part of what is usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    Usual = 1,
    Eighth = 8,
    Hardly = 32,
    /// It only has what nobody else wants, and makes way for whoever begins. Where the kernel knows no such thing, as
    /// little as there is.
    Leftovers = 64,
}

/// Totals at one moment, to be subtracted from later ones.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reading {
    pub(crate) cpu_us: u64,
    pub(crate) waited_cpu_us: u64,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    /// Resident memory of the largest process that was waited for.
    pub(crate) largest_rss_bytes: u64,
    oom_kills: u64,
    pub(crate) pids_refused: u64,
}

/// All processes of the box at one moment.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) processes: u64,
    /// Sessions they are in.
    pub(crate) sessions: u64,
    /// What they have for themselves.
    pub(crate) anonymous_bytes: u64,
    /// What they may have together.
    pub(crate) shared_bytes: u64,
    /// Files of the workspace.
    pub(crate) scratch_bytes: u64,
}

/// The most of both that was seen at any moment.
#[derive(Clone, Copy, Default)]
pub(crate) struct Peak {
    pub(crate) processes: u64,
    pub(crate) memory_bytes: u64,
}

impl Sample {
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.anonymous_bytes + self.shared_bytes + self.scratch_bytes
    }
}

impl Meters {
    pub(crate) fn of_box(kind: CgroupKind, mut fds: MeterFds) -> Meters {
        Meters {
            kind,
            counts: Counts::take(kind, &mut fds),
            oom: fds.oom,
            io: fds.io.map(File::from),
            weight: fds.weight.map(File::from),
            idle: fds.idle.map(File::from),
            weighs: Cell::new(Weight::Usual),
            seat: None,
        }
    }

    /// The meters of one seat among others.
    pub(crate) fn of_seat(kind: CgroupKind, fds: MeterFds, tally: Tally) -> Meters {
        Meters { seat: Some(Seat { tally, largest: Cell::new(0) }), ..Meters::of_box(kind, fds) }
    }

    /// Whether there are jobs beside the one that is metered.
    pub(crate) fn are_of_seat(&self) -> bool {
        self.seat.is_some()
    }

    /// Takes note of the largest process among those of one that has ended.
    pub(crate) fn note_ended(&self, largest_rss_bytes: u64) {
        if let Some(seat) = &self.seat {
            seat.largest.set(seat.largest.get().max(largest_rss_bytes));
        }
    }

    /// Resident memory of the largest process that was waited for: of this job where jobs run beside each other.
    pub(crate) fn largest_rss_bytes(&self) -> u64 {
        match &self.seat {
            Some(seat) => seat.largest.get(),
            None => sys::usage_of_children().largest_rss_bytes,
        }
    }

    /// Memory that jobs beside this one use.
    pub(crate) fn used_by_others(&self) -> Others {
        self.seat.as_ref().map(|seat| seat.tally.others()).unwrap_or_default()
    }

    /// What of a sample is this job's, told to those beside it: files of the workspace are everybody's.
    pub(crate) fn own(&self, sample: &Sample) -> u64 {
        let Some(seat) = &self.seat else { return sample.memory_bytes() };
        let own = sample.anonymous_bytes + sample.shared_bytes;
        seat.tally.set(own);
        own
    }

    /// Takes note that all processes are gone. What they shared may not be.
    pub(crate) fn nobody_is_left(&self) {
        if let (Some(seat), true) = (&self.seat, self.must_sample()) {
            seat.tally.set(segments());
        }
    }

    /// The meters of a place without walls.
    pub(crate) fn plain() -> Meters {
        Meters {
            io: File::open("/proc/self/io").ok(),
            ..Meters::of_box(CgroupKind::None, MeterFds::default())
        }
    }

    /// Whether the kernel can be told to prefer others.
    pub(crate) fn has_weight(&self) -> bool {
        self.weight.is_some()
    }

    /// Tells the kernel whom to prefer. It only matters to neighbours, and only where there is more to do than processors.
    pub(crate) fn weigh(&self, weight: Weight) {
        // Short ones must not make light of long ones beside them.
        let weight = if self.are_of_seat() { weight.max(Weight::Eighth) } else { weight };
        let before = self.weighs.replace(weight);
        if before == weight {
            return;
        }
        // What is idle weighs nothing, and cannot be told what it shall weigh.
        if let Some(idle) = &self.idle
            && before.max(weight) == Weight::Leftovers
        {
            let _ = idle.write_at(if weight == Weight::Leftovers { b"1" } else { b"0" }, 0);
        }
        if let Some(file) = &self.weight {
            let usual = if self.kind == CgroupKind::V1 { 1024 } else { 100 };
            let _ = file.write_at((usual / weight as u32).to_string().as_bytes(), 0);
        }
    }

    /// How often one more process was wanted than there may be.
    pub(crate) fn pids_refused(&self) -> u64 {
        self.counts.pids_refused()
    }

    /// What to wait on (`POLLPRI`) for news of processes that were refused, once it was asked for them.
    pub(crate) fn refusals(&self) -> Option<BorrowedFd<'_>> {
        self.counts.refusals()
    }

    /// Whether nobody but us counts memory and processes.
    pub(crate) fn must_sample(&self) -> bool {
        self.kind == CgroupKind::None
    }

    /// What to wait on for news of memory, and for which kind of news.
    pub(crate) fn oom(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let flags = if self.kind == CgroupKind::V1 { PollFlags::IN } else { PollFlags::PRI };
        self.oom.as_ref().filter(|_| !self.are_of_seat()).map(|fd| (fd.as_fd(), flags))
    }

    /// Whether the box ran out of memory since `before`, and nobody but this job can have been the one that ended.
    pub(crate) fn ran_out(&self, before: &Reading) -> bool {
        match self.kind {
            _ if self.are_of_seat() => false,
            CgroupKind::V1 => self.oom.as_ref().is_some_and(|fd| {
                let mut fds = [PollFd::new(fd, PollFlags::IN)];
                poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            }),
            CgroupKind::V2 => self.counts.oom_kills() > before.oom_kills,
            CgroupKind::None => false,
        }
    }

    pub(crate) fn read(&self) -> Reading {
        let (read_bytes, write_bytes) = self.io();
        let children = sys::usage_of_children();
        Reading {
            cpu_us: self.cpu_us(),
            waited_cpu_us: children.cpu_micros,
            read_bytes,
            write_bytes,
            largest_rss_bytes: match &self.seat {
                Some(seat) => seat.largest.get(),
                None => children.largest_rss_bytes,
            },
            oom_kills: if self.kind == CgroupKind::V2 { self.counts.oom_kills() } else { 0 },
            pids_refused: 0,
        }
    }

    /// The same in a place where other jobs were before: what they ran into is nothing of the next one's.
    pub(crate) fn read_anew(&self) -> Reading {
        if let Some(seat) = &self.seat {
            seat.largest.set(0);
        }
        if let (CgroupKind::V1, Some(oom), true) = (self.kind, &self.oom, self.ran_out(&Reading::default())) {
            // It is there, so this does not wait.
            let _ = rustix::io::read(oom, &mut [0; 8]);
        }
        Reading {
            oom_kills: self.counts.oom_kills(),
            pids_refused: self.counts.pids_refused(),
            ..self.read()
        }
    }

    /// CPU time of the whole box so far; at a seat, of all that was started there.
    pub(crate) fn cpu_us(&self) -> u64 {
        if self.are_of_seat() || self.kind == CgroupKind::None {
            return sys::usage_of_children().cpu_micros + living_cpu_us();
        }
        self.counts.cpu_micros().unwrap_or(0)
    }

    /// The files in which the kernel counts, for the engine to read as well.
    pub(crate) fn share(&self) -> Option<[BorrowedFd<'_>; COUNTS]> {
        self.counts.share().filter(|_| !self.are_of_seat())
    }

    /// What the kernel has counted since `before`, CPU time until `after`. At a seat that is only that it ended somebody for
    /// lack of memory: who ended that way at that time is who it was.
    pub(crate) fn counted(&self, before: &Reading, after: &Reading) -> Option<BoxUsage> {
        if self.are_of_seat() {
            let oom_kills = self.counts.oom_kills().saturating_sub(before.oom_kills);
            return (self.kind != CgroupKind::None).then(|| BoxUsage { oom_kills, ..BoxUsage::default() });
        }
        (self.kind != CgroupKind::None).then(|| {
            let usage = self.counts.usage();
            BoxUsage {
                cpu_micros: Some(after.cpu_us.saturating_sub(before.cpu_us)),
                oom_kills: usage.oom_kills.saturating_sub(before.oom_kills),
                pids_refused: usage.pids_refused.saturating_sub(before.pids_refused),
                ..usage
            }
        })
    }

    /// Storage traffic of this process and of all it has waited for, which the kernel adds up.
    fn io(&self) -> (u64, u64) {
        self.io.as_ref().and_then(traffic).unwrap_or_default()
    }
}

/// Looks at every process below this one but those that are `ours`, and at what they keep in files of memory: `scratch` is
/// the file system of the workspace, whose use is known as a whole.
///
/// Pages that a process and its forks share are counted for each of them, which is quick and too much. `before_each` of them
/// something else is done: among many, this takes a while.
pub(crate) fn sample(scratch: &Tree, ours: [Option<Pid>; 2], mut before_each: impl FnMut()) -> Sample {
    let mut sample = Sample::default();
    let mut shared = 0;
    let mut nameless = HashMap::new();
    let mut sessions = HashSet::new();
    before_each();
    for pid in others_than(ours) {
        before_each();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        sample.processes += jail::cgroup::keyed(&status, "Threads:").unwrap_or(0);
        sample.anonymous_bytes += kib(&status, "RssAnon:");
        sessions.extend(jail::cgroup::keyed(&status, "NSsid:"));
        shared = kib(&status, "RssShmem:").max(shared);
        for fd in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            // Files without a name live in memory, unless they are on the workspace's own file system.
            if let Ok(meta) = std::fs::metadata(fd.path())
                && meta.is_file()
                && meta.nlink() == 0
                && !scratch.holds(meta.dev())
            {
                nameless.insert((meta.dev(), meta.ino()), meta.blocks() * 512);
            }
        }
    }
    sample.sessions = sessions.len() as u64;
    let files: u64 = nameless.values().sum();
    // Pages several processes map are counted once, as the largest share any of them has, or as the files
    // and segments they belong to.
    sample.shared_bytes = shared.max(files + segments());
    sample.scratch_bytes = scratch.used();
    sample
}

/// Has everybody but who is ours, and whoever they start from now on, be as nice to others as one can be. Who is nice
/// already, or may not be asked by us, stays as he is.
pub(crate) fn make_nice(ours: [Option<Pid>; 2]) {
    const NICEST: i32 = 19;
    for pid in others_than(ours) {
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let name = task.file_name();
            if let Some(task) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) {
                let _ = rustix::process::setpriority_process(Some(task), NICEST);
            }
        }
    }
}

/// Every process below this one, without those that are ours.
pub(crate) fn others_than(ours: [Option<Pid>; 2]) -> impl Iterator<Item = u32> {
    let ours = ours.map(|pid| pid.map(number));
    descendants(std::process::id()).into_iter().filter(move |pid| !ours.contains(&Some(*pid)))
}

/// A number of kibibytes behind a key, in bytes.
pub(crate) fn kib(text: &str, key: &str) -> u64 {
    jail::cgroup::keyed(&text.replace(" kB", ""), key).unwrap_or(0) * 1024
}

/// Resident bytes of System V shared memory in this ipc namespace, attached or not: column 15 of each line.
fn segments() -> u64 {
    let text = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let rss = |line: &str| line.split_whitespace().nth(14)?.parse::<u64>().ok();
    text.lines().skip(1).filter_map(rss).sum()
}

/// CPU time of processes that were not waited for yet.
fn living_cpu_us() -> u64 {
    let of = |pid| cpu_of(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    descendants(std::process::id()).into_iter().filter_map(of).sum()
}

/// User and system time in a stat line, its own and of children it has waited for: fields 14 to 17.
fn cpu_of(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks: u64 = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    // The unit is fixed at a hundredth of a second for user space.
    Some(ticks * 10_000)
}
