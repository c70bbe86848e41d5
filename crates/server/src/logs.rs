//! What the server says while it works: lines on standard error, for people or for machines.

use crate::traces::{TARGET, Traces};
use std::io::IsTerminal;
use std::str::FromStr;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

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

/// Writes a log from now on: what is at least this important, such as `info` or `warn,server=debug`. Spans go to the
/// traces, if there are any, and never into the log.
pub fn start(level: &str, format: Format, traces: Option<&Traces>) -> Result<(), LogError> {
    let wrong = || LogError::Level(level.to_owned());
    let filter = EnvFilter::from_str(level).map_err(|_| wrong())?;
    let filter = filter.add_directive(format!("{TARGET}=off").parse().map_err(|_| wrong())?);
    // It calls it an error when a client goes away before it has its answer. Whoever wants to know can ask for it.
    let filter = match level.contains("rmcp") {
        true => filter,
        false => filter.add_directive("rmcp=off".parse().map_err(|_| wrong())?),
    };
    let people = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match (format, people) {
        (Format::Json, _) | (Format::Auto, false) => lines.json().flatten_event(true).boxed(),
        (Format::Text, _) | (Format::Auto, true) => lines.with_ansi(people).boxed(),
    };
    let both = tracing_subscriber::registry().with(lines.with_filter(filter));
    both.with(traces.map(Traces::layer)).try_init().map_err(|_| LogError::Already)
}
