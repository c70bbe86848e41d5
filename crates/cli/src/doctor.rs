//! `sandboxd doctor`: what this host can do, what that means for sandboxes, and how to get the rest.
//!
//! The facts come from `jail::probe` and so does the verdict; here they become words. The report is the
//! data of this command, so all of it goes to standard output.

mod fixes;
mod layers;
mod others;
mod table;

use jail::probe::{self, Host};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Row {
    part: Part,
    name: &'static str,
    state: State,
    found: String,
    consequence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    /// A layer of the native isolator.
    Native,
    /// Something another isolator needs; nothing is wrong when it is missing.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Weaker,
    Missing,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Weaker => "weaker",
            State::Missing => "missing",
        }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    host: Host,
    rows: Vec<Row>,
    /// 1: full, 0: degraded, null: refuses.
    grade: Option<u8>,
    degraded: Vec<String>,
    missing: Vec<String>,
    can_run: bool,
}

/// Looks at this host and says what was found. The exit code is 1 when native sandboxes cannot run here.
pub(crate) fn run(json: bool) -> anyhow::Result<ExitCode> {
    let host = probe::host();
    let mut rows = layers::rows(&host);
    rows.extend(others::rows(&host));
    let verdict = host.verdict();
    let can_run = verdict.can_run();
    let text = if json {
        let (grade, degraded, missing) = (verdict.grade, verdict.degraded, verdict.missing);
        let report = Report { host, rows, grade, degraded, missing, can_run };
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        table::render(&host, &rows, &verdict, table::width())
    };
    // A reader that closed early, like `head`, has seen what it wanted.
    match anstream::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    Ok(if can_run { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_one_object_with_the_promised_keys() {
        let host = probe::host();
        let rows = layers::rows(&host);
        let can_run = host.verdict().can_run();
        let report = Report { host, rows, grade: Some(1), degraded: vec![], missing: vec![], can_run };
        let value = serde_json::to_value(&report).unwrap();
        for key in ["host", "rows", "grade", "degraded", "can_run"] {
            assert!(value.get(key).is_some(), "{key}");
        }
        let again: Host = serde_json::from_value(value["host"].clone()).unwrap();
        assert_eq!(again, report.host);
    }

    #[test]
    fn rows_agree_with_the_verdict() {
        let host = probe::host();
        let verdict = host.verdict();
        let rows = layers::rows(&host);
        assert_eq!(rows.iter().all(|row| row.state != State::Missing), verdict.can_run());
        let weaker = rows.iter().filter(|row| row.state == State::Weaker).count();
        assert_eq!(weaker, verdict.degraded.len(), "{rows:?}");
    }

    #[test]
    fn words_end_without_a_period() {
        let host = probe::host();
        for row in layers::rows(&host).into_iter().chain(others::rows(&host)) {
            assert!(!row.found.is_empty() && !row.found.ends_with('.'), "{row:?}");
            assert!(!row.consequence.is_empty() && !row.consequence.ends_with('.'), "{row:?}");
        }
    }
}
