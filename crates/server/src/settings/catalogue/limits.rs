//! Settings of limits: what a run gets that asks for nothing, and what it may ask for at most.

use super::{DAY, GIB, KIB, MIB};
use crate::settings::Kind::{self, Cores, Size, Time, Whole};
use crate::settings::founding::Unit::{Kilobytes, Same};
use crate::settings::key::{Key, section};
use crate::settings::value::Value;
use engine::limits::{Ceiling, Wanted};
use std::time::Duration;

section! {
    /// What a run gets that asks for nothing, and what it may ask for at most
    limits: Limits {
        /// Wall time of a run that does not ask for one
        timeout: Option<Duration> = Key::of(WALL).unset("30s, or the language's", "30s").also(
            &[
                "DEFAULT_TIMEOUT",
                "SANDBOX_TIMEOUT_SECONDS",
                "EXECUTION_TIMEOUT",
                "SANDBOXRUNNER_TOOLS_DEFAULT_TIMEOUT",
            ],
            Same,
        );
        /// CPU time of a run that does not ask for one, all processes together
        cpu_time: Option<Duration> = Key::of(CPU).unset("(wall time + 1s) × cores", "1m");
        /// Memory of a run that does not ask for any, its files included
        memory: Option<u64> = Key::of(MEMORY).unset("512M, or the language's", "512M")
            .also(&["DEFAULT_MEMORY", "SANDBOXRUNNER_SANDBOX_DEFAULT_RESOURCES_MEMORY_LIMIT"], Same)
            .also(&["SANDBOX_MEMORY_LIMIT"], Kilobytes);
        /// Cores of a run that does not ask for any
        cpus: Option<u64> = Key::of(CORES).unset("1", "1").also(
            &["DEFAULT_CPU", "SANDBOX_CPU_QUOTA", "SANDBOXRUNNER_SANDBOX_DEFAULT_RESOURCES_CPU_LIMIT"],
            Same,
        );
        /// Processes and threads of a run that does not ask for any
        pids: Option<u64> = Key::of(PIDS).unset("128, or the language's", "128")
            .also(&["SANDBOX_MAX_USER_PROGRESS"], Same);
        /// Storage of a run that does not ask for any, part of its memory
        disk: Option<u64> = Key::of(DISK).unset("half of the memory", "256M")
            .also(&["DEFAULT_DISK", "SANDBOXRUNNER_SANDBOX_DEFAULT_RESOURCES_DISK_LIMIT"], Same);
        /// Files and directories of a run that does not ask for a number
        inodes: Option<u64> = Key::of(INODES).unset("100000", "100000");
        /// Open files of one process of a run that does not ask for a number
        open_files: Option<u64> = Key::of(OPEN_FILES).unset("1024", "1024");
        /// Output kept of each stream of a run that does not ask for any
        output: Option<u64> = Key::of(OUTPUT).unset("8M", "8M")
            .also(&["SANDBOXRUNNER_TOOLS_MAX_OUTPUT_SIZE"], Same);
        /// Longest wall time a run may ask for
        max_timeout: Duration = Key::of(WALL).usual("1h").also(&["SANDBOXD_MAX_TIMEOUT", "MAX_TIMEOUT"], Same);
        /// Most CPU time a run may ask for
        max_cpu_time: Duration = Key::of(CPU)
            .told("1h for each core of the host", |_| Ok(millis(host().cpu_time_ms)), "4h")
            .also(&["SANDBOXD_MAX_CPU_TIME"], Same);
        /// Most memory a run may ask for
        max_memory: u64 = Key::of(MEMORY)
            .told("the host's", |_| Ok(Value::Size(host().memory_bytes)), "4G")
            .also(&["SANDBOXD_MAX_MEMORY"], Same);
        /// Most cores a run may ask for
        max_cpus: u64 = Key::of(CORES)
            .told("the host's", |_| Ok(Value::Cores(host().cpu_millis)), "4")
            .also(&["SANDBOXD_MAX_CPUS"], Same);
        /// Most processes and threads a run may ask for
        max_pids: u64 = Key::of(PIDS).usual("16384").also(&["SANDBOXD_MAX_PIDS"], Same);
        /// Most storage a run may ask for
        max_disk: u64 = Key::of(DISK)
            .told("the host's memory", |_| Ok(Value::Size(host().disk_bytes)), "2G")
            .also(&["SANDBOXD_MAX_DISK"], Same);
        /// Most files and directories a run may ask for
        max_inodes: u64 = Key::of(INODES).usual("1000000").also(&["SANDBOXD_MAX_INODES"], Same);
        /// Most open files of one process a run may ask for
        max_open_files: u64 = Key::of(OPEN_FILES).usual("65536").also(&["SANDBOXD_MAX_OPEN_FILES"], Same);
        /// Most output a run may ask to be kept of each stream
        max_output: u64 = Key::of(OUTPUT).usual("64M").also(&["SANDBOXD_MAX_OUTPUT"], Same);
    }
}

