//! A problem in the words of the API that was asked.
//!
//! The founding APIs have error bodies of their own, and their clients look into them. Which one it is, the path of
//! the request says, so that also what the layers refuse comes out right.

use super::Problem;
use crate::clock;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

/// Whose words a caller expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `application/problem+json`.
    Problem,
    /// `{"error": {…}}`, under `/api/v2`, and `/api/v1` and `/api` as far as they are sandboxes and their tools.
    Envelope,
    /// `{"detail": {"error_code": …}}`, under `/workspace/se`.
    Detail,
}

/// What has them in every version.
const ENVELOPES: [&str; 4] = ["sandboxes", "tools", "resources", "prompts"];

impl Style {
    /// By the path of the request.
    pub(crate) fn of(path: &str) -> Style {
        let below = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']))
        };
        let named = |rest: &str| ENVELOPES.contains(&rest.split(['/', ':']).next().unwrap_or(rest));
        if below("/workspace/se") {
            Style::Detail
        } else if below("/api/v2")
            || path.strip_prefix("/api/v1/").or_else(|| path.strip_prefix("/api/")).is_some_and(named)
        {
            Style::Envelope
        } else {
            Style::Problem
        }
    }
}

/// Writes the body of an answer that is a problem; other answers stay as they are.
pub(crate) fn render(mut response: Response, style: Style, request_id: &str) -> Response {
    let problem = response.extensions_mut().remove::<Problem>().or_else(|| unnamed(&response));
    let Some(mut problem) = problem else { return response };
    problem.facts.request_id = Some(request_id.to_owned());
    let (body, mime) = match style {
        Style::Problem => (json!(problem.facts), "application/problem+json"),
        Style::Envelope => (envelope(&problem), "application/json"),
        Style::Detail => (detail(&problem), "application/json"),
    };
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(mime));
    *response.body_mut() = Body::from(body.to_string());
    response
}

/// A refusal that somebody else wrote, in plain text or in no words at all.
fn unnamed(response: &Response) -> Option<Problem> {
    let status = response.status();
    let mime = response.headers().get(header::CONTENT_TYPE);
    let plain = mime.is_none_or(|mime| mime.as_bytes().starts_with(b"text/plain"));
    if !(status.is_client_error() || status.is_server_error()) || !plain {
        return None;
    }
    let title = status.canonical_reason().unwrap_or("Error");
    Some(Problem::new(status, title.to_lowercase().replace([' ', '-'], "_"), title))
}

fn envelope(problem: &Problem) -> Value {
    let facts = &problem.facts;
    json!({"error": {
        "code": facts.status,
        "message": facts.detail,
        "details": {"code": facts.code, "field": facts.field, "hint": facts.hint},
        "timestamp": clock::now(),
        "request_id": facts.request_id,
    }})
}

fn detail(problem: &Problem) -> Value {
    let facts = &problem.facts;
    let code = match problem.status() {
        StatusCode::TOO_MANY_REQUESTS => "Sandbox.TooManyRequestsExection",
        StatusCode::SERVICE_UNAVAILABLE => "Sandbox.NotInitialized",
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => "Sandbox.ExecTimeout",
        status if status.is_server_error() => "Sandbox.InternalError",
        _ => "Sandbox.InvalidParameter",
    };
    json!({"detail": {
        "error_code": code,
        "description": facts.title,
        "error_detail": facts.detail,
        "solution": facts.hint.as_deref().unwrap_or("correct the request and send it again"),
        "request_id": facts.request_id,
    }})
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;
    use http_body_util::BodyExt;

    #[test]
    fn a_prefix_ends_where_a_segment_does() {
        for (path, style) in [
            ("/workspace/se", Style::Detail),
            ("/workspace/se/execute/1", Style::Detail),
            ("/workspace/sell", Style::Problem),
            ("/api/v1/sandboxes", Style::Envelope),
            ("/api/v1/sandboxes/x/files", Style::Envelope),
            ("/api/v2/sandboxes:batch", Style::Envelope),
            ("/api/sandboxes/x", Style::Envelope),
            ("/api/v1/sandboxes2", Style::Problem),
            ("/api/v1/keys", Style::Problem),
        ] {
            assert_eq!(Style::of(path), style, "{path}");
        }
    }

    async fn body(style: Style, problem: Problem) -> Value {
        let response = render(problem.into_response(), style, "r1");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn one_problem_in_three_shapes() {
        let problem = || Problem::invalid_field("name", "is empty").hint("give one");
        let own = body(Style::Problem, problem()).await;
        assert_eq!(own["code"], "invalid_field");
        assert_eq!(own["type"], "urn:sandboxd:problem:invalid_field");
        assert_eq!(
            (&own["field"], &own["hint"], &own["request_id"]),
            (&json!("name"), &json!("give one"), &json!("r1"))
        );

        let envelope = body(Style::Envelope, problem()).await;
        assert_eq!(
            (&envelope["error"]["code"], &envelope["error"]["request_id"]),
            (&json!(422), &json!("r1"))
        );
        assert_eq!(envelope["error"]["message"], "is empty");
        assert!(envelope["error"]["timestamp"].is_string());

        let detail = body(Style::Detail, problem()).await;
        assert_eq!(detail["detail"]["error_code"], "Sandbox.InvalidParameter");
        assert_eq!(
            (&detail["detail"]["error_detail"], &detail["detail"]["solution"]),
            (&json!("is empty"), &json!("give one"))
        );
        let busy = body(Style::Detail, Problem::too_many("rate_limited", "x", Default::default())).await;
        assert_eq!(busy["detail"]["error_code"], "Sandbox.TooManyRequestsExection");
    }

    #[tokio::test]
    async fn refusals_of_others_get_our_shape_and_answers_keep_theirs() {
        let response = render((StatusCode::NOT_FOUND, "what?").into_response(), Style::Problem, "r1");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let fine = render("hello".into_response(), Style::Problem, "r1");
        assert_eq!(fine.into_body().collect().await.unwrap().to_bytes(), "hello");
    }
}
