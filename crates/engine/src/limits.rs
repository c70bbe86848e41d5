//! Limits: what a request asks for, what the operator allows, what a run gets.
//!
//! Every limit has a default, a smallest sensible value and an operator's ceiling. A request outside of that
//! is an error that names the field; nothing is ever cut silently.

mod units;

pub use units::{bytes, cores, duration, show_bytes, show_millis};

use crate::EngineError;
use jail::spec::BoxLimits;
use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;
/// Wall time beyond its own for which a run could use CPU, in milliseconds: a rate is kept over a tenth of a second, and
/// not to the moment.
const CPU_SLACK: u64 = 1000;
/// Bytes a program may write to a stream, kept or not, before it is ended.
pub const OUTPUT_WRITTEN: u64 = 64 * MIB;

/// What a run gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Wall time.
    pub timeout_ms: u64,
    /// CPU time of all processes together.
    pub cpu_time_ms: u64,
    /// Memory of all processes together, files they write included.
    pub memory_bytes: u64,
    /// CPU rate in thousandths of a core.
    pub cpu_millis: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Files they write, in all.
    pub disk_bytes: u64,
    /// Number of files and directories.
    pub disk_inodes: u64,
    /// Open descriptors of one process.
    pub open_files: u64,
    /// Bytes kept of each output stream.
    pub output_bytes: u64,
}

/// What a request asks for; what it leaves out gets a default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// See [`Limits::timeout_ms`].
    pub timeout_ms: Option<u64>,
    /// See [`Limits::cpu_time_ms`].
    pub cpu_time_ms: Option<u64>,
    /// See [`Limits::memory_bytes`].
    pub memory_bytes: Option<u64>,
    /// See [`Limits::cpu_millis`].
    pub cpu_millis: Option<u64>,
    /// See [`Limits::pids`].
    pub pids: Option<u64>,
    /// See [`Limits::disk_bytes`].
    pub disk_bytes: Option<u64>,
    /// See [`Limits::disk_inodes`].
    pub disk_inodes: Option<u64>,
    /// See [`Limits::open_files`].
    pub open_files: Option<u64>,
    /// See [`Limits::output_bytes`].
    pub output_bytes: Option<u64>,
}

impl Wanted {
    /// These wishes, and `other`'s where these say nothing.
    pub fn or(self, other: Wanted) -> Wanted {
        Wanted {
            timeout_ms: self.timeout_ms.or(other.timeout_ms),
            cpu_time_ms: self.cpu_time_ms.or(other.cpu_time_ms),
            memory_bytes: self.memory_bytes.or(other.memory_bytes),
            cpu_millis: self.cpu_millis.or(other.cpu_millis),
            pids: self.pids.or(other.pids),
            disk_bytes: self.disk_bytes.or(other.disk_bytes),
            disk_inodes: self.disk_inodes.or(other.disk_inodes),
            open_files: self.open_files.or(other.open_files),
            output_bytes: self.output_bytes.or(other.output_bytes),
        }
    }
}

/// What the operator allows at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling(pub Limits);

impl Default for Ceiling {
    /// The host itself, and for the rest what no honest run exceeds.
    fn default() -> Ceiling {
        let (memory_bytes, cores) = (host_memory(), host_cores());
        Ceiling(Limits {
            timeout_ms: 3_600_000,
            cpu_time_ms: 3_600_000 * cores,
            memory_bytes,
            cpu_millis: 1000 * cores,
            pids: 16_384,
            disk_bytes: memory_bytes,
            disk_inodes: 1_000_000,
            open_files: 65_536,
            output_bytes: OUTPUT_WRITTEN,
        })
    }
}

/// How a field is shown to people.
type Show = fn(u64) -> String;

/// A field of [`Limits`]: its name, its smallest value, how it is shown.
struct Field {
    name: &'static str,
    least: u64,
    show: Show,
}

