//! What goes wrong, for callers: one shape for every refusal and failure (RFC 9457).
//!
//! A [`Problem`] is the answer of a handler or a layer. It has no body until the outermost layers write one
//! (`render.rs`), because only there it is known which request it answers and in which words.

mod from;
mod render;

pub(crate) use render::{Style, render};

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// A refusal or a failure.
#[derive(Clone, Debug)]
pub struct Problem {
    facts: Box<Facts>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// What an answer says of it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Facts {
    /// A name for this kind of problem, as a URI.
    #[serde(rename = "type")]
    #[schema(example = "urn:sandboxd:problem:invalid_field")]
    kind: String,
    /// The status in words.
    #[schema(example = "Unprocessable Content")]
    title: String,
    /// The status of the answer.
    #[schema(example = 422)]
    status: u16,
    /// A name for this kind of problem that stays the same.
    #[schema(example = "invalid_field")]
    code: String,
    /// What is wrong this time.
    detail: String,
    /// The field of the request that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// What usually helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Of the request; the log has it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// In how many seconds it may go better.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

impl Problem {
    /// With a status, a name that stays the same, and what is wrong this time.
    pub fn new(status: StatusCode, code: impl Into<String>, detail: impl Into<String>) -> Problem {
        let code = code.into();
        let facts = Facts {
            kind: format!("urn:sandboxd:problem:{code}"),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            code,
            detail: detail.into(),
            field: None,
            hint: None,
            request_id: None,
            retry_after: None,
        };
        Problem { facts: Box::new(facts), headers: Vec::new() }
    }

    /// The request is malformed.
    pub fn bad_request(code: &str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// A field of a well-formed request is wrong.
    pub fn invalid_field(field: impl Into<String>, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_field", detail).field(field)
    }

    /// There is no token, or none that works.
    pub fn unauthorized(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
            .hint("send `Authorization: Bearer <token>` or `X-API-Key: <token>`")
            .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"sandboxd\""))
    }

    /// The caller may not do this.
    pub fn forbidden(code: &str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, code, detail)
    }

    /// There is no such thing, or none of this caller's.
    pub fn not_found(what: &str) -> Problem {
        let code = format!("{}_not_found", what.to_lowercase().replace(' ', "_"));
        Problem::new(StatusCode::NOT_FOUND, code, format!("no such {what}"))
    }

    /// Too much at once.
    pub fn too_many(code: &str, detail: impl Into<String>, wait: Duration) -> Problem {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, code, detail).retry_after(wait)
    }

    /// Something is away that will be back.
    pub fn unavailable(detail: impl Into<String>, wait: Duration) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail).retry_after(wait)
    }

    /// Something of ours broke. What exactly goes to the log, and not to the caller.
    pub fn internal() -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "something of ours broke")
            .hint("the log of the server has more, by the id of this request")
    }

    /// Which field is wrong.
    pub fn field(mut self, field: impl Into<String>) -> Problem {
        self.facts.field = Some(field.into());
        self
    }

    /// What usually helps.
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.facts.hint = Some(hint.into());
        self
    }

    /// When to try again; whole seconds, rounded up.
    pub fn retry_after(self, wait: Duration) -> Problem {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let mut problem = self.header(header::RETRY_AFTER, HeaderValue::from(seconds));
        problem.facts.retry_after = Some(seconds);
        problem
    }

    /// A header that comes with it.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Problem {
        self.headers.push((name, value));
        self
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.facts.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What is wrong this time.
    pub fn detail(&self) -> &str {
        &self.facts.detail
    }

    /// What is wrong, with which field, and what usually helps, in one line.
    pub fn words(&self) -> String {
        let Facts { field, detail, hint, .. } = &*self.facts;
        let field = field.as_ref().filter(|field| !field.is_empty() && !detail.contains(field.as_str()));
        let field = field.map(|field| format!("`{field}`: ")).unwrap_or_default();
        let hint = hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
        format!("{field}{detail}{hint}")
    }

    /// The name that stays the same.
    pub fn code(&self) -> &str {
        &self.facts.code
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        for (name, value) in &self.headers {
            response.headers_mut().append(name, value.clone());
        }
        response.extensions_mut().insert(self);
        response
    }
}
