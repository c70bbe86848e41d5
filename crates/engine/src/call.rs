//! Programs that are run for a value: of their handler, or of their last expression.
//!
//! A host program of ours (`runtimes/handler/`) loads the user's, calls it and leaves what came of it in a file. Event,
//! context and host go in as files of the build directory, which is no part of the workspace; the executor brings back
//! what was left there. What the program prints is never looked at, so no output can be taken for a value. The file lies
//! within reach of the program: what it writes there itself is its own value, bounded and checked like any other.

use crate::EngineError;
use crate::cache::BuiltFile;
use crate::execution::Status;
use crate::limits::{Limits, show_bytes};
use crate::runtime::{Host, Variant};
use protocol::Returned;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Host programs, by name.
const HOSTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/hosts.rs"));
/// Most bytes of a value, as JSON.
const MOST_VALUE: u64 = 1 << 20;
/// The same with what a host puts around it.
pub(crate) const MOST_LEFT: u64 = MOST_VALUE + br#"{"value":}"#.len() as u64;
/// Most bytes of event and context, as JSON.
const MOST_CALL: u64 = 16 << 20;
/// Most characters of what a host says went wrong.
const MOST_WORDS: usize = 2000;
/// The key of an event that says how long its run may take, in seconds.
const TIMEOUT: &str = "__timeout";
/// Exit code of a run that has no value, or one that cannot be told.
pub(crate) const NO_VALUE: i32 = 3;

/// What is wanted of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Mode {
    /// That it runs, as a file of its language.
    #[default]
    Script,
    /// The value of its function `handler`, called with an event, and a context if it takes one.
    Handler {
        /// What happened. `__timeout` in it is the time limit in seconds, unless the request has one.
        event: Value,
        /// What differs from the usual context.
        context: Map<String, Value>,
    },
    /// The value of its last expression.
    Evaluate,
}

impl Mode {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Mode::Script => "script",
            Mode::Handler { .. } => "handler",
            Mode::Evaluate => "evaluate",
        }
    }

    /// How a variant of a language has it.
    pub(crate) fn host<'v>(&self, variant: &'v Variant) -> Option<&'v Host> {
        match self {
            Mode::Script => None,
            Mode::Handler { .. } => variant.handler.as_ref(),
            Mode::Evaluate => variant.evaluate.as_ref(),
        }
    }

    /// The time that an event asks for.
    pub(crate) fn timeout_ms(&self) -> Result<Option<u64>, EngineError> {
        let Mode::Handler { event: Value::Object(event), .. } = self else { return Ok(None) };
        let Some(wanted) = event.get(TIMEOUT) else { return Ok(None) };
        match wanted.as_f64() {
            Some(seconds) if (1.0..=3600.0).contains(&seconds) => Ok(Some((seconds * 1000.0).round() as u64)),
            _ => Err(EngineError::invalid("event", format!("`{TIMEOUT}` is {wanted}"))
                .with_hint("it is a number of seconds between 1 and 3600")),
        }
    }

    /// Checks what only the caller can get wrong. How many bytes it takes, about.
    pub(crate) fn check(&self) -> Result<u64, EngineError> {
        let Mode::Handler { event, context } = self else { return Ok(0) };
        let usual = usual_context();
        if let Some(unknown) = context.keys().find(|key| !usual.contains_key(*key)) {
            let known: Vec<&str> = usual.keys().map(String::as_str).collect();
            return Err(EngineError::invalid("context", format!("`{unknown}` is no part of a context"))
                .with_hint(format!("it has {}; pass anything else in the event", known.join(", "))));
        }
        let bytes = length(event)? + length(context)?;
        if bytes > MOST_CALL {
            return Err(EngineError::invalid("event", format!("{} is too large", show_bytes(bytes)))
                .with_hint(format!("at most {}; pass large data as a file", show_bytes(MOST_CALL))));
        }
        Ok(bytes)
    }
}

/// Where a file of a call lies in the build directory.
pub(crate) fn place(name: &str) -> String {
    format!("call/{name}")
}

