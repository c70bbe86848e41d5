//! Ids in paths. They are looked up, logged and made part of names, so nothing else gets further than this.

use crate::Problem;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

/// Longest id.
const MAX: usize = 64;

/// The last id in the path of a request: a letter or digit, then up to 63 letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id(String);

impl Id {
    /// The id, if that is one.
    pub fn new(text: &str) -> Option<Id> {
        let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let good = match text.as_bytes() {
            [first, rest @ ..] => first.is_ascii_alphanumeric() && rest.len() < MAX && rest.iter().all(inner),
            [] => false,
        };
        good.then(|| Id(text.to_owned()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id, Problem> {
        // Fails for what is no text once it is decoded.
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| wrong("id"))?;
        let Some((name, value)) = params.iter().last() else {
            tracing::error!("a route takes an id and has none in its path");
            return Err(Problem::internal());
        };
        Id::new(value).ok_or_else(|| wrong(name))
    }
}

fn wrong(field: &str) -> Problem {
    Problem::bad_request("invalid_id", "is no id")
        .field(field)
        .hint("an id is a letter or digit and up to 63 letters, digits, `_` and `-`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_are_plain() {
        for good in ["a", "0", "sess-1_B", &"x".repeat(64)] {
            assert_eq!(Id::new(good).map(|id| id.0).as_deref(), Some(good));
        }
        let long = "x".repeat(65);
        for bad in ["", "-a", "_a", ".", "..", "a/b", "a.b", "a\0", "ä", "a b", "a%2e", &long] {
            assert_eq!(Id::new(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_but_letters_digits_and_two_signs_gets_through(text in any::<String>()) {
            if let Some(id) = Id::new(&text) {
                prop_assert!(id.0.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
                prop_assert!(id.0.len() <= MAX && !id.0.starts_with(['_', '-']));
            }
        }
    }
}