const TIMEOUT: Field = Field { name: "timeout", least: 1, show: show_millis };
const CPU_TIME: Field = Field { name: "cpu-time", least: 1, show: show_millis };
const MEMORY: Field = Field { name: "memory", least: 8 * MIB, show: show_bytes };
const CPUS: Field = Field { name: "cpus", least: 10, show: |millis| format!("{}", millis as f64 / 1000.0) };
const PIDS: Field = Field { name: "pids", least: 1, show: |n| n.to_string() };
const DISK: Field = Field { name: "disk", least: MIB, show: show_bytes };
const INODES: Field = Field { name: "inodes", least: 64, show: |n| n.to_string() };
const OPEN_FILES: Field = Field { name: "open-files", least: 32, show: |n| n.to_string() };
const OUTPUT: Field = Field { name: "output", least: 1, show: show_bytes };

impl Field {
    /// The wish if it is within bounds, else the default, lowered to the ceiling: a default is no wish.
    fn settle(&self, wanted: Option<u64>, default: u64, most: u64) -> Result<u64, EngineError> {
        let value = wanted.unwrap_or(default.min(most));
        if (self.least..=most).contains(&value) {
            return Ok(value);
        }
        let show = self.show;
        let message = format!("{} is out of range", show(value));
        let hint = match most < self.least {
            true => {
                format!("the operator's ceiling is below {}, with which nothing can run", show(self.least))
            }
            false => format!("choose between {} and {}", show(self.least), show(most)),
        };
        Err(EngineError::invalid(self.name, message).with_hint(hint))
    }
}

impl Limits {
    /// Settles what a run gets.
    pub fn resolve(request: Wanted, language: Wanted, ceiling: &Ceiling) -> Result<Limits, EngineError> {
        let (Ceiling(most), usual) = (ceiling, Limits::usual());
        // A language's own defaults are no wishes either: the ceiling may lower them.
        let or = |language: Option<u64>, general: u64| language.unwrap_or(general);
        let timeout_ms =
            TIMEOUT.settle(request.timeout_ms, or(language.timeout_ms, usual.timeout_ms), most.timeout_ms)?;
        let cpu_millis =
            CPUS.settle(request.cpu_millis, or(language.cpu_millis, usual.cpu_millis), most.cpu_millis)?;
        let memory_bytes = MEMORY.settle(
            request.memory_bytes,
            or(language.memory_bytes, usual.memory_bytes),
            most.memory_bytes,
        )?;
        // Files live in memory, so this is the share of it that files may take.
        let disk_default = or(language.disk_bytes, memory_bytes / 2).min(memory_bytes);
        let disk_bytes = DISK.settle(request.disk_bytes, disk_default, most.disk_bytes)?;
        if disk_bytes > memory_bytes {
            let message = format!(
                "{} is more than the memory limit of {}",
                show_bytes(disk_bytes),
                show_bytes(memory_bytes)
            );
            let hint = format!(
                "files of a sandbox live in its memory; add `--memory {}`",
                show_bytes(2 * disk_bytes)
            );
            return Err(EngineError::invalid(DISK.name, message).with_hint(hint));
        }
        // More than its rate allows, so that by default wall time is what ends a run.
        let cpu_default =
            (timeout_ms.saturating_add(CPU_SLACK)).saturating_mul(cpu_millis.div_ceil(1000).max(1));
        Ok(Limits {
            timeout_ms,
            cpu_time_ms: CPU_TIME.settle(
                request.cpu_time_ms,
                or(language.cpu_time_ms, cpu_default),
                most.cpu_time_ms,
            )?,
            memory_bytes,
            cpu_millis,
            pids: PIDS.settle(request.pids, or(language.pids, usual.pids), most.pids)?,
            disk_bytes,
            disk_inodes: INODES.settle(
                request.disk_inodes,
                or(language.disk_inodes, usual.disk_inodes),
                most.disk_inodes,
            )?,
            open_files: OPEN_FILES.settle(
                request.open_files,
                or(language.open_files, usual.open_files),
                most.open_files,
            )?,
            output_bytes: OUTPUT.settle(
                request.output_bytes,
                or(language.output_bytes, usual.output_bytes),
                most.output_bytes,
            )?,
        })
    }

