//! Kinds of settings: how each is read from what a person wrote, and what it may be.
//!
//! A value outside of its range is refused, never cut.

use super::value::{Secret, Value};
use engine::limits::{bytes, cores, duration};
use std::collections::BTreeMap;
use std::time::Duration;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// What a setting is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Yes or no.
    Flag,
    /// A whole number.
    Whole {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// Any number.
    Decimal {
        /// The smallest.
        least: f64,
        /// The largest.
        most: f64,
    },
    /// A span of time, in milliseconds.
    Time {
        /// The shortest.
        least: u64,
        /// The longest.
        most: u64,
        /// Whether `-1` is one, and means that it never ends.
        never: bool,
    },
    /// Bytes.
    Size {
        /// The fewest.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Processor time, in thousandths of a core.
    Cores {
        /// The fewest.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Any text but none.
    Text,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Texts.
    List,
    /// Some of these.
    Choices(&'static [&'static str]),
    /// Names, each with a text.
    Map,
    /// A path of this host.
    Path,
    /// What nobody is shown; `file:/path` is where it lies.
    Secret,
    /// An address of something that speaks HTTP.
    Url,
    /// An address of a database; `file:/path` is where it lies.
    Database,
    /// A directory, or `s3://bucket/prefix`.
    Objects,
}

/// What somebody wrote, as the file's format understood it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given {
    Text(String),
    List(Vec<String>),
    Map(Vec<(String, String)>),
}

