//! Documents of stores that the operator has named. A caller chooses among them and brings a token of its own if it
//! likes; where else this server could reach is nothing that a caller gets to use.
//!
//! A store is asked `GET <url>/download?docid=<id>&rev=<revision>`, with `Authorization: Bearer <token>` where there is a
//! token, and answers 200 with the bytes of the document. Anything else is a failure; redirects are not followed.

use crate::outgoing::{self, words};
use crate::{DocumentOptions, Problem};
use axum::http::StatusCode;
use reqwest::{Client, Response, Url};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Documents at a time, of all callers together.
const MOST_FETCHED: usize = 32;
/// How long a store may take to take a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// What fetches documents.
pub(crate) struct Documents {
    options: DocumentOptions,
    /// Made when the first document is fetched.
    client: OnceLock<Result<Client, String>>,
    turns: Semaphore,
}

/// A store that may be asked, and what opens it.
pub(crate) struct Source {
    url: Url,
    token: Option<String>,
}

/// A document as it comes. It has a turn until it is dropped.
pub(crate) struct Coming<'a> {
    answer: Response,
    _turn: SemaphorePermit<'a>,
}

impl Documents {
    pub(crate) fn new(options: DocumentOptions) -> Documents {
        Documents { options, client: OnceLock::new(), turns: Semaphore::new(MOST_FETCHED) }
    }

    /// How long it may take, and how long one may be.
    pub(crate) fn bounds(&self) -> (Duration, u64) {
        (self.options.timeout, self.options.max_size)
    }

    /// The store of that address, or the usual one. The operator's token goes to the operator's own store and to no other.
    pub(crate) fn source(&self, named: Option<&str>, token: Option<String>) -> Result<Source, Problem> {
        let DocumentOptions { url: usual, other_urls, token: ours, .. } = &self.options;
        let usual = usual.as_deref().and_then(address);
        let refused =
            |detail: &str| Problem::forbidden("host_not_allowed", detail.to_owned()).field("efast_url");
        let url = match named {
            None => usual.clone().ok_or_else(|| {
                refused("no document store may be called by this server")
                    .hint("the operator names one by `documents.url`; files can be uploaded without")
            })?,
            Some(named) => {
                let known = usual.iter().cloned().chain(other_urls.iter().filter_map(|url| address(url)));
                let wanted =
                    address(named).ok_or_else(|| Problem::invalid_field("efast_url", "is no URL"))?;
                known.into_iter().find(|known| *known == wanted).ok_or_else(|| {
                    refused("this store may not be called by this server")
                        .hint("leave it out, or have the operator add it to `documents.other_urls`")
                })?
            }
        };
        let ours = ours.as_ref().filter(|_| usual.as_ref() == Some(&url));
        let token = token.or_else(|| ours.map(|token| token.reveal().to_owned()));
        Ok(Source { url, token })
    }

    /// Asks for a document, when it is its turn.
    pub(crate) async fn open(
        &self,
        source: &Source,
        id: &str,
        revision: Option<&str>,
    ) -> Result<Coming<'_>, String> {
        let turn = self.turns.acquire().await.map_err(|error| error.to_string())?;
        let client = self.client.get_or_init(|| {
            outgoing::client().connect_timeout(CONNECT).build().map_err(|error| words(&error))
        });
        let mut request = client.as_ref().map_err(String::clone)?.get(document(&source.url, id, revision));
        if let Some(token) = &source.token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.map_err(|error| words(&error))?;
        match answer.status() {
            StatusCode::OK => Ok(Coming { answer, _turn: turn }),
            status => Err(format!("the answer of the store was {}", status.as_u16())),
        }
    }
}

impl Coming<'_> {
    /// The next bytes; none at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<bytes::Bytes>, String> {
        self.answer.chunk().await.map_err(|error| words(&error))
    }
}

/// The address of a store, however it was written.
fn address(text: &str) -> Option<Url> {
    match crate::webhooks::fault(text, true) {
        None => Url::parse(text.trim_end_matches('/')).ok(),
        Some(_) => None,
    }
}

/// Where a document is. Ids have slashes in them, so they are no part of the path.
fn document(store: &Url, id: &str, revision: Option<&str>) -> Url {
    let mut url = store.clone();
    // Every address with a host has a path.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().push("download");
    }
    url.query_pairs_mut().append_pair("docid", id).extend_pairs(revision.map(|revision| ("rev", revision)));
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    fn documents(url: Option<&str>, others: &[&str]) -> Documents {
        Documents::new(DocumentOptions {
            url: url.map(str::to_owned),
            other_urls: others.iter().map(|url| (*url).to_owned()).collect(),
            token: Some(Secret::new("ours")),
            ..DocumentOptions::default()
        })
    }

    #[test]
    fn only_stores_of_the_operator_are_called_and_only_the_first_gets_its_token() {
        let documents = documents(Some("http://store:9123/"), &["https://other.example.org/api"]);
        let of = |named: Option<&str>, token: Option<&str>| {
            let source = documents.source(named, token.map(str::to_owned));
            source
                .map(|source| (source.url.to_string(), source.token))
                .map_err(|problem| problem.status().as_u16())
        };
        let ours = || Ok(("http://store:9123/".to_owned(), Some("ours".to_owned())));
        assert_eq!(of(None, None), ours());
        assert_eq!(of(Some("http://STORE:9123"), None), ours());
        assert_eq!(of(None, Some("theirs")).unwrap().1.as_deref(), Some("theirs"));
        let other = of(Some("https://other.example.org:443/api/"), None).unwrap();
        assert_eq!(other, ("https://other.example.org/api".to_owned(), None));
        for bad in [
            "http://store:9124",
            "https://store:9123",
            "http://store:9123/x",
            "http://store:9123/?x",
            "https://other.example.org",
            "http://169.254.169.254/latest",
        ] {
            assert_eq!(of(Some(bad), None), Err(403), "{bad}");
        }
        for wrong in ["", "store", "file:///etc/passwd", "http://a:b@store:9123"] {
            assert_eq!(of(Some(wrong), None), Err(422), "{wrong}");
        }
    }

    #[test]
    fn without_a_store_nobody_is_called() {
        assert_eq!(documents(None, &[]).source(None, None).err().unwrap().status().as_u16(), 403);
        let others = documents(None, &["http://a"]);
        assert_eq!(others.source(Some("http://a/"), None).ok().unwrap().token, None);
    }

    #[test]
    fn an_id_is_always_one_value() {
        let store = Url::parse("http://store/api").unwrap();
        let url = document(&store, "gns://A/B?x=1&rev=2#é", Some("3"));
        assert_eq!(
            url.as_str(),
            "http://store/api/download?docid=gns%3A%2F%2FA%2FB%3Fx%3D1%26rev%3D2%23%C3%A9&rev=3"
        );
        assert_eq!(
            document(&Url::parse("http://store").unwrap(), "..", None).as_str(),
            "http://store/download?docid=.."
        );
    }
}
