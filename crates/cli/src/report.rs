//! Errors as people see them: one line of what, one of what to do.

use crate::remote::RemoteError;
use crate::{INTERRUPTED, MISUSE, OURS};
use anstream::eprintln;
use engine::EngineError;
use owo_colors::OwoColorize;
use server::ServerError;
use std::process::ExitCode;

/// Prints an error and says which exit code it means.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    let known = error.downcast_ref::<EngineError>();
    let server = error.downcast_ref::<ServerError>();
    let remote = error.downcast_ref::<RemoteError>();
    let message = format!("{error:#}");
    let hint = known
        .and_then(EngineError::hint)
        .or_else(|| remote.and_then(RemoteError::hint))
        .map(str::to_owned)
        .or_else(|| server.and_then(ServerError::hint));
    complain(message.trim(), hint.as_deref());
    match known {
        _ if matches!(server, Some(ServerError::Remote { .. } | ServerError::Token(_))) => {
            ExitCode::from(MISUSE)
        }
        _ if remote.is_some_and(RemoteError::is_misuse) => ExitCode::from(MISUSE),
        Some(EngineError::Cancelled) => ExitCode::from(INTERRUPTED),
        Some(EngineError::Invalid { .. }) => ExitCode::from(MISUSE),
        _ if error.downcast_ref::<std::io::Error>().is_some() => ExitCode::from(MISUSE),
        _ => ExitCode::from(OURS),
    }
}

/// One line of what, one of what to do.
pub(crate) fn complain(message: &str, hint: Option<&str>) {
    eprintln!("{} {}", "error:".red().bold(), one_line(message));
    if let Some(hint) = hint {
        eprintln!("{} {}", "hint:".cyan().bold(), one_line(hint));
    }
}

/// Something to know before it is too late.
pub(crate) fn warn(message: &str) {
    eprintln!("{} {}", "warning:".yellow().bold(), one_line(message));
}

/// Something that is good to know.
pub(crate) fn note(message: &str) {
    eprintln!("{} {}", "note:".cyan().bold(), one_line(message));
}

/// What a terminal would take for a command is shown, not sent.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}
