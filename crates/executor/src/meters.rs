//! What a job uses, read from the kernel; sampled where no cgroup counts.

use jail::beneath::Tree;
use jail::cgroup::MeterFds;
use jail::spec::{BoxUsage, CgroupKind};
use jail::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::Pid;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

pub(crate) struct Meters {
    kind: CgroupKind,
    oom: Option<OwnedFd>,
    cpu: Option<File>,
    oom_kills: Option<File>,
    memory_peak: Option<File>,
    pids_peak: Option<File>,
    pids_events: Option<File>,
    io: Option<File>,
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
    pids_refused: u64,
}

/// All processes of the box at one moment.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) processes: u64,
    pub(crate) memory_bytes: u64,
}

impl Meters {
    pub(crate) fn of_box(kind: CgroupKind, fds: MeterFds) -> Meters {
        Meters {
            kind,
            oom: fds.oom,
            cpu: fds.cpu.map(File::from),
            oom_kills: fds.oom_kills.map(File::from),
            memory_peak: fds.memory_peak.map(File::from),
            pids_peak: fds.pids_peak.map(File::from),
            pids_events: fds.pids_events.map(File::from),
            io: fds.io.map(File::from),
        }
    }

    /// The meters of a place without walls.
    pub(crate) fn plain() -> Meters {
        Meters {
            io: File::open("/proc/self/io").ok(),
            ..Meters::of_box(CgroupKind::None, MeterFds::default())
        }
    }

    /// Whether nobody but us counts memory and processes.
    pub(crate) fn must_sample(&self) -> bool {
        self.kind == CgroupKind::None
    }

    /// What to wait on for news of memory, and for which kind of news.
    pub(crate) fn oom(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let flags = if self.kind == CgroupKind::V1 { PollFlags::IN } else { PollFlags::PRI };
        self.oom.as_ref().map(|fd| (fd.as_fd(), flags))
    }

    /// Whether the box ran out of memory since `before`.
    pub(crate) fn ran_out(&self, before: &Reading) -> bool {
        match self.kind {
            CgroupKind::V1 => self.oom.as_ref().is_some_and(|fd| {
                let mut fds = [PollFd::new(fd, PollFlags::IN)];
                poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            }),
            CgroupKind::V2 => self.oom_kills() > before.oom_kills,
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
            largest_rss_bytes: children.largest_rss_bytes,
            oom_kills: if self.kind == CgroupKind::V2 { self.oom_kills() } else { 0 },
            pids_refused: 0,
        }
    }

    /// The same in a place where other jobs were before: what they ran into is nothing of the next one's.
    pub(crate) fn read_anew(&self) -> Reading {
        if let (CgroupKind::V1, Some(oom), true) = (self.kind, &self.oom, self.ran_out(&Reading::default())) {
            // It is there, so this does not wait.
            let _ = rustix::io::read(oom, &mut [0; 8]);
        }
        Reading {
            oom_kills: self.oom_kills(),
            pids_refused: keyed(self.pids_events.as_ref(), "max "),
            ..self.read()
        }
    }

    /// CPU time of the whole box so far.
    pub(crate) fn cpu_us(&self) -> u64 {
        let text = self.cpu.as_ref().map(contents).unwrap_or_default();
        match self.kind {
            CgroupKind::V1 => text.trim().parse::<u64>().unwrap_or(0) / 1000,
            CgroupKind::V2 => jail::cgroup::keyed(&text, "usage_usec ").unwrap_or(0),
            CgroupKind::None => sys::usage_of_children().cpu_micros + living_cpu_us(),
        }
    }

    fn oom_kills(&self) -> u64 {
        keyed(self.oom_kills.as_ref(), "oom_kill ")
    }

    /// What the kernel has counted since `before`.
    pub(crate) fn counted(&self, before: &Reading) -> Option<BoxUsage> {
        let number = |file: &Option<File>| contents(file.as_ref()?).trim().parse().ok();
        (self.kind != CgroupKind::None).then(|| BoxUsage {
            cpu_micros: Some(self.cpu_us().saturating_sub(before.cpu_us)),
            memory_peak_bytes: number(&self.memory_peak),
            pids_peak: number(&self.pids_peak),
            oom_kills: self.oom_kills().saturating_sub(before.oom_kills),
            pids_refused: keyed(self.pids_events.as_ref(), "max ").saturating_sub(before.pids_refused),
        })
    }

    /// Storage traffic of this process and of all it has waited for, which the kernel adds up.
    fn io(&self) -> (u64, u64) {
        let text = self.io.as_ref().map(contents).unwrap_or_default();
        let of = |key| jail::cgroup::keyed(&text, key).unwrap_or(0);
        (of("read_bytes:"), of("write_bytes:"))
    }
}

/// The number behind a key, in a file of such lines.
fn keyed(file: Option<&File>, key: &str) -> u64 {
    file.and_then(|file| jail::cgroup::keyed(&contents(file), key)).unwrap_or(0)
}

fn contents(file: &File) -> String {
    let mut buffer = [0; 4096];
    let length = file.read_at(&mut buffer, 0).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// Looks at every process below this one, and at what they keep in files of memory: `scratch` is the file
/// system of the workspace, whose use is known as a whole.
///
/// Pages that a process and its forks share are counted for each of them, which is quick and too much. When that is more
/// than `enough`, the kernel is asked for each process's own part.
pub(crate) fn sample(scratch: &Tree, keeper: Option<Pid>, enough: u64) -> Sample {
    let quick = sample_by(scratch, keeper, |_, status| kib(status, "RssAnon:"));
    if quick.memory_bytes <= enough {
        return quick;
    }
    sample_by(scratch, keeper, |pid, status| {
        let shared = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
        // One that cannot be asked, or is gone meanwhile, has what it seemed to have.
        shared.map_or_else(|| kib(status, "RssAnon:"), |text| kib(&text, "Pss_Anon:"))
    })
}

/// A number of kibibytes behind a key, in bytes.
fn kib(text: &str, key: &str) -> u64 {
    jail::cgroup::keyed(&text.replace(" kB", ""), key).unwrap_or(0) * 1024
}

fn sample_by(scratch: &Tree, keeper: Option<Pid>, anonymous: impl Fn(u32, &str) -> u64) -> Sample {
    let keeper = keeper.map(|pid| pid.as_raw_nonzero().get() as u32);
    let mut sample = Sample::default();
    let mut shared = 0;
    let mut nameless = HashMap::new();
    for pid in crate::ground::descendants(std::process::id()).into_iter().filter(|pid| Some(*pid) != keeper) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        sample.processes += jail::cgroup::keyed(&status, "Threads:").unwrap_or(0);
        sample.memory_bytes += anonymous(pid, &status);
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
    let files: u64 = nameless.values().sum();
    // Pages several processes map are counted once, as the largest share any of them has, or as the files
    // and segments they belong to.
    sample.memory_bytes += shared.max(files + segments()) + scratch.used();
    sample
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
    crate::ground::descendants(std::process::id()).into_iter().filter_map(of).sum()
}

/// User and system time in a stat line, its own and of children it has waited for: fields 14 to 17.
fn cpu_of(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks: u64 = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    // The unit is fixed at a hundredth of a second for user space.
    Some(ticks * 10_000)
}
