//! Whether a command's answer is well-formed and agrees with itself, whatever it says.

use crate::seen::{Seen, cut};
use base64::Engine;
use serde_json::Value;
use std::time::Duration;

/// Exit code of the command for a status, where it does not come from the program.
const STATUSES: [(&str, Option<i64>); 13] = [
    ("success", Some(0)),
    ("failed", None),
    ("signalled", None),
    ("timed_out", Some(124)),
    ("cpu_limit", Some(124)),
    ("out_of_memory", Some(137)),
    ("output_limit", Some(153)),
    ("process_limit", None),
    ("disk_limit", None),
    ("bad_arch", Some(159)),
    ("cancelled", Some(130)),
    ("start_failed", Some(125)),
    ("infra_error", Some(125)),
];

/// Reads what `sandboxd run --json` said: what was seen, and what is malformed about it.
pub(crate) fn read(code: i32, stdout: &[u8], stderr: &[u8], took: Duration) -> (Seen, Vec<String>) {
    if stdout.is_empty() {
        return read_complaint(code, stderr, took);
    }
    let text = String::from_utf8_lossy(stdout);
    let whole = text.ends_with('\n') && text.lines().count() == 1;
    let (true, Ok(record)) = (whole, serde_json::from_str::<Value>(&text)) else {
        let seen = Seen { status: "malformed".into(), took, stderr: stderr.into(), ..Seen::default() };
        return (seen, vec![format!("no single line of JSON: {}", cut(&text))]);
    };
    let wrong = malformed(&record, Some(i64::from(code)));
    (seen(record, took), wrong)
}

/// Reads what was answered to `POST /api/v1/execute`: the same record, or a problem in one shape.
pub(crate) fn read_answer(status: u16, body: &[u8], took: Duration) -> (Seen, Vec<String>) {
    let said = serde_json::from_slice::<Value>(body).unwrap_or_default();
    if status == 200 {
        let wrong = malformed(&said, None);
        return (seen(said, took), wrong);
    }
    let whole = said["status"].as_u64() == Some(u64::from(status)) && said["code"].is_string();
    let wrong = match whole && status != 500 {
        true => Vec::new(),
        false => vec![format!("answered with {status} and {}", cut(&String::from_utf8_lossy(body)))],
    };
    let status = match status {
        400..=499 => "refused",
        503 | 507 => "unavailable",
        _ => "nothing",
    };
    let [field, detail, hint] =
        ["field", "detail", "hint"].map(|part| said[part].as_str().unwrap_or_default());
    let stderr = format!("error: {field}: {detail}\nhint: {hint}\n").into_bytes();
    (Seen { status: status.into(), stderr, took, ..Seen::default() }, wrong)
}

/// What was seen of a run that has a record.
fn seen(record: Value, took: Duration) -> Seen {
    Seen {
        status: record["status"].as_str().unwrap_or_default().into(),
        exit_code: record["exit_code"].as_i64(),
        signal: record["signal"].as_i64(),
        stdout: stream(&record, "stdout").unwrap_or_default(),
        stderr: stream(&record, "stderr").unwrap_or_default(),
        record: Some(record),
        took,
    }
}

/// Without a record there is a complaint people can act on, and no panic.
fn read_complaint(code: i32, stderr: &[u8], took: Duration) -> (Seen, Vec<String>) {
    let text = String::from_utf8_lossy(stderr);
    let status = match code {
        2 => "refused",
        125 => "unavailable",
        _ => "nothing",
    };
    let mut wrong = Vec::new();
    if !text.lines().any(|line| line.starts_with("error: ")) {
        wrong.push(format!("exit code {code} without a record, and no `error:` line: {}", cut(&text)));
    }
    if text.contains("panicked") || text.contains("RUST_BACKTRACE") {
        wrong.push(format!("it panicked: {}", cut(&text)));
    }
    (Seen { status: status.into(), stderr: stderr.into(), took, ..Seen::default() }, wrong)
}

/// The exact bytes of a stream.
fn stream(record: &Value, name: &str) -> Option<Vec<u8>> {
    match record.get(format!("{name}_base64")) {
        Some(coded) => base64::engine::general_purpose::STANDARD.decode(coded.as_str()?).ok(),
        None => Some(record[name].as_str()?.as_bytes().to_vec()),
    }
}

/// What is wrong with a record; with the exit code of the command, where there was one.
fn malformed(record: &Value, code: Option<i64>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut must = |truth: bool, complaint: String| {
        if !truth {
            wrong.push(format!("record: {complaint}"));
        }
    };
    let id = record["execution_id"].as_str().unwrap_or_default();
    let digits = id.strip_prefix("exec_").unwrap_or_default();
    must(
        [32, 48].contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit()),
        format!("execution_id `{id}`"),
    );

    let status = record["status"].as_str().unwrap_or_default();
    let (exit, signal) = (record["exit_code"].as_i64(), record["signal"].as_i64());
    match STATUSES.iter().find(|(name, _)| *name == status) {
        None => must(false, format!("status `{status}` is no terminal status")),
        Some((_, fixed)) => {
            let own = exit.or(signal.map(|signal| 128 + signal));
            let right = fixed.or(own);
            let agrees = code.is_none() || code == right;
            must(agrees, format!("`{status}` with exit code {code:?}, not {right:?}"));
        }
    }
    must((status == "success") == (exit == Some(0)), format!("`{status}` with exit_code {exit:?}"));
    must(
        (status == "success") == record["error"].is_null(),
        format!("`{status}` with error {}", record["error"]),
    );
    must(status != "failed" || exit.is_some(), format!("`failed` with exit_code {exit:?}"));
    must(status != "signalled" || signal.is_some(), format!("`signalled` with signal {signal:?}"));

    for name in ["stdout", "stderr"] {
        let (kept, cut) = (stream(record, name), record[format!("{name}_truncated")].as_bool());
        let written = record["metrics"][format!("{name}_bytes")].as_u64();
        let agrees = match (&kept, cut, written) {
            (Some(kept), Some(true), Some(written)) => (kept.len() as u64) < written,
            (Some(kept), Some(false), Some(written)) => kept.len() as u64 == written,
            _ => false,
        };
        let length = kept.map(|kept| kept.len());
        must(agrees, format!("{name} keeps {length:?} of {written:?} bytes, truncated {cut:?}"));
    }
    for name in ["duration_ms", "cpu_time_ms", "memory_peak_bytes", "io_read_bytes", "io_write_bytes"] {
        let value = &record["metrics"][name];
        must(value.as_f64().is_some_and(|n| n >= 0.0), format!("metric {name} is {value}"));
    }
    let times = ["started_at", "finished_at"].map(|name| record[name].as_str().unwrap_or_default());
    // Both are UTC in the same form, so they compare as text up to the second.
    let second = |time: &str| time.get(..19).map(str::to_owned);
    let timed = times.iter().all(|time| time.ends_with('Z') && time.as_bytes().get(10) == Some(&b'T'));
    must(timed && second(times[0]) <= second(times[1]), format!("times {times:?}"));

    let isolation = &record["isolation"];
    let degraded = isolation["degraded"].as_array().map(Vec::len);
    must(degraded.is_some(), "no list of what is degraded".into());
    must(
        (isolation["grade"].as_u64() == Some(1)) == (degraded == Some(0)),
        format!("grade {} with degraded {}", isolation["grade"], isolation["degraded"]),
    );
    must(record["artifacts"].is_array(), format!("artifacts are {}", record["artifacts"]));
    wrong
}
