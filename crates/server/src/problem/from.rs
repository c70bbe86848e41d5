//! Errors of the engine and of storage as callers see them. The only place that decides about it.

use super::Problem;
use axum::http::StatusCode;
use engine::EngineError;
use engine::control::ControlError;
use engine::storage::StoreError;
use std::time::Duration;

/// When to try again where nothing better is known.
const PAUSE: Duration = Duration::from_secs(1);

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Problem {
        let hint = error.hint().map(str::to_owned);
        let problem = match error {
            EngineError::Invalid { field, message, .. } => Problem::invalid_field(field, message),
            EngineError::Unavailable { what, .. } => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "runtime_unavailable", what)
            }
            EngineError::Refused { error, .. } => {
                let detail = format!("no sandbox could be made: {error}");
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "isolation_unavailable", detail)
            }
            EngineError::Cancelled => Problem::new(StatusCode::CONFLICT, "cancelled", "it was cancelled"),
            EngineError::Broken(message) => {
                tracing::error!(message, "the engine failed");
                Problem::internal()
            }
        };
        match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Problem {
        let words = error.to_string();
        match error {
            ControlError::Engine(error) => error.into(),
            ControlError::Store(error) => error.into(),
            ControlError::NotFound { what } => Problem::not_found(what),
            ControlError::Conflict { what, .. } => {
                Problem::new(StatusCode::CONFLICT, format!("{what}_conflict"), words)
            }
            ControlError::NotAllowed { hint, .. } => Problem::forbidden("not_allowed", words).hint(hint),
            ControlError::KeyReused => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", words)
                    .field("Idempotency-Key")
                    .hint("use another key for another request")
            }
            ControlError::TooMany { retry_after, .. } => {
                Problem::too_many("limit_reached", words, retry_after)
            }
            ControlError::Busy { retry_after, .. } => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", words).retry_after(retry_after)
            }
            ControlError::Full => Problem::new(StatusCode::INSUFFICIENT_STORAGE, "storage_full", words)
                .hint("remove files, or make a session with more `disk`"),
            ControlError::TooLarge { field, .. } => {
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", words).field(field)
            }
            error => {
                tracing::error!(%error, "the control plane failed");
                Problem::internal()
            }
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match error {
            StoreError::NotFound { what } => Problem::not_found(what),
            StoreError::Conflict { what, why } => {
                Problem::new(StatusCode::CONFLICT, "conflict", format!("{what} {why}"))
            }
            StoreError::TooLong { field, limit, unit } => {
                Problem::invalid_field(field, format!("is longer than {limit} {unit}"))
            }
            StoreError::Invalid { field, message } => Problem::invalid_field(field, message),
            StoreError::Unavailable { message, retry_after } => {
                tracing::warn!(message, "storage is not available");
                Problem::unavailable("storage is not available at the moment", retry_after)
            }
            StoreError::Newer { .. } | StoreError::Settings { .. } => {
                tracing::error!(%error, "storage cannot be used");
                Problem::unavailable("storage cannot be used as it is configured", PAUSE)
            }
            error => {
                tracing::error!(%error, "storage failed");
                Problem::internal()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_learn_what_they_can_change_and_nothing_of_our_insides() {
        let problem = Problem::from(EngineError::invalid("language", "is unknown").with_hint("try `python`"));
        assert_eq!((problem.status().as_u16(), problem.code()), (422, "invalid_field"));
        assert_eq!(problem.facts.field.as_deref(), Some("language"));
        assert_eq!(problem.facts.hint.as_deref(), Some("try `python`"));

        let missing = Problem::from(StoreError::NotFound { what: "API key" });
        assert_eq!((missing.status().as_u16(), missing.code()), (404, "api_key_not_found"));

        let secret = "postgres://me:hunter2@db";
        for broken in [
            Problem::from(EngineError::Broken(secret.into())),
            Problem::from(StoreError::Broken(secret.into())),
            Problem::from(StoreError::Unavailable { message: secret.into(), retry_after: PAUSE }),
        ] {
            assert!(broken.status().is_server_error());
            assert!(!serde_json::to_string(&broken.facts).unwrap().contains("hunter2"));
        }
    }
}
