//! Settings of running programs: executions, sessions, the warm pool, isolation.

use super::{DAY, GIB, HOUR, KIB, SECOND};
use crate::settings::Kind::{self, Choice, Choices, Decimal, Flag, List, Map, Size, Text, Time, Whole};
use crate::settings::founding::Unit::{self, Hours, Minutes, Same};
use crate::settings::key::{Key, section};
use crate::settings::value::Value;
use engine::control::InstallPolicy;
use engine::runtime::Catalogue;
use engine::{Layer, MOST_REHEARSAL, PoolSettings, Profile, ZygoteScope};
use std::collections::BTreeMap;
use std::time::Duration;

section! {
    /// Executions: how many, how they wait, how they are tried again
    executions: Executions {
        /// Executions at a time
        max_running: usize = Key::of(Whole { least: 1, most: 100_000 }).told(
            "4 for each core of the host",
            |_| Ok(Value::Whole(4 * engine::limits::Ceiling::default().0.cpu_millis.div_ceil(1000).max(1))),
            "16",
        );
        /// Executions that wait for their turn; more are refused
        max_queued: usize = Key::of(Whole { least: 0, most: 1_000_000 }).usual("1000");
        /// Executions that wait for their turn in one session
        session_queue: usize = Key::of(Whole { least: 0, most: 10_000 }).usual("10");
        /// How often an execution is tried in all, where it was us who failed
        retry_attempts: u32 = Key::of(Whole { least: 1, most: 20 }).usual("3").also(&["MAX_RETRY_ATTEMPTS"], Same);
        /// Pause before the second try
        retry_base: Duration = Key::of(PAUSE).usual("1s").also(&["RETRY_BACKOFF_BASE"], Same);
        /// How much longer each further pause is
        retry_factor: f64 = Key::of(Decimal { least: 1.0, most: 10.0 }).usual("2")
            .also(&["RETRY_BACKOFF_FACTOR"], Same);
        /// Longest pause
        retry_max: Duration = Key::of(PAUSE).usual("10s").also(&["MAX_RETRY_BACKOFF"], Same);
        /// Sandboxes in a row that cannot be made, after which nobody tries for a while
        breaker_failures: u32 = Key::of(Whole { least: 1, most: 10_000 }).usual("5");
        /// How long that is
        breaker_rest: Duration = Key::of(PAUSE).usual("10s");
        /// Bytes kept of a live stream, for clients that come back
        stream_buffer: usize = Key::of(Size { least: 4 * KIB, most: GIB }).usual("4M");
    }
}

section! {
    /// Sessions: sandboxes that stay
    sessions: Sessions {
        /// Sessions at a time
        max: usize = Key::of(Whole { least: 0, most: 100_000 }).usual("200")
            .also(&["SANDBOXRUNNER_SANDBOX_MAX_SANDBOXES"], Same);
        /// Time without a call after which a session ends
        idle_timeout: Option<Duration> = Key::of(LIFE).usual("1h").also(&["IDLE_THRESHOLD_MINUTES"], Minutes);
        /// Time after which a session ends in any case
        lifetime: Option<Duration> = Key::of(LIFE).usual("1d").also(&["MAX_LIFETIME_HOURS"], Hours)
            .also(&["SANDBOX_SESSION_TTL", "WORKSPACE_EXPIRATION_TIME"], Same);
        /// Programs of one session that may run at once, where it asks for that
        max_concurrent: u32 = Key::of(Whole { least: 1, most: *engine::CONCURRENT.end() as u64 }).usual("8");
        /// Template of a session that names none
        default_template: String = Key::of(Text).usual("python-basic");
        /// Time between two savings of a session's workspace
        checkpoint_interval: Duration = Key::of(Time { least: SECOND, most: DAY, never: false }).usual("30s");
        /// Packages sessions may install over this host's network: ready-made `wheels`, or `all`, whose code then reaches it too
        install: InstallPolicy = Key::of(Choice(&["off", "wheels", "all"])).usual("off");
    }
}

