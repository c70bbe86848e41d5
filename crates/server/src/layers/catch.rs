//! A panic ends one request, not the server, and tells the client nothing.

use super::RequestId;
use crate::Problem;
use crate::panics::{Panicked, caught};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

pub(super) async fn catch(request: Request, next: Next) -> Response {
    let id = RequestId::of(request.extensions());
    match caught(next.run(request)).await {
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
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tower::ServiceExt;

    async fn broken() -> &'static str {
        panic!("hunter2")
    }

    #[tokio::test]
    async fn a_panic_is_a_problem() {
        let router = Router::new().route("/", get(broken)).layer(from_fn(catch));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), 500);
        let problem = response.extensions().get::<Problem>().unwrap();
        assert!(problem.code() == "internal" && !format!("{problem:?}").contains("hunter2"));
    }
}
