//! A panic ends one request, not the server, and tells the client nothing.

use super::RequestId;
use crate::Problem;
use crate::panics::{Panicked, caught};
use axum::response::{IntoResponse, Response};

pub(super) async fn catch(answering: impl Future<Output = Response>, id: &RequestId) -> Response {
    match caught(answering).await {
        Ok(response) => response,
        Err(Panicked) => {
            tracing::error!(request_id = id.as_str(), "a handler panicked");
            Problem::internal().into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::extract::Request;

    #[tokio::test]
    async fn a_panic_is_a_problem() {
        let id = super::super::request_id::name(&mut Request::default());
        let response = catch(async { panic!("hunter2") }, &id).await;
        assert_eq!(response.status(), 500);
        let problem = response.extensions().get::<Problem>().unwrap();
        assert!(problem.code() == "internal" && !format!("{problem:?}").contains("hunter2"));
    }
}