/// The files that make a call: the host, and what it is told.
pub(crate) fn files(mode: &Mode, host: &Host, limits: &Limits) -> Result<Vec<BuiltFile>, EngineError> {
    let text = HOSTS.iter().find(|(name, _)| *name == host.host).map(|(_, text)| *text);
    let text = text.ok_or_else(|| EngineError::Broken(format!("there is no host `{}`", host.host)))?;
    let now = jiff::Timestamp::now().as_millisecond();
    let mut left_ms = limits.timeout_ms;
    let mut call = json!({"mode": mode.name(), "most_value_bytes": MOST_VALUE});
    if let Mode::Handler { event, context } = mode {
        let mut whole = usual_context();
        whole.extend(context.clone());
        if let Some(wanted) = context.get("remaining_time_in_millis").and_then(Value::as_u64) {
            left_ms = left_ms.min(wanted);
        }
        call["event"] = event.clone();
        call["context"] = whole.into();
    }
    call["deadline_ms"] = now.saturating_add_unsigned(left_ms).into();
    let file = |name: &str, content: Vec<u8>| BuiltFile { path: place(name), content, executable: false };
    Ok(vec![
        file(&host.host, text.as_bytes().to_vec()),
        file("call.json", serde_json::to_vec(&call).map_err(|e| EngineError::Broken(e.to_string()))?),
    ])
}

/// What every handler is told that nobody told anything else.
fn usual_context() -> Map<String, Value> {
    let id = || uuid::Uuid::now_v7().to_string();
    let all = [
        ("function_name", json!("unknown-function")),
        ("function_version", json!("$LATEST")),
        ("request_id", id().into()),
        ("log_group_name", json!("/lambda-sandbox/logs")),
        ("log_stream_name", id().into()),
        ("remaining_time_in_millis", json!(3000)),
        ("memory_limit_in_mb", json!(256)),
        ("invoked_function_arn", Value::Null),
    ];
    all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// How long something is as JSON.
fn length(value: &impl serde::Serialize) -> Result<u64, EngineError> {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_err(|e| EngineError::invalid("event", e.to_string()))?;
    Ok(count.0)
}

/// What a host leaves.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Left {
    /// The value.
    Value(Value),
    /// Why there is none.
    Failure(String),
}

/// What a run that shall have a value has.
#[derive(Debug, PartialEq)]
pub(crate) enum Judged {
    /// A value.
    Value(Value),
    /// It failed, for this reason.
    Failed(String),
    /// It would be a success, but for its value.
    NoValue(String),
    /// It did not get that far.
    Otherwise,
}

/// What is to be thought of a run that ended so and left this.
pub(crate) fn judge(mode: &Mode, status: Status, returned: Option<Returned>, left: &[u8]) -> Judged {
    let of = if matches!(mode, Mode::Handler { .. }) { "the value of the handler" } else { "the value" };
    let read = match returned {
        Some(Returned::Sent) => serde_json::from_slice(left).map_err(|e| format!("{of} is no JSON: {e}")),
        Some(Returned::TooLarge) => Err(format!("{of} is larger than {}", show_bytes(MOST_VALUE))),
        Some(Returned::Unreadable { errno }) => {
            let why = std::io::Error::from_raw_os_error(errno);
            Err(format!("{of} cannot be read: {why}"))
        }
        Some(Returned::None) | None => Err(format!("it ended before {of} was known")),
    };
    match (status, read) {
        (Status::Success, Ok(Left::Value(value))) => Judged::Value(value),
        (Status::Success, Ok(Left::Failure(words))) => Judged::NoValue(short(&words)),
        (Status::Success, Err(why)) => Judged::NoValue(why),
        (Status::Failed, Ok(Left::Failure(words))) => Judged::Failed(short(&words)),
        _ => Judged::Otherwise,
    }
}