    /// What a run gets that asks for nothing.
    pub(crate) fn usual() -> Limits {
        Limits {
            timeout_ms: 30_000,
            cpu_time_ms: 30_000 + CPU_SLACK,
            memory_bytes: 512 * MIB,
            cpu_millis: 1000,
            pids: 128,
            disk_bytes: 256 * MIB,
            disk_inodes: 100_000,
            open_files: 1024,
            output_bytes: 8 * MIB,
        }
    }

    /// The bounds of the box as a whole.
    pub fn of_box(&self) -> BoxLimits {
        BoxLimits {
            memory_bytes: self.memory_bytes,
            cpu_millis: self.cpu_millis as u32,
            pids: self.pids as u32,
            disk_bytes: self.disk_bytes,
            disk_inodes: self.disk_inodes,
            open_files: self.open_files,
        }
    }

    /// The bounds of one job in it.
    pub fn of_job(&self) -> protocol::RunLimits {
        protocol::RunLimits {
            wall_ms: self.timeout_ms,
            cpu_ms: self.cpu_time_ms,
            output_bytes: self.output_bytes,
            output_written_bytes: OUTPUT_WRITTEN.max(self.output_bytes),
        }
    }
}

/// Cores this process may run on. Not what the standard library says: it reads a dozen files to find out.
fn host_cores() -> u64 {
    rustix::thread::sched_getaffinity(None).map_or(1, |cores| u64::from(cores.count()))
}

fn host_memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_left_out_gets_the_default() {
        let limits = Limits::resolve(Wanted::default(), Wanted::default(), &Ceiling::default()).unwrap();
        assert_eq!(limits.timeout_ms, 30_000);
        assert_eq!(limits.memory_bytes, 512 * MIB);
        assert_eq!(limits.disk_bytes, 256 * MIB);
        assert_eq!(limits.pids, 128);
    }

    #[test]
    fn a_ceiling_lowers_defaults_and_refuses_wishes() {
        let mut ceiling = Ceiling::default();
        ceiling.0.memory_bytes = 100 * MIB;
        let limits = Limits::resolve(Wanted::default(), Wanted::default(), &ceiling).unwrap();
        assert_eq!(limits.memory_bytes, 100 * MIB);
        let wish = Wanted { memory_bytes: Some(200 * MIB), ..Wanted::default() };
        let error = Limits::resolve(wish, Wanted::default(), &ceiling).unwrap_err();
        assert_eq!(error.to_string(), "`memory`: 200M is out of range");
        assert_eq!(error.hint(), Some("choose between 8M and 100M"));
    }

    #[test]
    fn disk_beyond_memory_is_refused() {
        let wish = Wanted { memory_bytes: Some(64 * MIB), disk_bytes: Some(65 * MIB), ..Wanted::default() };
        let error = Limits::resolve(wish, Wanted::default(), &Ceiling::default()).unwrap_err();
        assert!(matches!(error, EngineError::Invalid { ref field, .. } if field == "disk"), "{error}");
    }

    proptest! {
        #[test]
        fn a_wish_is_granted_exactly_or_refused(timeout in any::<u64>(), memory in any::<u64>(), pids in any::<u64>()) {
            let wish = Wanted { timeout_ms: Some(timeout), memory_bytes: Some(memory), pids: Some(pids), ..Wanted::default() };
            let Ceiling(most) = Ceiling::default();
            match Limits::resolve(wish, Wanted::default(), &Ceiling::default()) {
                Ok(limits) => {
                    prop_assert_eq!((limits.timeout_ms, limits.memory_bytes, limits.pids), (timeout, memory, pids));
                    prop_assert!(timeout <= most.timeout_ms && memory <= most.memory_bytes && pids <= most.pids);
                    prop_assert!(limits.disk_bytes <= limits.memory_bytes);
                }
                Err(EngineError::Invalid { field, .. }) => {
                    prop_assert!(["timeout", "memory", "pids"].contains(&field.as_str()));
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