/// What is wrong with it, and how it would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Wrong {
    pub(super) fn new(message: impl Into<String>) -> Wrong {
        Wrong { message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Wrong {
        self.hint = Some(hint.into());
        self
    }
}

impl Kind {
    /// Reads a value.
    pub(super) fn read(&self, given: &Given) -> Result<Value, Wrong> {
        match (self, given) {
            (Kind::List, _) => list(given).map(Value::List),
            (Kind::Choices(known), _) => {
                let words = list(given)?;
                words.iter().try_for_each(|word| choose(word, known).map(drop))?;
                Ok(Value::List(words))
            }
            (Kind::Map, _) => map(given).map(Value::Map),
            (_, Given::Text(text)) if text.trim().is_empty() => {
                Err(Wrong::new("has no value").hint(format!("give {}, or leave it out", self.words())))
            }
            (_, Given::Text(text)) => self.read_text(text.trim()),
            _ => Err(Wrong::new("is one value, not several").hint(format!("give {}", self.words()))),
        }
    }

    fn read_text(&self, text: &str) -> Result<Value, Wrong> {
        let wrong = |message: String| Wrong::new(message).hint(format!("give {}", self.words()));
        match *self {
            Kind::Flag => {
                flag(text).map(Value::Flag).ok_or_else(|| wrong(format!("`{text}` is neither yes nor no")))
            }
            Kind::Whole { least, most } => {
                let number =
                    text.parse::<u64>().map_err(|_| wrong(format!("`{text}` is no whole number")))?;
                self.within(number, least, most, text).map(Value::Whole)
            }
            Kind::Decimal { least, most } => match text.parse::<f64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(Value::Decimal(number)),
                Ok(_) => Err(wrong(format!("`{text}` is out of range"))),
                Err(_) => Err(wrong(format!("`{text}` is no number"))),
            },
            Kind::Time { never: true, .. } if ["-1", "never"].contains(&text) => Ok(Value::Never),
            Kind::Time { least, most, .. } => {
                let millis = span(text).map_err(&wrong)?;
                self.within(millis, least, most, text)
                    .map(|millis| Value::Time(Duration::from_millis(millis)))
            }
            Kind::Size { least, most } => {
                self.within(bytes(text).map_err(&wrong)?, least, most, text).map(Value::Size)
            }
            Kind::Cores { least, most } => {
                self.within(cores(text).map_err(&wrong)?, least, most, text).map(Value::Cores)
            }
            Kind::Choice(known) => choose(text, known).map(|word| Value::Text(word.into())),
            Kind::Url => {
                let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
                match rest {
                    Some(rest)
                        if !rest.is_empty()
                            && !rest.starts_with('/')
                            && !text.contains(char::is_whitespace) =>
                    {
                        Ok(Value::Text(text.into()))
                    }
                    _ => Err(wrong(format!("`{text}` is no address"))),
                }
            }
            Kind::Database => {
                let url = secret(text)?;
                match url.parse::<engine::storage::DatabaseUrl>() {
                    Ok(_) => Ok(Value::Text(url)),
                    Err(error) => {
                        let hint = error.hint().unwrap_or_default().to_owned();
                        Err(Wrong { message: error.to_string(), hint: Some(hint) })
                    }
                }
            }
            Kind::Objects => match text.split_once("://") {
                None => Ok(Value::Text(text.into())),
                Some(("s3", place)) if !place.is_empty() && !place.starts_with('/') => {
                    Ok(Value::Text(text.into()))
                }
                Some(_) => Err(wrong(format!("`{text}` is no place for objects"))),
            },
            Kind::Secret => secret(text).map(|text| Value::Secret(Secret::new(text))),
            Kind::Text | Kind::Path => Ok(Value::Text(text.into())),
            Kind::List | Kind::Choices(_) | Kind::Map => {
                Err(wrong(format!("`{text}` is one value, not several")))
            }
        }
    }

    fn within(&self, value: u64, least: u64, most: u64, text: &str) -> Result<u64, Wrong> {
        match (least..=most).contains(&value) {
            true => Ok(value),
            false => {
                Err(Wrong::new(format!("`{text}` is out of range")).hint(format!("give {}", self.words())))
            }
        }
    }

    /// What would be right, as the object of a sentence.
    pub fn words(&self) -> String {
        let span = |millis| Value::Time(Duration::from_millis(millis)).written();
        let size = |bytes| Value::Size(bytes).written();
        match *self {
            Kind::Flag => "`true` or `false`".into(),
            Kind::Whole { least, most: u64::MAX } => format!("a whole number of at least {least}"),
            Kind::Whole { least, most } => format!("a whole number from {least} to {most}"),
            Kind::Decimal { least, most } => format!("a number from {least} to {most}"),
            Kind::Time { least, most, never } => {
                let never = if never { ", or `-1` for never" } else { "" };
                format!("a time from `{}` to `{}`{never}", span(least), span(most))
            }
            Kind::Size { least, most: u64::MAX } => format!("a size of at least `{}`", size(least)),
            Kind::Size { least, most } => format!("a size from `{}` to `{}`", size(least), size(most)),
            Kind::Cores { least, most } => {
                let cores = |millis| Value::Cores(millis).written();
                format!("cores from `{}` to `{}`, such as `0.5`, `500m` or `50%`", cores(least), cores(most))
            }
            Kind::Text => "a text".into(),
            Kind::Choice(known) => format!("one of {}", quoted(known)),
            Kind::List => "a list of texts".into(),
            Kind::Choices(known) => format!("a list of {}", quoted(known)),
            Kind::Map => "names, each with a text".into(),
            Kind::Path => "a path".into(),
            Kind::Secret => "a secret, or `file:/path` of a file that only its owner can read".into(),
            Kind::Url => "an address that starts with `http://` or `https://`".into(),
            Kind::Database => "the address of a database, or `file:/path` of a file it is in".into(),
            Kind::Objects => "a directory, or `s3://bucket/prefix`".into(),
        }
    }
}

fn quoted(known: &[&str]) -> String {
    let words: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// Yes or no, in the ways people write it.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn choose(text: &str, known: &'static [&'static str]) -> Result<&'static str, Wrong> {
    let found = known.iter().find(|word| word.eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| {
        let hint = match super::nearest::nearest(text, known.iter().copied()) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("choose one of {}", quoted(known)),
        };
        Wrong::new(format!("`{text}` is none of the choices")).hint(hint)
    })
}

/// What limits take, and days.
fn span(text: &str) -> Result<u64, String> {
    match text.strip_suffix('d').or_else(|| text.strip_suffix("days")) {
        Some(days) => {
            let hours = duration(&format!("{}h", days.trim_end()))?;
            hours.checked_mul(DAY / HOUR).ok_or_else(|| "the number is too large".into())
        }
        None => duration(text).map_err(|error| error.replace("or `2m`", "`2m`, `1h` or `30d`")),
    }
}