const WALL: Kind = Time { least: 1, most: 7 * DAY, never: false };
const CPU: Kind = Time { least: 1, most: 3650 * DAY, never: false };
const MEMORY: Kind = Size { least: 8 * MIB, most: u64::MAX };
const CORES: Kind = Cores { least: 10, most: 1_000_000 };
const PIDS: Kind = Whole { least: 1, most: 4_194_304 };
const DISK: Kind = Size { least: MIB, most: u64::MAX };
const INODES: Kind = Whole { least: 64, most: 1 << 32 };
const OPEN_FILES: Kind = Whole { least: 32, most: 1 << 20 };
const OUTPUT: Kind = Size { least: KIB, most: GIB };

fn host() -> engine::limits::Limits {
    Ceiling::default().0
}

fn millis(millis: u64) -> Value {
    Value::Time(Duration::from_millis(millis))
}

impl Limits {
    /// What a run gets where its request says nothing, for [`Wanted::or`].
    pub fn wanted(&self) -> Wanted {
        Wanted {
            timeout_ms: self.timeout.map(in_millis),
            cpu_time_ms: self.cpu_time.map(in_millis),
            memory_bytes: self.memory,
            cpu_millis: self.cpus,
            pids: self.pids,
            disk_bytes: self.disk,
            disk_inodes: self.inodes,
            open_files: self.open_files,
            output_bytes: self.output,
        }
    }

    /// What a run may ask for at most. No more than the host has, whatever was written.
    pub fn ceiling(&self) -> Ceiling {
        let host = host();
        Ceiling(engine::limits::Limits {
            timeout_ms: in_millis(self.max_timeout),
            cpu_time_ms: in_millis(self.max_cpu_time),
            memory_bytes: self.max_memory.min(host.memory_bytes),
            cpu_millis: self.max_cpus.min(host.cpu_millis),
            pids: self.max_pids,
            disk_bytes: self.max_disk.min(host.disk_bytes),
            disk_inodes: self.max_inodes,
            open_files: self.max_open_files,
            output_bytes: self.max_output,
        })
    }
}

fn in_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::settings::{Sources, load};
    use engine::limits::{Ceiling, Limits, Wanted};

    #[test]
    fn what_is_not_set_is_what_the_engine_does() {
        let limits = load(&Sources::nowhere()).unwrap().settings.limits;
        assert_eq!(limits.wanted(), Wanted::default());
        assert_eq!(limits.ceiling(), Ceiling::default());
    }

    #[test]
    fn the_words_for_what_is_not_set_are_true() {
        let usual = Limits::resolve(Wanted::default(), Wanted::default(), &Ceiling::default()).unwrap();
        let said = [
            ("timeout", format!("{}s, or the language's", usual.timeout_ms / 1000)),
            ("memory", format!("{}M, or the language's", usual.memory_bytes >> 20)),
            ("cpus", (usual.cpu_millis / 1000).to_string()),
            ("pids", format!("{}, or the language's", usual.pids)),
            ("inodes", usual.disk_inodes.to_string()),
            ("open_files", usual.open_files.to_string()),
            ("output", format!("{}M", usual.output_bytes >> 20)),
        ];
        for (name, words) in said {
            let key = crate::settings::find(&format!("limits.{name}")).unwrap();
            assert_eq!(key.shown(&crate::settings::Value::Nothing), words, "{name}");
        }
        assert_eq!(usual.disk_bytes, usual.memory_bytes / 2);
        assert_eq!(usual.cpu_time_ms, usual.timeout_ms + 1000);
    }

    #[test]
    fn what_is_set_is_what_the_engine_gets() {
        let flags = [
            ("limits.timeout", "5s"),
            ("limits.memory", "64M"),
            ("limits.cpus", "500m"),
            ("limits.max_timeout", "2h"),
            ("limits.max_pids", "300"),
        ];
        let limits = load(&Sources::nowhere().flags(&flags)).unwrap().settings.limits;
        let wanted = limits.wanted();
        assert_eq!((wanted.timeout_ms, wanted.memory_bytes), (Some(5000), Some(64 << 20)));
        assert_eq!(wanted.cpu_millis, Some(500));
        let Ceiling(most) = limits.ceiling();
        assert_eq!((most.timeout_ms, most.pids), (7_200_000, 300));
    }

    #[test]
    fn no_ceiling_is_above_the_host() {
        let loaded = load(&Sources::nowhere().flags(&[("limits.max_memory", "100000G")])).unwrap();
        assert_eq!(loaded.settings.limits.ceiling().0.memory_bytes, Ceiling::default().0.memory_bytes);
        assert!(loaded.notes.iter().any(|note| note.contains("limits.max_memory")), "{:?}", loaded.notes);
    }
}
