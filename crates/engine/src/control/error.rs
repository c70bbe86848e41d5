//! What can go wrong between a door and a program, named by what the caller can do about it.

use crate::EngineError;
use crate::storage::StoreError;
use std::time::Duration;

/// The caller's problem, the host's, or ours.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// What the engine says.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What storage says.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is none, or none of this caller's.
    #[error("no such {what}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
    },
    /// It is not in a state for this.
    #[error("{what} {why}")]
    Conflict {
        /// What.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// The operator does not want it.
    #[error("{what}")]
    NotAllowed {
        /// What is not done here.
        what: &'static str,
        /// Who can change that, and how.
        hint: &'static str,
    },
    /// An idempotency key stands for another request.
    #[error("this idempotency key was used for another request")]
    KeyReused,
    /// A bound of the caller's tenant is reached.
    #[error("`{what}`: {why}")]
    TooMany {
        /// Which bound.
        what: &'static str,
        /// How.
        why: String,
        /// When to ask again.
        retry_after: Duration,
    },
    /// The server has too much to do.
    #[error("{why}")]
    Busy {
        /// In what way.
        why: String,
        /// When to ask again.
        retry_after: Duration,
    },
    /// The storage of a session has no room left.
    #[error("the storage of the session is full")]
    Full,
    /// More than may be sent.
    #[error("`{field}` is larger than {limit} bytes")]
    TooLarge {
        /// Which part.
        field: &'static str,
        /// How much may be.
        limit: u64,
    },
}

impl ControlError {
    pub(crate) fn too_many(what: &'static str, why: &str, retry_after: Duration) -> ControlError {
        ControlError::TooMany { what, why: why.to_owned(), retry_after }
    }

    pub(crate) fn ending() -> ControlError {
        ControlError::Busy { why: "the server is about to end".into(), retry_after: Duration::from_secs(5) }
    }

    pub(crate) fn conflict(what: &'static str, why: impl Into<String>) -> ControlError {
        ControlError::Conflict { what, why: why.into() }
    }

    pub(crate) fn invalid(field: &str, message: impl Into<String>) -> ControlError {
        EngineError::invalid(field, message).into()
    }
}
