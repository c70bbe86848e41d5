//! Settings for those who operate the server: log, metrics, audit, traces.

use super::{GIB, MIB};
use crate::settings::Kind::{Choice, Flag, Size, Whole};
use crate::settings::founding::Unit::{Format, Level as Levels, Same};
use crate::settings::key::{Key, section};
use crate::settings::value::{Level, LogFormat};

section! {
    /// The log, on standard error
    log: Log {
        /// How much is logged
        level: Level = Key::of(Choice(&["error", "warn", "info", "debug", "trace"])).usual("info")
            .also(&["LOG_LEVEL", "SANDBOXRUNNER_LOGGING_LEVEL"], Levels);
        /// How lines look; `auto` is text on a terminal, else JSON
        format: LogFormat = Key::of(Choice(&["auto", "json", "text"])).usual("auto")
            .also(&["LOG_FORMAT", "SANDBOXRUNNER_LOGGING_FORMAT"], Format);
    }
}

section! {
    /// Numbers for Prometheus, at `/metrics`
    metrics: Metrics {
        /// Answer at `/metrics`
        enabled: bool = Key::of(Flag).usual("true").also(&["METRICS_ENABLED"], Same);
        /// Answer without a token
        public: bool = Key::of(Flag).usual("false");
    }
}

section! {
    /// The book of who did what
    audit: Audit {
        /// Keep it
        enabled: bool = Key::of(Flag).usual("true");
        /// Size at which a new file is begun
        max_size: u64 = Key::of(Size { least: MIB, most: 64 * GIB }).usual("64M");
        /// Full files that are kept beside the one that is written
        keep: u32 = Key::of(Whole { least: 0, most: 10_000 }).usual("16");
    }
}
