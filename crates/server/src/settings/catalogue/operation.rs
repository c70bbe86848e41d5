//! Settings for those who operate the server: log, metrics, audit, events, webhooks, traces.

use super::{GIB, HOUR, MIB, MINUTE};
use crate::settings::Kind::{Choice, Flag, Size, Time, Url, Whole};
use crate::settings::founding::Unit::{Format, Level as Levels, Same};
use crate::settings::key::{Key, section};
use crate::settings::value::{Level, LogFormat};
use std::time::Duration;

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

section! {
    /// What happens, at `/api/v1/events`
    events: Events {
        /// Keep it, for `retention.events`
        enabled: bool = Key::of(Flag).usual("true");
    }
}

section! {
    /// How events are sent to webhooks
    webhooks: Webhooks {
        /// Send to addresses that are not of the public internet, such as this host and its network
        allow_private: bool = Key::of(Flag).usual("false");
        /// Time that sending an event may take
        timeout: Duration = Key::of(Time { least: 100, most: 5 * MINUTE, never: false }).usual("10s");
        /// How often sending an event is tried before its webhook is given up
        attempts: u32 = Key::of(Whole { least: 1, most: 100 }).usual("10");
        /// Time before the second try; twice as long before each further one
        retry_base: Duration = Key::of(Time { least: 10, most: HOUR, never: false }).usual("1s");
        /// Longest time between two tries
        retry_max: Duration = Key::of(Time { least: 10, most: 24 * HOUR, never: false }).usual("5m");
    }
}

section! {
    /// Traces of requests and what became of them
    tracing: Tracing {
        /// Address of what collects traces over OTLP and HTTP; this takes a build with the feature `otel`
        otlp_endpoint: Option<String> = Key::of(Url).unset("no traces", "http://localhost:4318");
    }
}
