//! A client as there were before: it knows words of HTTP and of JSON, forms, and that somebody else may have a key.

use crate::client;
pub(crate) use crate::client::Answer as Reply;
use crate::support::Sandboxd;
use serde_json::{Value, json};

pub(crate) struct Served {
    server: client::Served,
    pub(crate) token: String,
}

impl Served {
    pub(crate) fn by(who: &Sandboxd) -> Served {
        Served::with(who, &[])
    }

    /// With more words on its command line.
    pub(crate) fn with(who: &Sandboxd, more: &[&str]) -> Served {
        let server = client::Served::start(who, more);
        Served { token: server.token.clone(), server }
    }

    /// A key of another tenant.
    pub(crate) fn key_of(&self, tenant: &str) -> String {
        let key = json!({"name": tenant, "tenant": tenant, "scopes": ["run", "files"]});
        self.post("/api/v1/keys", &key).is(201)["token"].as_str().unwrap().to_owned()
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.server.get(path)
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.server.delete(path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.json(&format!("POST {path}"), &self.token, body)
    }

    /// A request with JSON, such as `POST /path`.
    pub(crate) fn json(&self, line: &str, token: &str, body: &Value) -> Reply {
        let (method, path) = line.split_once(' ').unwrap();
        let kind = [("content-type", "application/json")];
        self.server.send_as(token, method, path, &kind, body.to_string().as_bytes())
    }

    /// A request without a body.
    pub(crate) fn bare(&self, line: &str, token: &str) -> Reply {
        let (method, path) = line.split_once(' ').unwrap();
        self.server.send_as(token, method, path, &[], b"")
    }

    /// A request with JSON whose token is in the other header.
    pub(crate) fn keyed(&self, line: &str, token: &str, body: &Value) -> Reply {
        let (method, path) = line.split_once(' ').unwrap();
        let headers = [("content-type", "application/json"), ("x-api-key", token)];
        self.server.send(method, path, &headers, body.to_string().as_bytes())
    }

    /// A request with a header.
    pub(crate) fn get_with(&self, path: &str, header: (&str, &str)) -> Reply {
        self.server.send("GET", path, &[header], b"")
    }

    /// A form with one file.
    pub(crate) fn form(&self, path: &str, name: &str, content: &[u8]) -> Reply {
        let mut body = format!(
            "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        )
        .into_bytes();
        body.extend(content);
        body.extend(b"\r\n--edge--\r\n");
        let kind = [("content-type", "multipart/form-data; boundary=edge")];
        self.server.send("POST", path, &kind, &body)
    }
}
