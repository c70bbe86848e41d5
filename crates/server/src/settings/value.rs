//! Values of settings, between what was written and the types that the rest of the server sees.

use crate::mcp::{self, ContentStyle};
use engine::control::InstallPolicy;
use engine::storage::DatabaseUrl;
use engine::{Layer, Network, Profile, ZygoteScope};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What a setting has come to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// It is not set, and nothing stands in for it.
    Nothing,
    /// A time that is never over.
    Never,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// Any number.
    Decimal(f64),
    /// A span of time.
    Time(Duration),
    /// Bytes.
    Size(u64),
    /// Thousandths of a core.
    Cores(u64),
    /// A text, path, choice or address.
    Text(String),
    /// Texts.
    List(Vec<String>),
    /// Names with texts.
    Map(BTreeMap<String, String>),
    /// What nobody is shown.
    Secret(Secret),
}

impl Value {
    /// The value as it can be read back. Secrets too: this is not for people to see.
    pub fn written(&self) -> String {
        match self {
            Value::Nothing => String::new(),
            Value::Never => "-1".into(),
            Value::Flag(yes) => yes.to_string(),
            Value::Whole(number) => number.to_string(),
            Value::Decimal(number) => number.to_string(),
            Value::Time(span) => time(*span),
            Value::Size(bytes) => size(*bytes),
            Value::Cores(millis) => cores(*millis),
            Value::Text(text) => text.clone(),
            Value::List(words) => serde_json::Value::from(words.clone()).to_string(),
            Value::Map(pairs) => serde_json::json!(pairs).to_string(),
            Value::Secret(secret) => secret.reveal().into(),
        }
    }
}

/// Exact, unlike what is made for people only.
fn size(bytes: u64) -> String {
    let units = [("G", 30), ("M", 20), ("K", 10)];
    match units.iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift)) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

fn time(span: Duration) -> String {
    let millis = span.as_millis() as u64;
    match millis / 86_400_000 {
        days if days > 0 && millis.is_multiple_of(86_400_000) => format!("{days}d"),
        _ => engine::limits::show_millis(millis),
    }
}

fn cores(millis: u64) -> String {
    if millis.is_multiple_of(1000) { (millis / 1000).to_string() } else { format!("{millis}m") }
}

/// A text that is not printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text, for where it is needed.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A type that a setting can have.
pub(super) trait Typed: Sized {
    /// The value in this type; none if it is of another kind.
    fn of(value: &Value) -> Option<Self>;
}

impl<T: Typed> Typed for Option<T> {
    fn of(value: &Value) -> Option<Option<T>> {
        match value {
            Value::Nothing | Value::Never => Some(None),
            value => T::of(value).map(Some),
        }
    }
}

/// Types whose values are in one variant.
macro_rules! typed {
    ($($type:ty: $pattern:pat => $result:expr;)*) => {
        $(impl Typed for $type {
            fn of(value: &Value) -> Option<$type> {
                match value {
                    $pattern => $result,
                    _ => None,
                }
            }
        })*
    };
}

typed! {
    bool: Value::Flag(yes) => Some(*yes);
    u16: Value::Whole(number) => u16::try_from(*number).ok();
    u32: Value::Whole(number) => u32::try_from(*number).ok();
    u64: Value::Whole(number) | Value::Size(number) | Value::Cores(number) => Some(*number);
    usize: Value::Whole(number) | Value::Size(number) => usize::try_from(*number).ok();
    f64: Value::Decimal(number) => Some(*number);
    Duration: Value::Time(span) => Some(*span);
    String: Value::Text(text) => Some(text.clone());
    PathBuf: Value::Text(text) => Some(text.into());
    Vec<String>: Value::List(words) => Some(words.clone());
    BTreeMap<String, String>: Value::Map(pairs) => Some(pairs.clone());
    Secret: Value::Secret(secret) => Some(secret.clone());
    DatabaseUrl: Value::Text(text) => text.parse().ok();
    Vec<Layer>: Value::List(words) => words.iter().map(|word| layer(word)).collect();
}

fn layer(word: &str) -> Option<Layer> {
    match word.to_ascii_lowercase().as_str() {
        "overlay" => Some(Layer::Overlay),
        "cgroup" => Some(Layer::Cgroup),
        _ => None,
    }
}

/// Types that are one of a few words.
macro_rules! worded {
    ($($type:ty { $($word:literal => $value:expr,)* })*) => {
        $(impl Typed for $type {
            fn of(value: &Value) -> Option<$type> {
                match value {
                    $(Value::Text(text) if text == $word => Some($value),)*
                    _ => None,
                }
            }
        })*
    };
}

worded! {
    Network { "none" => Network::None, "host" => Network::Host, }
    Profile { "default" => Profile::Default, "strict" => Profile::Strict, "debug" => Profile::Debug, }
    InstallPolicy {
        "off" => InstallPolicy::Off,
        "wheels" => InstallPolicy::Wheels,
        "all" => InstallPolicy::All,
    }
    ZygoteScope {
        "template" => ZygoteScope::Template,
        "owner" => ZygoteScope::Owner,
        "off" => ZygoteScope::Off,
    }
    mcp::Profile {
        "all" => mcp::Profile::All,
        "code-sandbox" => mcp::Profile::CodeSandbox,
        "sandboxrunner" => mcp::Profile::SandboxRunner,
        "minimal" => mcp::Profile::Minimal,
    }
    ContentStyle {
        "stream" => ContentStyle::Stream,
        "compact" => ContentStyle::Compact,
        "plain" => ContentStyle::Plain,
    }
    LogFormat { "auto" => LogFormat::Auto, "json" => LogFormat::Json, "text" => LogFormat::Text, }
    Level {
        "error" => Level::Error,
        "warn" => Level::Warn,
        "info" => Level::Info,
        "debug" => Level::Debug,
        "trace" => Level::Trace,
    }
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    Auto,
    /// One object a line.
    Json,
    /// For people.
    Text,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What is broken.
    Error,
    /// What may become so.
    Warn,
    /// What happens.
    Info,
    /// How it happens.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    /// Its name, as a filter of the log takes it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_not_printed() {
        let secret = Secret::new("hunter2".into());
        assert_eq!(format!("{:?} {:?}", secret, Value::Secret(secret.clone())), "*** Secret(***)");
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn a_value_of_another_kind_is_none_of_this_type() {
        assert_eq!(u16::of(&Value::Whole(70_000)), None);
        assert_eq!(bool::of(&Value::Whole(1)), None);
        assert_eq!(Network::of(&Value::Text("bridge".into())), None);
        assert_eq!(Option::<Duration>::of(&Value::Never), Some(None));
    }

    proptest! {
        #[test]
        fn numbers_are_written_exactly(number in any::<u32>(), shift in 0u32..20) {
            let number = u64::from(number) << shift;
            prop_assert_eq!(engine::limits::bytes(&size(number)), Ok(number));
            prop_assert_eq!(engine::limits::cores(&cores(number)), Ok(number));
        }
    }
}
