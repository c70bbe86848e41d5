//! Bodies of requests, as values.
//!
//! JSON and nothing else: as UTF-8, without a mark in front, anything behind it or a key twice, and not nested too
//! deeply. What is malformed is answered with 400, what is well-formed and wrong with 422 and the field.

mod scan;

use crate::layers::BodyError;
use crate::{Problem, State};
use axum::extract::{FromRequest, OptionalFromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use std::error::Error;

/// The body of a request. Give its type `#[serde(deny_unknown_fields)]`.
#[derive(Clone, Copy, Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<State> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &State) -> Result<Body<T>, Problem> {
        if !is_json(request.headers()) {
            let problem = Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "the body is not declared to be JSON",
            );
            return Err(problem.hint("send `Content-Type: application/json`"));
        }
        let limit = usize::try_from(state.options().max_json).unwrap_or(usize::MAX);
        let read = Limited::new(request.into_body(), limit).collect().await;
        let bytes = read.map_err(|error| unreadable(error.as_ref()))?.to_bytes();
        parse(&bytes, state.options().json_depth).map(Body)
    }
}

/// A body that may be left out.
impl<T: DeserializeOwned> OptionalFromRequest<State> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &State) -> Result<Option<Body<T>>, Problem> {
        match http_body::Body::is_end_stream(request.body()) {
            true => Ok(None),
            false => <Body<T> as FromRequest<State>>::from_request(request, state).await.map(Some),
        }
    }
}

/// Whether this is said to be JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(mime)) = headers.get(header::CONTENT_TYPE).map(|value| value.to_str()) else { return false };
    let (kind, rest) = mime.split_once(';').unwrap_or((mime, ""));
    let charset = rest.trim().strip_prefix("charset=").map(|name| name.trim_matches('"'));
    kind.trim().eq_ignore_ascii_case("application/json")
        && charset.is_none_or(|name| name.eq_ignore_ascii_case("utf-8"))
}

/// Why a body could not be read to its end.
pub(crate) fn unreadable(error: &(dyn Error + 'static)) -> Problem {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return BodyError::TooLarge.into();
        }
        if let Some(error) = error.downcast_ref::<BodyError>() {
            return (*error).into();
        }
        cause = error.source();
    }
    Problem::bad_request("incomplete_body", "the body ended before it was complete")
}

fn parse<T: DeserializeOwned>(bytes: &Bytes, depth: usize) -> Result<T, Problem> {
    let text = scan::text(bytes).and_then(|text| scan::check(text, depth).map(|()| text));
    let text = text.map_err(|fault| {
        let problem = Problem::bad_request("invalid_json", fault.to_string());
        match fault.hint() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    })?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        if !error.is_data() {
            return Problem::bad_request("invalid_json", error.to_string());
        }
        let problem = Problem::invalid_field(field(&path, &error), message(&error));
        problem.hint("the page `/docs` shows what is expected")
    })?;
    reader.end().map_err(|_| Problem::bad_request("invalid_json", "something follows behind the JSON"))?;
    Ok(value)
}

/// Which field it is: where the reader stood, or what it misses there or does not know.
fn field(path: &str, error: &serde_json::Error) -> String {
    let text = error.to_string();
    let named = ["missing field `", "unknown field `"]
        .iter()
        .find_map(|start| text.strip_prefix(start).and_then(|rest| rest.split('`').next()));
    match (path, named) {
        (".", Some(name)) => name.to_owned(),
        (".", None) => "body".to_owned(),
        // An unknown field is where the reader stands; a missing one is below it.
        (path, Some(name)) if path != name && !path.ends_with(&format!(".{name}")) => {
            format!("{path}.{name}")
        }
        (path, _) => path.to_owned(),
    }
}

/// What is wrong, without the place: the field says it, and lines are of no use to a program.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        name: String,
        #[serde(default)]
        inner: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        size: u8,
    }

    fn refusal(text: &[u8]) -> serde_json::Value {
        let problem = parse::<Sample>(&Bytes::copy_from_slice(text), 8).unwrap_err();
        use axum::response::IntoResponse;
        let response = crate::problem::render(problem.into_response(), crate::problem::Style::Problem, "r");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bytes = runtime.block_on(response.into_body().collect()).unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn wrong_fields_are_named() {
        let good: Sample = parse(&Bytes::from_static(br#"{"name":"a","inner":[{"size":255}]}"#), 8).unwrap();
        assert_eq!((good.name.as_str(), good.inner[0].size), ("a", 255));
        for (text, field) in [
            (r#"{}"#, "name"),
            (r#"{"name":1}"#, "name"),
            (r#"{"name":"a","nmae":1}"#, "nmae"),
            (r#"{"name":"a","inner":[{"size":256}]}"#, "inner[0].size"),
            (r#"{"name":"a","inner":[{"size":1},{}]}"#, "inner[1].size"),
            (r#"{"name":"a","inner":[{"size":1,"x":2}]}"#, "inner[0].x"),
            (r#"[]"#, "body"),
        ] {
            let said = refusal(text.as_bytes());
            assert_eq!((&said["status"], &said["field"]), (&422.into(), &field.into()), "{text}: {said}");
        }
    }

    #[test]
    fn malformed_json_is_told_from_wrong_fields() {
        for text in [
            "",
            "{",
            "{\"name\":\"a\"} x",
            "{\"name\":\"a\"}{}",
            "\u{feff}{\"name\":\"a\"}",
            "{\"name\":\"a\",\"name\":\"b\"}",
            "{\"name\":\"a\",\"n\\u0061me\":\"b\"}",
            "{\"name\":1e400}",
            "{\"name\":NaN}",
            "{\"name\":\"a\",}",
            "[[[[[[[[[1]]]]]]]]]",
        ] {
            let said = refusal(text.as_bytes());
            assert_eq!(
                (&said["status"], &said["code"]),
                (&400.into(), &"invalid_json".into()),
                "{text}: {said}"
            );
        }
        for bytes in [&b"{\"name\":\"\xff\"}"[..], b"\xff\xfe{\0}\0", b"{\0\"\0n\0"] {
            assert_eq!(refusal(bytes)["code"], "invalid_json");
        }
    }

    #[test]
    fn only_json_is_json() {
        let of = |text: &'static str| {
            is_json(&HeaderMap::from_iter([(header::CONTENT_TYPE, text.parse().unwrap())]))
        };
        assert!(of("application/json") && of("Application/JSON; charset=UTF-8"));
        assert!(!of("text/plain") && !of("application/jsonp") && !of("application/json; charset=utf-16"));
        assert!(!is_json(&HeaderMap::new()));
    }
}
