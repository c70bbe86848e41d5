//! Asks a server, and makes errors of what it refuses.

use super::RemoteError;
use super::place::{self, Place};
use crate::args::remote::ServerArgs;
use anyhow::{Result, anyhow};
use engine::EngineError;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde_json::Value;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// Most rows that are asked for at once.
const PAGE: usize = 200;
/// How long a server may take to take a connection.
const PATIENCE: Duration = Duration::from_secs(10);
const AGENT: &str = concat!("sandboxd/", env!("CARGO_PKG_VERSION"));

/// A server that can be asked.
#[derive(Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    place: Arc<Place>,
    /// The header with the token, or why there is none.
    token: Result<HeaderValue, String>,
}

impl Client {
    pub(super) fn new(args: &ServerArgs) -> Result<Client> {
        let place = Place::read(&args.server)?;
        let token = place::token(args, &place).and_then(|token| {
            let header = HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
            let mut header = header.map_err(|_| "the one that was given is no token".to_owned())?;
            header.set_sensitive(true);
            Ok(header)
        });
        // This library leaves the choice to the program; whoever has made it already is right.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut http = reqwest::Client::builder()
            .user_agent(AGENT)
            .connect_timeout(PATIENCE)
            // A token is for the server that was named, and for no other.
            .redirect(reqwest::redirect::Policy::none());
        if place.is_here() {
            http = http.no_proxy();
        }
        if place.url.scheme() == "http" {
            // Certificates of the system take time to read, and a host may have none.
            http = http.tls_certs_only([]);
        }
        if let Some(socket) = &place.socket {
            http = http.unix_socket(socket.clone());
        }
        Ok(Client { http: http.build()?, place: Arc::new(place), token })
    }

    /// The name of the server, for people.
    pub(super) fn name(&self) -> &str {
        &self.place.name
    }

    pub(super) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value> {
        self.answer(self.request(Method::GET, path, query)?).await
    }

    pub(super) async fn post(&self, path: &[&str], body: &Value) -> Result<Value> {
        self.answer(json(self.request(Method::POST, path, &[])?, body)).await
    }

    pub(super) async fn put(&self, path: &[&str], body: &Value) -> Result<Value> {
        self.answer(json(self.request(Method::PUT, path, &[])?, body)).await
    }

    pub(super) async fn delete(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value> {
        self.answer(self.request(Method::DELETE, path, query)?).await
    }

    /// Every row of a list, piece by piece, or as many as are wanted.
    pub(super) async fn list(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        most: Option<usize>,
    ) -> Result<Vec<Value>> {
        let (mut items, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let left = most.map_or(PAGE, |most| most.saturating_sub(items.len()).min(PAGE));
            if left == 0 {
                return Ok(items);
            }
            let limit = left.to_string();
            let mut query = [query, &[("limit", limit.as_str())]].concat();
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let mut page = self.get(path, &query).await?;
            match page.get_mut("items").map(Value::take) {
                Some(Value::Array(more)) => items.extend(more),
                _ => return Err(self.odd().into()),
            }
            match page["next"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(items),
            }
        }
    }

    /// A request that is not sent yet. Each word is one part of the path, whatever is in it.
    pub(super) fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<RequestBuilder> {
        Ok(self.http.request(method, self.url(path, query)?))
    }

    /// Sends a request. An answer that is no success is an error.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let request = match &self.token {
            Ok(token) => request.header(AUTHORIZATION, token.clone()),
            Err(_) => request,
        };
        let response = request.send().await.map_err(|error| self.failed(error))?;
        let status = response.status().as_u16();
        if response.status().is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.map_err(|error| self.failed(error))?;
        let error = RemoteError::answered(self.name(), status, &body);
        Err(match (status, &self.token) {
            (401, Err(why)) => error.with_hint(why.clone()),
            (401, Ok(_)) => error.with_hint("`--token`, SANDBOXD_TOKEN or `--state-dir` gives another token"),
            _ => error,
        }
        .into())
    }

    /// The JSON that a request is answered with; nothing is `null`.
    async fn answer(&self, request: RequestBuilder) -> Result<Value> {
        let response = self.send(request).await?;
        let body = response.bytes().await.map_err(|error| self.failed(error))?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|_| self.odd().into())
    }

    /// Why there is no answer, or no more of it.
    pub(super) fn failed(&self, error: reqwest::Error) -> RemoteError {
        let is_connect = error.is_connect();
        let error = anyhow!(error.without_url());
        let cause = error.root_cause();
        let nobody = cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound));
        match is_connect {
            true if nobody => place::nobody(&self.place),
            true => RemoteError::new(format!("there is no connection to `{}`: {cause}", self.name()))
                .with_hint("`--server` or SANDBOXD_SERVER names the server"),
            false => RemoteError::new(format!("the connection to `{}` broke: {cause}", self.name())),
        }
    }

    /// It answers something that we do not understand.
    pub(super) fn odd(&self) -> RemoteError {
        RemoteError::new(format!("what `{}` answers is not what sandboxd does", self.name()))
            .with_hint("is it a sandboxd server of this version?")
    }

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Url> {
        // They would lead to another place than the one that was meant.
        if let Some(part) = path.iter().find(|part| matches!(**part, "" | "." | "..")) {
            return Err(EngineError::invalid("name", format!("nothing is called `{part}`")).into());
        }
        let mut url = self.place.url.clone();
        match url.path_segments_mut() {
            Ok(mut parts) => {
                parts.pop_if_empty().extend(path);
            }
            Err(()) => return Err(self.odd().into()),
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }
}

/// A request with a body.
pub(super) fn json(request: RequestBuilder, body: &Value) -> RequestBuilder {
    match body {
        Value::Null => request,
        body => request.header(CONTENT_TYPE, "application/json").body(body.to_string()),
    }
}
