//! What was seen of a run, and what it says about what was expected.

use crate::case::Expect;
use crate::pattern;
use serde_json::Value;
use std::time::Duration;

/// What came of one command, in words that hold for every isolator.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Of the record; `refused` or `unavailable` where there is none, and why in `stderr`.
    pub(crate) status: String,
    pub(crate) exit_code: Option<i64>,
    pub(crate) signal: Option<i64>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// What only a record can tell.
    pub(crate) record: Option<Value>,
    pub(crate) took: Duration,
}

/// What is wrong, in a line each. Empty means that it is as expected.
pub(crate) fn judge(expect: &Expect, seen: &Seen) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut must = |truth: bool, complaint: String| {
        if !truth {
            wrong.push(complaint);
        }
    };
    let allowed = expect.statuses();
    must(
        allowed.contains(&seen.status.as_str()),
        format!("status `{}`{}, not {}", seen.status, why(seen), allowed.join(" or ")),
    );
    for (name, wanted, got) in
        [("exit code", expect.exit_code, seen.exit_code), ("signal", expect.signal, seen.signal)]
    {
        must(wanted.is_none() || wanted == got, format!("{name} {got:?}, not {wanted:?}"));
    }
    if let Some(seconds) = expect.ends_within {
        let took = seen.took.as_secs_f64();
        must(took <= seconds, format!("ended after {took:.2} s, not within {seconds} s"));
    }
    let (stdout, stderr) = (String::from_utf8_lossy(&seen.stdout), String::from_utf8_lossy(&seen.stderr));
    let streams = [
        ("stdout", &stdout, &expect.stdout_contains, &expect.stdout_lacks),
        ("stderr", &stderr, &expect.stderr_contains, &expect.stderr_lacks),
    ];
    for (name, text, wanted, unwanted) in streams {
        for words in wanted {
            must(text.contains(words.as_str()), format!("{name} lacks {words:?}: {}", cut(text)));
        }
        for words in unwanted {
            must(!text.contains(words.as_str()), format!("{name} contains {words:?}"));
        }
    }
    if let Some(record) = &seen.record {
        for complaint in judge_record(expect, record) {
            must(false, complaint);
        }
    }
    for complaint in judge_attempts(expect, &stdout) {
        must(false, complaint);
    }
    wrong
}

/// What a record says beside status and streams. Other isolators give none, and are not asked.
fn judge_record(expect: &Expect, record: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let cuts = [("stdout_truncated", expect.stdout_truncated), ("stderr_truncated", expect.stderr_truncated)];
    for (name, wanted) in cuts {
        if wanted.is_some() && record[name].as_bool() != wanted {
            wrong.push(format!("{name} is {}", record[name]));
        }
    }
    let message = record["error"]["message"].as_str().unwrap_or_default();
    for words in expect.error_contains.iter().filter(|words| !message.contains(words.as_str())) {
        wrong.push(format!("the error lacks {words:?}: {message:?}"));
    }
    for (name, [low, high]) in &expect.metrics {
        match record["metrics"][name].as_f64() {
            Some(value) if (*low..=*high).contains(&value) => {}
            other => wrong.push(format!("{name} is {other:?}, not {low} to {high}")),
        }
    }
    if let Some(wanted) = &expect.artifacts {
        let files = record["artifacts"].as_array();
        let mut got: Vec<&str> =
            files.into_iter().flatten().filter_map(|file| file["path"].as_str()).collect();
        let mut wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        got.sort_unstable();
        wanted.sort_unstable();
        if got != wanted {
            wrong.push(format!("artifacts {got:?}, not {wanted:?}"));
        }
    }
    wrong
}

fn judge_attempts(expect: &Expect, stdout: &str) -> Vec<String> {
    let (attempts, broken) = pattern::attempts(stdout);
    let mut wrong: Vec<String> = broken.iter().map(|line| format!("no attempt: {:?}", cut(line))).collect();
    // A run that names none may print none either: what nobody looks at proves nothing.
    wrong.extend(pattern::complaints(&expect.attempts, &attempts));
    let wanted = expect.at_least.unwrap_or(0);
    if attempts.len() < wanted {
        wrong.push(format!("{} attempts, not at least {wanted}", attempts.len()));
    }
    wrong
}

/// What goes with a status that was not wanted.
fn why(seen: &Seen) -> String {
    let message = seen.record.as_ref().and_then(|record| record["error"]["message"].as_str());
    let stderr = String::from_utf8_lossy(&seen.stderr);
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
    match (message, last) {
        (Some(message), Some(line)) => format!(" ({}; {})", cut(message), cut(line)),
        (Some(words), None) | (None, Some(words)) => format!(" ({})", cut(words)),
        (None, None) => String::new(),
    }
}

/// The beginning of a text, on one line.
pub(crate) fn cut(text: &str) -> String {
    const MOST: usize = 160;
    let flat = text.replace('\n', "⏎");
    let short: String = flat.chars().take(MOST).collect();
    if short.len() < flat.len() { format!("{short}…") } else { short }
}
