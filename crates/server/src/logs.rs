//! What the server says while it works: lines on standard error, for people or for machines.

use std::io::IsTerminal;
use std::str::FromStr;
use tracing_subscriber::EnvFilter;

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people on a terminal, for machines otherwise.
    #[default]
    Auto,
    /// One object a line.
    Json,
    /// For people.
    Text,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// What shall be logged was not understood.
    #[error("`{0}` is no level of a log")]
    Level(String),
    /// Somebody else writes one already.
    #[error("there is a log already")]
    Already,
}

/// Writes a log from now on: what is at least this important, such as `info` or `warn,server=debug`.
pub fn start(level: &str, format: Format) -> Result<(), LogError> {
    let filter = EnvFilter::from_str(level).map_err(|_| LogError::Level(level.to_owned()))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let people = std::io::stderr().is_terminal();
    let started = match (format, people) {
        (Format::Json, _) | (Format::Auto, false) => lines.json().flatten_event(true).try_init(),
        (Format::Text, _) | (Format::Auto, true) => lines.with_ansi(people).try_init(),
    };
    started.map_err(|_| LogError::Already)
}
