//! Whose token it is. Nobody gets further without one that works.

use super::RequestId;
use crate::audit::{Note, Outcome};
use crate::keys::Refusal;
use crate::listen::Peer;
use crate::{Caller, Problem, State};
use axum::http::{Extensions, HeaderMap, HeaderName, Uri, header};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// What people call a token in a URL.
const IN_QUERY: [&str; 6] = ["token", "access_token", "api_key", "apikey", "x-api-key", "authorization"];

/// Of a request, without its body.
pub(super) async fn authenticate(
    state: &State,
    uri: &Uri,
    headers: &HeaderMap,
    about: &Extensions,
) -> Result<Caller, Problem> {
    if has_token(uri) {
        let detail = "a token in the URL is refused: it would end up in logs and histories";
        let problem = Problem::bad_request("token_in_query", detail);
        return Err(problem.hint("send `Authorization: Bearer <token>` instead"));
    }
    let token = token(headers).map_err(Problem::unauthorized)?;
    let peer = about.get::<Peer>().copied().unwrap_or_default();
    let checked = state.keys().check(&token, peer.address()).await;
    checked.map_err(|refusal| refused(refusal, state, uri, peer, &RequestId::of(about)))
}

fn refused(refusal: Refusal, state: &State, uri: &Uri, peer: Peer, id: &RequestId) -> Problem {
    let problem = match refusal {
        Refusal::Wrong => Problem::unauthorized("this token does not work"),
        Refusal::TooMany(wait) => {
            Problem::too_many("too_many_wrong_tokens", "too many wrong tokens came from this address", wait)
        }
        Refusal::Storage(error) => return error.into(),
    };
    state.audit().refusal(Note {
        tenant: String::new(),
        key_id: String::new(),
        action: "authenticate",
        subject: uri.path().chars().take(256).collect(),
        request_id: id.as_str().to_owned(),
        outcome: Outcome::Refused,
        detail: Some(format!("from {peer}")),
    });
    problem
}

fn has_token(uri: &Uri) -> bool {
    let names = uri.query().unwrap_or("").split('&').map(|pair| pair.split('=').next().unwrap_or(""));
    names.into_iter().any(|name| IN_QUERY.iter().any(|known| known.eq_ignore_ascii_case(name)))
}

/// The one token of a request.
pub(crate) fn token(headers: &HeaderMap) -> Result<String, &'static str> {
    let bearers = headers.get_all(header::AUTHORIZATION).iter().map(|value| {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let plain = headers.get_all(API_KEY).iter().map(|value| value.to_str().ok().map(str::trim));
    let mut tokens = bearers.chain(plain);
    let first = tokens.next().ok_or("a token is needed")?;
    let first = first.filter(|token| !token.is_empty()).ok_or("`Authorization` has no bearer token")?;
    match tokens.all(|other| other == Some(first)) {
        true => Ok(first.to_owned()),
        false => Err("there is more than one token"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&'static str, &'static str)]) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        token(&headers)
    }

    #[test]
    fn there_is_one_token_in_one_of_two_places() {
        assert_eq!(of(&[("authorization", "Bearer abc")]).as_deref(), Ok("abc"));
        assert_eq!(of(&[("authorization", "bearer  abc ")]).as_deref(), Ok("abc"));
        assert_eq!(of(&[("x-api-key", "abc")]).as_deref(), Ok("abc"));
        assert_eq!(of(&[("x-api-key", "abc"), ("authorization", "Bearer abc")]).as_deref(), Ok("abc"));
        assert!(of(&[("x-api-key", "abc"), ("authorization", "Bearer abd")]).is_err());
        assert!(of(&[("authorization", "Bearer a"), ("authorization", "Bearer b")]).is_err());
        assert!(of(&[("authorization", "Basic abc")]).is_err());
        assert!(of(&[("authorization", "Bearer ")]).is_err() && of(&[]).is_err());
    }

    #[test]
    fn tokens_in_urls_are_noticed() {
        for uri in ["/x?token=a", "/x?a=b&Access_Token=c", "/x?api_key"] {
            assert!(has_token(&uri.parse().unwrap()), "{uri}");
        }
        assert!(!has_token(&"/x?tokens=a&b=token".parse().unwrap()));
    }
}