section! {
    /// Sandboxes whose programs wait before anybody asks
    pool: Pool {
        /// Keep any
        enabled: bool = Key::of(Flag).usual("true").also(&["WARM_POOL_ENABLED"], Same);
        /// At least, of a kind that somebody has asked for lately
        min: usize = Key::of(Whole { least: 0, most: 10_000 }).usual("1").also(&["WARM_POOL_MIN_SIZE"], Same);
        /// At most, of one kind
        max: usize = Key::of(Whole { least: 0, most: 10_000 }).usual("8")
            .also(&["WARM_POOL_DEFAULT_SIZE", "SANDBOX_POOL_SIZE"], Same);
        /// The most a template can ask for, of one kind
        template_max: usize = Key::of(Whole { least: 0, most: 10_000 }).usual("16");
        /// Time nobody has to ask for a kind until its sandboxes are taken down
        idle_timeout: Duration = Key::of(Time { least: SECOND, most: 30 * DAY, never: false }).usual("5m")
            .also(&["WARM_POOL_MAX_IDLE_TIME", "SANDBOX_MAX_IDLE_TIME"], Same);
        /// Who shares loaded interpreters and their layout of memory: everybody (`template`), one owner's programs, or nobody
        zygote_scope: ZygoteScope = Key::of(Choice(&["template", "owner", "off"])).usual("template");
        /// Languages that are kept warm from the start
        languages: Vec<String> = Key::of(List).usual("python").check(languages);
        /// By language, a program that each waiting interpreter has run before: what it does is faster afterwards
        rehearsal: BTreeMap<String, String> = Key::of(Map).usual("").check(rehearsals);
    }
}

section! {
    /// What stands between programs and this host
    isolation: Isolation {
        /// Layers that may be missing on this host; what runs without one says so in its record
        allow_weaker: Vec<Layer> = Key::of(Choices(&["overlay", "cgroup"])).usual("");
        /// System calls of programs that do not ask for a profile
        profile: Profile = Key::of(Choice(&["default", "strict", "debug"])).usual("default");
        /// What programs can reach that do not ask for a network; `host` needs `allow_host_network`
        network: engine::Network = Key::of(Choice(&["none", "host"])).usual("none")
            .also(&["SANDBOX_ALLOW_NETWORK"], Unit::Network).also(&["SANDBOXRUNNER_SANDBOX_NETWORK_MODE"], Same);
        /// Allow programs to use the network of this host, which reaches this host too
        allow_host_network: bool = Key::of(Flag).usual("false");
    }
}

const PAUSE: Kind = Time { least: 1, most: HOUR, never: false };
const LIFE: Kind = Time { least: SECOND, most: 3650 * DAY, never: true };

/// Only languages of the catalogue.
fn languages(value: &Value) -> Result<(), String> {
    let names: Vec<&String> = match value {
        Value::List(names) => names.iter().collect(),
        Value::Map(pairs) => pairs.keys().collect(),
        _ => Vec::new(),
    };
    let catalogue = Catalogue::default();
    match names.into_iter().find_map(|name| catalogue.by_name(name).err()) {
        Some(engine::EngineError::Invalid { message, hint, .. }) => {
            Err(format!("{message}; {}", hint.unwrap_or_default()))
        }
        Some(error) => Err(error.to_string()),
        None => Ok(()),
    }
}

/// The same, and none of the programs longer than a waiting interpreter takes them.
fn rehearsals(value: &Value) -> Result<(), String> {
    languages(value)?;
    let Value::Map(programs) = value else { return Ok(()) };
    match programs.iter().find(|(_, program)| program.len() > MOST_REHEARSAL) {
        Some((language, _)) => {
            Err(format!("the program for `{language}` is longer than {MOST_REHEARSAL} bytes"))
        }
        None => Ok(()),
    }
}

impl Pool {
    /// The pool, as the engine wants to know it; none if there shall be none.
    pub fn settings(&self) -> Option<PoolSettings> {
        self.enabled.then(|| PoolSettings {
            min: self.min,
            max: self.max,
            template_max: self.template_max,
            idle_timeout: self.idle_timeout,
            zygote_scope: self.zygote_scope,
            rehearsal: self.rehearsal.clone(),
        })
    }
}
