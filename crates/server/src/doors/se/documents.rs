//! Documents of a store, fetched into a session. Which store may be asked is the operator's word (`documents.rs`).

use super::ensure;
use crate::documents::Source;
use crate::doors::v1::wire::{Amount, seconds};
use crate::{Body, Caller, Id, Problem, Scope, State};
use axum::Json;
use engine::control;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(fetch))
}

/// Most documents of one request.
const MOST: usize = 100;
/// Longest id, revision and token, in bytes.
const LONGEST: usize = 4096;

/// Documents to fetch.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WorkspaceDocuments)]
struct Wanted {
    /// Which, up to 100.
    file_params: Vec<Document>,
    /// Where from: one of the stores that the operator has named; the first of them if it is left out.
    #[serde(default)]
    efast_url: Option<String>,
    /// The directory they go to; the workspace itself if it is left out.
    #[serde(default)]
    #[schema(example = "input")]
    save_path: Option<String>,
    /// What opens the store; the operator's if it is left out.
    #[serde(default)]
    token: Option<String>,
    /// How long they may take together, in seconds. Never longer than the operator allows.
    #[serde(default)]
    timeout: Option<Amount>,
}

/// A document.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WorkspaceDocument)]
struct Document {
    /// Its id.
    docid: String,
    /// Its revision; the latest if it is left out.
    #[serde(default)]
    rev: Option<String>,
    /// The path it gets; the last part of its id if it is left out.
    #[serde(default)]
    savename: Option<String>,
}

impl Wanted {
    fn check(&self) -> Result<(), Problem> {
        if !(1..=MOST).contains(&self.file_params.len()) {
            return Err(Problem::invalid_field("file_params", format!("are not from 1 to {MOST}")));
        }
        let long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > LONGEST);
        for (index, document) in self.file_params.iter().enumerate() {
            let wrong = |name: &str, why: &str| {
                Err(Problem::invalid_field(format!("file_params[{index}].{name}"), why))
            };
            match document {
                Document { docid, .. } if docid.is_empty() => return wrong("docid", "is empty"),
                Document { docid, .. } if docid.len() > LONGEST => return wrong("docid", "is too long"),
                Document { rev, .. } if long(rev) => return wrong("rev", "is too long"),
                _ => {}
            }
        }
        match &self.token {
            Some(token) if token.len() > LONGEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Err(Problem::invalid_field("token", "is none that a header can carry"))
            }
            _ => Ok(()),
        }
    }
}

impl Wanted {
    /// What the path of each begins with: a directory, or nothing for the workspace itself.
    fn directory(&self) -> String {
        let path = self.save_path.as_deref().unwrap_or_default().trim_end_matches('/');
        match path.strip_prefix("/workspace").unwrap_or(path).trim_start_matches('/') {
            "" | "." => String::new(),
            path => format!("{path}/"),
        }
    }
}

impl Document {
    /// The name it gets.
    fn name(&self) -> &str {
        let last = || self.docid.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        self.savename.as_deref().filter(|name| !name.is_empty()).unwrap_or_else(last)
    }
}

/// Fetch documents of a store into a session
#[utoipa::path(
    post, path = "/workspace/se/download_from_efast/{session_id}", tag = "workspace", request_body = Wanted,
    params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, description = "What came of each, in the order they were named", body = Value),
        (status = 403, description = "No store, or not this one, may be called; upload the documents instead", body = Value),
        (status = 422, description = "A field is wrong", body = Value))
)]
async fn fetch(
    state: State,
    caller: Caller,
    id: Id,
    Body(wanted): Body<Wanted>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    wanted.check()?;
    let source = state.documents().source(wanted.efast_url.as_deref(), wanted.token.clone())?;
    let (longest, max_size) = state.documents().bounds();
    let asked = seconds("timeout", wanted.timeout.as_ref())?.map(Duration::from_millis);
    let until = Instant::now() + asked.map_or(longest, |asked| asked.min(longest));
    let caller = caller.of_engine();
    ensure(&state, &caller, id.as_str()).await?;
    let into = Into { state: &state, caller: &caller, session: id.as_str(), source, max_size };
    let directory = wanted.directory();
    let mut results = Vec::new();
    for (index, document) in wanted.file_params.iter().enumerate() {
        let path = format!("{directory}{}", document.name());
        let done = match timeout_at(until, into.fetch(document, &path)).await {
            Ok(done) => done,
            Err(_) => Err("the time was over".to_owned()),
        };
        let mut result = json!({
            "index": index,
            "docid": document.docid,
            "savename": document.name(),
            "success": done.is_ok(),
        });
        match done {
            Ok(size) => {
                (result["file_path"], result["size"]) = (json!(format!("/workspace/{path}")), json!(size))
            }
            Err(why) => result["error"] = json!(why),
        }
        results.push(result);
    }
    let fetched = results.iter().filter(|result| result["success"] == true).count();
    Ok(Json(json!({
        "message": format!("{fetched} of {} documents were fetched", results.len()),
        "success_count": fetched,
        "failed_count": results.len() - fetched,
        "total_count": results.len(),
        "results": results,
        "save_path": format!("/workspace/{directory}").trim_end_matches('/'),
    })))
}

/// Where documents come from and where they go.
struct Into<'a> {
    state: &'a State,
    caller: &'a control::Caller,
    session: &'a str,
    source: Source,
    max_size: u64,
}

impl Into<'_> {
    /// Fetches a document. It is there whole or not at all; its size.
    async fn fetch(&self, document: &Document, path: &str) -> Result<u64, String> {
        let words = |error: control::ControlError| Problem::from(error).words();
        let plane = self.state.plane();
        let upload = plane.upload_file(self.caller, self.session, path, 0o644, self.max_size);
        let mut upload = upload.await.map_err(words)?;
        let documents = self.state.documents();
        let mut coming = documents.open(&self.source, &document.docid, document.rev.as_deref()).await?;
        while let Some(bytes) = coming.next().await? {
            upload.push(&bytes).await.map_err(words)?;
        }
        upload.finish().await.map_err(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_named_as_people_do() {
        for (path, directory) in [
            ("", ""),
            (".", ""),
            ("/", ""),
            ("/workspace/", ""),
            ("/workspace/a/b", "a/b/"),
            ("a/", "a/"),
            ("..", "../"),
            ("workspace", "workspace/"),
        ] {
            let wanted = json!({"file_params": [], "save_path": path});
            assert_eq!(serde_json::from_value::<Wanted>(wanted).unwrap().directory(), directory, "{path}");
        }
    }

    #[test]
    fn a_document_is_named_after_its_id() {
        let name = |docid: &str, savename: Option<&str>| {
            let document = Document { docid: docid.into(), rev: None, savename: savename.map(str::to_owned) };
            document.name().to_owned()
        };
        assert_eq!(name("gns://A/B", None), "B");
        assert_eq!(name("7", Some("")), "7");
        assert_eq!(name("gns://A/B/", Some("a/b.txt")), "a/b.txt");
        assert_eq!(name("///", None), "");
    }
}
