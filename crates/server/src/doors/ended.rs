//! How a program ended, for APIs that have one number for it and two texts.

use crate::Problem;
use axum::http::StatusCode;
use engine::control::Done;
use serde_json::Value;

/// The number for a program whose time was over.
const TIME_IS_OVER: i64 = 124;
/// The number for one that could not be started.
const NOT_STARTED: i64 = 126;
/// The number for one that had no memory left: as if it was killed by signal 9.
const NO_MEMORY: i64 = 137;

/// How a program ended.
#[derive(Debug, PartialEq)]
pub(crate) struct Ended {
    /// Its exit code, or what stands for it.
    pub(crate) code: i64,
    /// What it wrote.
    pub(crate) stdout: String,
    /// Its diagnostics, and why it was ended if it was.
    pub(crate) stderr: String,
    /// How long it took, in seconds.
    pub(crate) seconds: f64,
    /// Its language.
    pub(crate) language: String,
}

impl Ended {
    /// Of an execution that is over. That our platform broke is a problem and no way to end.
    pub(crate) fn of(done: &Done) -> Result<Ended, Problem> {
        Ended::read(&done.record.read()?)
    }

    fn read(record: &Value) -> Result<Ended, Problem> {
        let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
        let (status, signal) = (text("status"), record["signal"].as_i64());
        let why = record["error"]["message"].as_str().unwrap_or_default();
        let code = match (status.as_str(), record["exit_code"].as_i64()) {
            ("infra_error", _) => {
                return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "infra_error", why));
            }
            ("timed_out" | "cpu_limit", _) => TIME_IS_OVER,
            ("start_failed", _) => NOT_STARTED,
            ("out_of_memory", _) => NO_MEMORY,
            (_, Some(code)) => code,
            (_, None) => signal.map_or(1, |signal| 128 + signal),
        };
        let mut stderr = text("stderr");
        if !matches!(status.as_str(), "success" | "failed") && !why.is_empty() {
            if !stderr.is_empty() && !stderr.ends_with('\n') {
                stderr.push('\n');
            }
            stderr.push_str(why);
            stderr.push('\n');
        }
        let seconds = record["metrics"]["duration_ms"].as_f64().unwrap_or(0.0) / 1000.0;
        Ok(Ended { code, stdout: text("stdout"), stderr, seconds, language: text("language") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_ending_has_a_number_and_what_we_ended_says_why() {
        for (status, exit, signal, code) in [
            ("success", json!(0), json!(null), 0),
            ("failed", json!(3), json!(null), 3),
            ("timed_out", json!(null), json!(9), 124),
            ("out_of_memory", json!(null), json!(9), 137),
            ("signalled", json!(null), json!(11), 139),
            ("start_failed", json!(null), json!(null), 126),
            ("disk_limit", json!(1), json!(null), 1),
        ] {
            let record = json!({"status": status, "exit_code": exit, "signal": signal, "stdout": "o", "stderr": "e",
                "error": {"message": "because"}, "metrics": {"duration_ms": 1500.0}, "language": "bash"});
            let ended = Ended::read(&record).unwrap();
            assert_eq!((ended.code, ended.stdout.as_str(), ended.seconds), (code, "o", 1.5), "{status}");
            let own = matches!(status, "success" | "failed");
            assert_eq!(ended.stderr, if own { "e" } else { "e\nbecause\n" }, "{status}");
        }
        assert!(Ended::read(&json!({"status": "infra_error"})).is_err());
    }
}
