//! What stands behind the `?` of a request.

use crate::Problem;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// The parameters of a request, as a value. What cannot be read is a problem that says so.
#[derive(Clone, Copy, Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Params<T>, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Params(value)),
            Err(rejection) => {
                // What is wrong comes last, behind whose layer noticed.
                let text = rejection.body_text();
                let detail = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
                Err(Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "invalid_query", detail))
            }
        }
    }
}
