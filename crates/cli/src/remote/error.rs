//! What a server refused, or why it could not be asked.

use serde_json::Value;
use std::fmt;

/// A request that came to nothing.
#[derive(Debug)]
pub(crate) struct RemoteError {
    message: String,
    hint: Option<String>,
    /// Of the answer, if there was one.
    status: Option<u16>,
}

impl RemoteError {
    /// Something is wrong with the server, or with the way to it.
    pub(super) fn new(message: impl Into<String>) -> RemoteError {
        RemoteError { message: message.into(), hint: None, status: None }
    }

    /// What an answer says that is no success.
    pub(super) fn answered(server: &str, status: u16, body: &[u8]) -> RemoteError {
        let problem: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let Some(detail) = problem["detail"].as_str() else {
            return RemoteError {
                status: Some(status),
                ..RemoteError::new(format!("`{server}` answers {status}, and not as sandboxd does"))
                    .with_hint("is it a sandboxd server? `--server` names another")
            };
        };
        let message = match problem["field"].as_str() {
            Some(field) => format!("`{field}`: {detail}"),
            None => detail.to_owned(),
        };
        let hint = problem["hint"].as_str().map(str::to_owned);
        RemoteError { message, hint: hint.or_else(|| listed(&problem["code"])), status: Some(status) }
    }

    /// What usually helps.
    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> RemoteError {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.status
    }

    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Whether the request was wrong, and not the server away or busy.
    pub(crate) fn is_misuse(&self) -> bool {
        self.status.is_some_and(|status| (400..500).contains(&status) && !matches!(status, 408 | 429))
    }
}

/// What shows which there are, of a kind of thing that the server has no such one of.
fn listed(code: &Value) -> Option<String> {
    let command = match code.as_str()? {
        "session_not_found" => "session",
        "template_not_found" => "template",
        "api_key_not_found" => "key",
        _ => return None,
    };
    Some(format!("`sandboxd {command} list` shows which there are"))
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RemoteError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_with_its_field_and_its_hint() {
        let body = br#"{"status":422,"detail":"is empty","field":"code","hint":"give some"}"#;
        let error = RemoteError::answered("http://x", 422, body);
        assert_eq!((error.to_string().as_str(), error.hint()), ("`code`: is empty", Some("give some")));
        assert!(error.is_misuse());
        let busy = RemoteError::answered("http://x", 429, br#"{"detail":"too much"}"#);
        assert_eq!((busy.to_string().as_str(), busy.is_misuse()), ("too much", false));
        let missing = br#"{"detail":"no such session","code":"session_not_found"}"#;
        let missing = RemoteError::answered("http://x", 404, missing);
        assert_eq!(missing.hint(), Some("`sandboxd session list` shows which there are"));
        let stranger = RemoteError::answered("http://x", 404, b"<html>");
        assert!(stranger.to_string().contains("http://x") && stranger.hint().is_some());
    }
}
