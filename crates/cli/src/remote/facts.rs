//! Between words of people and JSON: what is sent, and how answers are shown.

use crate::args::remote::LimitArgs;
use crate::report::one_line;
use crate::run::request::variable;
use crate::show;
use anyhow::Result;
use comfy_table::Table;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Limits, as the API takes them: only those that were given.
pub(super) fn limits(args: &LimitArgs) -> Map<String, Value> {
    let millis = |value: Option<u64>| value.map(|ms| Value::from(format!("{ms}ms")));
    let number = |value: Option<u64>| value.map(Value::from);
    given([
        ("timeout", millis(args.timeout)),
        ("cpu_time", millis(args.cpu_time)),
        ("memory", number(args.memory)),
        ("cpus", args.cpus.map(|millis| format!("{millis}m").into())),
        ("pids", number(args.pids)),
        ("disk", number(args.disk)),
        ("inodes", number(args.inodes)),
        ("open_files", number(args.open_files)),
        ("output", number(args.output)),
    ])
}

/// An object of what is there.
pub(super) fn given<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Map<String, Value> {
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Words, if there are any.
pub(super) fn some(words: &[String]) -> Option<Value> {
    (!words.is_empty()).then(|| json!(words))
}

/// An object of `NAME=VALUE`s, if there are any.
pub(super) fn pairs(texts: &[String]) -> Result<Option<Value>> {
    let pairs: Map<String, Value> = texts
        .iter()
        .map(|text| variable(text).map(|(name, value)| (name, value.into())))
        .collect::<Result<_>>()?;
    Ok((!pairs.is_empty()).then_some(Value::Object(pairs)))
}

/// An object, if there is anything in it.
pub(super) fn object(map: Map<String, Value>) -> Option<Value> {
    (!map.is_empty()).then_some(Value::Object(map))
}

/// A value in a cell of a table.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => one_line(text),
        Value::Array(list) if list.is_empty() => "-".into(),
        Value::Array(list) => list.iter().map(cell).collect::<Vec<_>>().join(" "),
        Value::Object(map) if map.is_empty() => "-".into(),
        Value::Object(map) => {
            map.iter().map(|(name, value)| one_line(name) + "=" + &cell(value)).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// A number of bytes in a cell.
pub(super) fn size(value: &Value) -> String {
    value.as_u64().map_or("-".into(), show::size)
}

/// Milliseconds in a cell; fewer than none are for ever.
pub(super) fn span(value: &Value) -> String {
    match value.as_i64() {
        None => "-".into(),
        Some(ms) if ms < 0 => "never".into(),
        Some(ms) => duration(ms / 1000),
    }
}

/// How long ago a time is that was told as RFC 3339.
pub(super) fn ago(value: &Value) -> String {
    match value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        None => "-".into(),
        Some(at) => duration(Timestamp::now().as_second() - at.as_second()) + " ago",
    }
}

/// Seconds in the two units that matter.
pub(super) fn duration(seconds: i64) -> String {
    let units = |many: i64, of: &str, rest: i64, smaller: &str| match rest {
        0 => format!("{many}{of}"),
        rest => format!("{many}{of}{rest}{smaller}"),
    };
    match seconds.max(0) {
        s if s < 60 => format!("{s}s"),
        s if s < 3600 => units(s / 60, "m", s % 60, "s"),
        s if s < 86_400 => units(s / 3600, "h", s % 3600 / 60, "m"),
        s => units(s / 86_400, "d", s % 86_400 / 3600, "h"),
    }
}

/// Names and values, one a line.
pub(super) fn table(title: &str, rows: &[(&str, String)]) -> Table {
    let mut table = show::table(&[title, ""]);
    for (name, value) in rows {
        table.add_row([*name, value]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units() {
        let told = [-5, 59, 60, 61, 3600, 3661, 86_400, 90_000].map(duration);
        assert_eq!(told, ["0s", "59s", "1m", "1m1s", "1h", "1h1m", "1d", "1d1h"]);
    }

    #[test]
    fn cells_are_one_line_and_send_nothing_to_the_terminal() {
        assert_eq!(cell(&json!("a\u{1b}[31m\nb")), "a\\u{1b}[31m\\nb");
        assert_eq!(cell(&json!(["x", "y"])), "x y");
        assert_eq!(cell(&json!({"A": "1", "B": 2})), "A=1 B=2");
        assert_eq!((cell(&json!([])), cell(&Value::Null)), ("-".into(), "-".into()));
    }
}
