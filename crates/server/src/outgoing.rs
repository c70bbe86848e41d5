//! Requests of our own to others: what they have in common, whoever they go to.

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use std::error::Error;
use std::time::Duration;

/// How much is told of what went wrong, in characters.
const MOST_TOLD: usize = 500;

/// Somebody who calls others. It goes where it is told to and nowhere else: no redirects, no proxies.
pub(crate) fn client() -> ClientBuilder {
    // Somebody else may have been first, with the same.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder()
        .user_agent(concat!("sandboxd/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        // A proxy would look names up by itself.
        .no_proxy()
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_max_idle_per_host(2)
}

/// What went wrong, down to its cause and without the URL, which may have a token in it.
pub(crate) fn words(error: &reqwest::Error) -> String {
    let mut words = match error {
        error if error.is_timeout() => "no answer in time".to_owned(),
        error if error.is_connect() => "no connection".to_owned(),
        _ => "the request failed".to_owned(),
    };
    let mut cause = error.source();
    while let Some(inner) = cause {
        words.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    words.chars().take(MOST_TOLD).collect()
}
