//! What came of a command, and what can be asked of it. Every question panics with the whole story.

use serde_json::Value;
use std::ops::Deref;
use std::time::Duration;

/// Most characters of a stream that are shown when something is wrong.
const SHOWN: usize = 3000;

pub(crate) struct Out {
    /// Exit code, or the negative number of the signal that ended it.
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) took: Duration,
    pub(super) shown: String,
}

impl Out {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub(crate) fn exits(&self, code: i32) -> &Out {
        self.must(self.code == code, &format!("exit code {code}"))
    }

    pub(crate) fn says(&self, text: &str) -> &Out {
        self.must(self.text() == text, &format!("stdout {text:?}"))
    }

    pub(crate) fn is_quiet(&self) -> &Out {
        self.must(self.stderr.is_empty(), "nothing on stderr")
    }

    /// Complains the way people can act on: one `error:` line, one `hint:` line, nothing of ours inside out.
    pub(crate) fn complains_of(&self, words: &str) -> &Out {
        let complaint = self.complaint();
        let begin = |start: &str| complaint.lines().filter(|line| line.starts_with(start)).count();
        self.must(begin("error: ") == 1, "one `error:` line");
        self.must(begin("hint: ") == 1, "one `hint:` line");
        self.must(complaint.lines().count() == 2, "two lines on stderr");
        self.never_panics().must(complaint.contains(words), &format!("`{words}` in the complaint"))
    }

    /// As above, for what the parser of the command line complains of in its own words.
    pub(crate) fn is_misuse_of(&self, words: &str) -> &Out {
        let complaint = self.complaint();
        self.exits(2).must(complaint.starts_with("error: "), "`error:` first");
        self.must(self.stdout.is_empty(), "nothing on stdout");
        self.never_panics().must(complaint.contains(words), &format!("`{words}` in the complaint"))
    }

    pub(crate) fn never_panics(&self) -> &Out {
        let complaint = self.complaint();
        let ugly = ["panicked", "RUST_BACKTRACE", "stack backtrace", "Os {"];
        self.must(!ugly.iter().any(|word| complaint.contains(word)), "no panic and no debug output")
    }

    pub(crate) fn ends_within(&self, seconds: u64) -> &Out {
        self.must(self.took < Duration::from_secs(seconds), &format!("an end within {seconds} s"))
    }

    #[track_caller]
    pub(crate) fn must(&self, truth: bool, wanted: &str) -> &Out {
        assert!(
            truth,
            "wanted {wanted}\nof {}\nexit code {} after {:?}\nstdout: {}\nstderr: {}",
            self.shown,
            self.code,
            self.took,
            short(&self.text()),
            short(&self.complaint())
        );
        self
    }
}

fn short(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN).collect();
    if cut.len() < text.len() { format!("{cut}… and {} more bytes", text.len() - cut.len()) } else { cut }
}

/// The record a run prints with `--json`.
pub(crate) struct Record {
    value: Value,
    pub(crate) out: Out,
}

impl Deref for Record {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl Record {
    pub(super) fn of(out: Out) -> Record {
        let text = out.text();
        let whole = text.ends_with('\n') && text.lines().count() == 1;
        out.must(whole, "one line of JSON and nothing else");
        let value = serde_json::from_str(&text).ok();
        out.must(value.is_some(), "JSON");
        Record { value: value.unwrap(), out }
    }

    #[track_caller]
    pub(crate) fn is(&self, status: &str) -> &Record {
        self.must(self["status"] == status, &format!("status {status}"))
    }

    pub(crate) fn exits(&self, code: i32) -> &Record {
        self.out.exits(code);
        self
    }

    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Record {
        self.must(self.stdout() == text, &format!("stdout {text:?}"))
    }

    pub(crate) fn ends_within(&self, seconds: u64) -> &Record {
        self.out.ends_within(seconds);
        self
    }

    pub(crate) fn stdout(&self) -> &str {
        self["stdout"].as_str().unwrap()
    }

    pub(crate) fn stderr(&self) -> &str {
        self["stderr"].as_str().unwrap()
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        self["metrics"][name].as_f64().unwrap_or_else(|| panic!("no metric `{name}` in {}", self["metrics"]))
    }

    /// Names of the files the program made.
    pub(crate) fn artifacts(&self) -> Vec<&str> {
        self["artifacts"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect()
    }

    #[track_caller]
    pub(crate) fn must(&self, truth: bool, wanted: &str) -> &Record {
        self.out.must(truth, wanted);
        self
    }
}
