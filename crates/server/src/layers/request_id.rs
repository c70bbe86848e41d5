//! A name for the request: the client's own, if it is a decent one, or ours.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderName, HeaderValue};
use axum::response::Response;
use std::convert::Infallible;
use std::sync::Arc;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The name of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(Arc<str>);

impl RequestId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Of a request that has passed this layer.
    pub(crate) fn of(extensions: &Extensions) -> RequestId {
        extensions.get().cloned().unwrap_or_else(|| RequestId("".into()))
    }

    fn new() -> RequestId {
        RequestId(uuid::Uuid::now_v7().simple().to_string().into())
    }
}

impl<S: Sync> FromRequestParts<S> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<RequestId, Infallible> {
        Ok(RequestId::of(&parts.extensions))
    }
}

/// Gives the request a name, for those who come later.
pub(super) fn name(request: &mut Request) -> RequestId {
    let given = request.headers().get(HEADER).and_then(|value| value.to_str().ok());
    let id = given.filter(|text| is_decent(text)).map_or_else(RequestId::new, |text| RequestId(text.into()));
    request.extensions_mut().insert(id.clone());
    id
}

/// Says it on the answer.
pub(super) fn show(response: &mut Response, id: &RequestId) {
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(HEADER, value);
    }
}

fn is_decent(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}
