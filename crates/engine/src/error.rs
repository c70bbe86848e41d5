//! What can go wrong, named by what the caller can do about it.

use jail::JailError;

/// The caller's problem, the host's, or ours.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// A field of the request is wrong: change it.
    #[error("`{field}`: {message}")]
    Invalid {
        /// Which field.
        field: String,
        /// What is wrong with it.
        message: String,
        /// How it would be right.
        hint: Option<String>,
    },
    /// The host lacks something: install or enable it.
    #[error("{what}")]
    Unavailable {
        /// What is missing.
        what: String,
        /// How to get it.
        hint: Option<String>,
    },
    /// No sandbox could be made, and nothing was run.
    #[error("no sandbox could be made: {error}")]
    Refused {
        /// Which layer failed.
        error: JailError,
        /// What usually helps.
        hint: Option<String>,
    },
    /// The caller gave up before anything ran.
    #[error("it was cancelled")]
    Cancelled,
    /// Something of ours broke.
    #[error("{0}")]
    Broken(String),
}

impl EngineError {
    /// A wrong field.
    pub fn invalid(field: &str, message: impl Into<String>) -> EngineError {
        EngineError::Invalid { field: field.into(), message: message.into(), hint: None }
    }

    /// The same, with advice.
    pub fn with_hint(mut self, advice: impl Into<String>) -> EngineError {
        match &mut self {
            EngineError::Invalid { hint, .. }
            | EngineError::Unavailable { hint, .. }
            | EngineError::Refused { hint, .. } => *hint = Some(advice.into()),
            EngineError::Cancelled | EngineError::Broken(_) => {}
        }
        self
    }

    /// The advice, if there is any.
    pub fn hint(&self) -> Option<&str> {
        match self {
            EngineError::Invalid { hint, .. }
            | EngineError::Unavailable { hint, .. }
            | EngineError::Refused { hint, .. } => hint.as_deref(),
            EngineError::Cancelled | EngineError::Broken(_) => None,
        }
    }
}