fn short(words: &str) -> String {
    words.chars().take(MOST_WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handler(event: Value) -> Mode {
        Mode::Handler { event, context: Map::new() }
    }

    #[test]
    fn an_event_may_say_how_long() {
        assert_eq!(handler(json!({"__timeout": 2})).timeout_ms(), Ok(Some(2000)));
        assert_eq!(handler(json!({"__timeout": 1.5})).timeout_ms(), Ok(Some(1500)));
        for none in [json!({"timeout": 2}), json!(null), json!([1]), json!("__timeout")] {
            assert_eq!(handler(none).timeout_ms(), Ok(None));
        }
        for wrong in [json!(0), json!(-1), json!(3601), json!("5"), json!(null), json!(true)] {
            let refused = handler(json!({"__timeout": wrong})).timeout_ms().unwrap_err();
            assert!(refused.to_string().contains("__timeout"), "{refused}");
        }
        assert_eq!(Mode::Evaluate.timeout_ms(), Ok(None));
    }

    #[test]
    fn a_context_has_the_usual_keys_and_no_others() {
        let context = |key: &str| Map::from_iter([(key.to_owned(), json!("x"))]);
        let mode = |key| Mode::Handler { event: json!({}), context: context(key) };
        assert!(mode("function_name").check().is_ok());
        let refused = mode("function-name").check().unwrap_err();
        assert!(refused.to_string().contains("`function-name`"), "{refused}");
        assert!(refused.hint().is_some_and(|hint| hint.contains("request_id")), "{refused:?}");
    }

    #[test]
    fn every_value_is_kept_apart_from_none() {
        let mode = handler(json!({}));
        for value in
            [json!(null), json!(false), json!(0), json!(""), json!([]), json!({}), json!({"ü": [1.5]})]
        {
            let left = json!({"value": value}).to_string();
            let judged = judge(&mode, Status::Success, Some(Returned::Sent), left.as_bytes());
            assert_eq!(judged, Judged::Value(value));
        }
        let none = judge(&mode, Status::Success, Some(Returned::None), b"");
        assert_eq!(none, Judged::NoValue("it ended before the value of the handler was known".into()));
    }

    #[test]
    fn what_is_no_value_is_said_to_be_none() {
        let sent = Some(Returned::Sent);
        for left in ["", "7", "{}", "{\"value\":", "{\"value\":NaN}", "{\"value\":1,\"value\":2}", "\u{0}"] {
            let judged = judge(&Mode::Evaluate, Status::Success, sent, left.as_bytes());
            assert!(matches!(&judged, Judged::NoValue(why) if why.contains("no JSON")), "{left}: {judged:?}");
        }
        let deep = format!("{{\"value\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
        let judged = judge(&Mode::Evaluate, Status::Success, sent, deep.as_bytes());
        assert!(matches!(judged, Judged::NoValue(_)), "{judged:?}");
        for returned in [Returned::TooLarge, Returned::Unreadable { errno: 40 }] {
            let judged = judge(&Mode::Evaluate, Status::Success, Some(returned), b"");
            assert!(matches!(judged, Judged::NoValue(_)), "{judged:?}");
        }
    }

    #[test]
    fn who_failed_has_no_value_whatever_it_left() {
        let sent = Some(Returned::Sent);
        let left = |left: &str, status| judge(&Mode::Evaluate, status, sent, left.as_bytes());
        assert_eq!(left("{\"value\":1}", Status::Failed), Judged::Otherwise);
        assert_eq!(left("{\"failure\":\"why\"}", Status::Failed), Judged::Failed("why".into()));
        assert_eq!(left("{\"failure\":\"why\"}", Status::TimedOut), Judged::Otherwise);
        assert_eq!(left("{\"failure\":\"why\"}", Status::Success), Judged::NoValue("why".into()));
        let long = format!("{{\"failure\":{:?}}}", "ü".repeat(9000));
        let Judged::Failed(words) = left(&long, Status::Failed) else { panic!("no failure") };
        assert_eq!(words.chars().count(), MOST_WORDS);
    }
}
