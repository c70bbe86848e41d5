//! One command in the making.

use super::{Out, Record, Running};
use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) struct Run {
    command: Command,
    words: Vec<String>,
    typed: Vec<u8>,
    patience: Duration,
    unread: bool,
}

impl Run {
    pub(super) fn new(command: Command) -> Run {
        Run {
            command,
            words: Vec::new(),
            typed: Vec::new(),
            patience: Duration::from_secs(100),
            unread: false,
        }
    }

    /// An option and its value.
    pub(crate) fn arg(self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.flag(name).flag(value)
    }

    /// One word.
    pub(crate) fn flag(mut self, word: impl AsRef<OsStr>) -> Run {
        self.command.arg(word);
        self
    }

    /// Options as they are typed.
    pub(crate) fn options(mut self, words: &str) -> Run {
        self.command.args(words.split_whitespace());
        self
    }

    /// Arguments of the program.
    pub(crate) fn words<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Run {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// What is typed into our own standard input.
    pub(crate) fn typed(mut self, bytes: impl Into<Vec<u8>>) -> Run {
        self.typed = bytes.into();
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.command.env(name, value);
        self
    }

    pub(crate) fn without_env(mut self, name: &str) -> Run {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn within(mut self, patience: Duration) -> Run {
        self.patience = patience;
        self
    }

    /// Gives it a standard output whose reader has left.
    pub(crate) fn read_by_nobody(mut self) -> Run {
        self.unread = true;
        self
    }

    /// Runs it to its end.
    pub(crate) fn out(self) -> Out {
        let (patience, typed) = (self.patience, self.typed.clone());
        let mut running = self.start();
        running.type_in(typed);
        running.out(patience)
    }

    /// Runs it to its end and reads the record it prints.
    pub(crate) fn json(self) -> Record {
        Record::of(self.flag("--json").out())
    }

    /// Starts it, and leaves what is typed to the caller.
    pub(crate) fn start(mut self) -> Running {
        if !self.words.is_empty() {
            self.command.arg("--").args(&self.words);
        }
        let shown = shown(&self.command);
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.unread {
            self.command.stdout(std::io::pipe().unwrap().1);
        }
        let child = self.command.spawn().unwrap_or_else(|e| panic!("{shown}: {e}"));
        Running::new(child, shown)
    }
}

/// The command as a person would want to see it when it went wrong.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| format!("{word:?}").chars().take(2000).collect()).collect();
    words.join(" ")
}