/// `["a", "b"]`, or `a, b`.
fn list(given: &Given) -> Result<Vec<String>, Wrong> {
    match given {
        Given::List(words) => Ok(words.clone()),
        Given::Map(_) => Err(Wrong::new("is a list, not names with texts")),
        Given::Text(text) if text.trim_start().starts_with('[') => serde_json::from_str(text).map_err(|_| {
            Wrong::new("begins like a list, and is none")
                .hint("write `a, b`, or `[\"a\", \"b\"]` with all the quotes")
        }),
        Given::Text(text) => {
            Ok(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(Into::into).collect())
        }
    }
}

/// `{"a": "b"}`, or `a=b, c=d`.
fn map(given: &Given) -> Result<BTreeMap<String, String>, Wrong> {
    let advice = "write `name=text, …`, or `{\"name\": \"text\"}` with all the quotes";
    match given {
        Given::Map(pairs) => Ok(pairs.iter().cloned().collect()),
        Given::List(_) => Err(Wrong::new("is names with texts, not a list")),
        Given::Text(text) if text.trim_start().starts_with('{') => serde_json::from_str(text)
            .map_err(|_| Wrong::new("begins like names with texts, and is none").hint(advice)),
        Given::Text(text) => {
            let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
            let split = |pair: &str| match pair.split_once('=') {
                Some((name, text)) => Ok((name.trim().to_owned(), text.trim().to_owned())),
                None => Err(Wrong::new(format!("`{pair}` has no `=`")).hint(advice)),
            };
            pairs.map(split).collect()
        }
    }
}

/// The text itself, or what lies in the file it names.
fn secret(text: &str) -> Result<String, Wrong> {
    match text.strip_prefix("file:") {
        Some(path) => super::file::secret(std::path::Path::new(path)),
        None => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, text: &str) -> Result<Value, Wrong> {
        kind.read(&Given::Text(text.into()))
    }

    #[test]
    fn times_have_days_and_may_never_end() {
        let kind = Kind::Time { least: 1000, most: 60 * DAY, never: true };
        assert_eq!(read(kind, "30d"), Ok(Value::Time(Duration::from_secs(30 * 86_400))));
        assert_eq!(read(kind, "90"), Ok(Value::Time(Duration::from_secs(90))));
        assert_eq!(read(kind, "-1"), Ok(Value::Never));
        for wrong in ["999ms", "61d", "d", "x", "1w", "99999999999999999999d"] {
            assert!(read(kind, wrong).is_err_and(|e| e.hint.is_some()), "{wrong}");
        }
        assert!(read(Kind::Time { least: 0, most: DAY, never: false }, "-1").is_err());
    }

    #[test]
    fn lists_and_maps_are_written_in_two_ways() {
        assert_eq!(read(Kind::List, "a, b,"), Ok(Value::List(vec!["a".into(), "b".into()])));
        assert_eq!(read(Kind::List, r#"["a,b"]"#), Ok(Value::List(vec!["a,b".into()])));
        assert!(read(Kind::List, "[a]").is_err());
        let pairs: BTreeMap<String, String> = [("a".into(), "1".into()), ("b".into(), "x=y".into())].into();
        assert_eq!(read(Kind::Map, "a=1, b=x=y"), Ok(Value::Map(pairs.clone())));
        assert_eq!(read(Kind::Map, r#"{"a": "1", "b": "x=y"}"#), Ok(Value::Map(pairs)));
        assert!(read(Kind::Map, "a").is_err());
    }

    #[test]
    fn a_wrong_choice_is_told_the_near_one() {
        let kind = Kind::Choice(&["template", "owner", "off"]);
        assert_eq!(read(kind, "OFF"), Ok(Value::Text("off".into())));
        assert_eq!(read(kind, "templte").unwrap_err().hint.as_deref(), Some("did you mean `template`?"));
        assert_eq!(
            read(kind, "everybody").unwrap_err().hint.as_deref(),
            Some("choose one of `template`, `owner`, `off`")
        );
    }

    #[test]
    fn nothing_is_no_value() {
        for kind in [Kind::Flag, Kind::Text, Kind::Secret, Kind::Path, Kind::Size { least: 0, most: 9 }] {
            assert_eq!(read(kind, " ").unwrap_err().message, "has no value");
        }
        assert_eq!(read(Kind::List, ""), Ok(Value::List(Vec::new())));
    }
}
