//! Files of a session: sent, fetched, listed.

use super::super::v1::files::{Place, content, place};
use super::ensure;
use crate::doors::command;
use crate::{Body, Caller, Id, Params, Problem, Scope, State};
use axum::Json;
use axum::extract::Multipart;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use engine::{FileEntry, FileKind};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(upload))
        .routes(routes!(create))
        .routes(routes!(download))
        .routes(routes!(list_all))
        .routes(routes!(list))
}

/// Most files of one list.
const MOST_FILES: usize = 10_000;

/// A file as it is listed.
pub(super) fn entry(entry: &FileEntry) -> Value {
    let name = entry.path.rsplit('/').next().unwrap_or_default();
    let kind = match (entry.kind, name.rsplit_once('.')) {
        (FileKind::Directory, _) => "directory",
        (_, Some((stem, ending))) if !stem.is_empty() && !ending.is_empty() => ending,
        _ => "unknown",
    };
    json!({"filename": entry.path, "size": entry.size, "type": kind, "modified_at": entry.modified_ms as f64 / 1000.0})
}

/// Where an upload goes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct To {
    /// Its path; the name it is sent under if it is left out.
    filename: Option<String>,
}

/// A file as a form sends it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
#[schema(as = WorkspaceForm)]
struct Form {
    /// The file.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// Write a file that a form sends
#[utoipa::path(
    post, path = "/workspace/se/upload/{session_id}", tag = "workspace",
    params(("session_id" = String, Path, description = "Of the session"), To),
    request_body(content = Form, content_type = "multipart/form-data"),
    responses((status = 200, body = Value), (status = 413, description = "It is too large", body = Value))
)]
async fn upload(
    state: State,
    caller: Caller,
    id: Id,
    Params(to): Params<To>,
    mut form: Multipart,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    let broken =
        |e: axum::extract::multipart::MultipartError| Problem::new(e.status(), "invalid_form", e.body_text());
    let (caller, limit) = (caller.of_engine(), state.options().max_body);
    while let Some(mut field) = form.next_field().await.map_err(broken)? {
        if field.name() != Some("file") {
            continue;
        }
        let name = to.filename.clone().or(field.file_name().map(str::to_owned));
        let name = name.ok_or_else(|| Problem::invalid_field("filename", "is missing"))?;
        ensure(&state, &caller, id.as_str()).await?;
        let mut upload = state.plane().upload_file(&caller, id.as_str(), &name, 0o644, limit).await?;
        while let Some(bytes) = field.chunk().await.map_err(broken)? {
            upload.push(&bytes).await?;
        }
        return Ok(Json(json!({"filename": name, "size": upload.finish().await?})));
    }
    Err(Problem::invalid_field("file", "is missing").hint("send a form with a field `file`"))
}

/// A file with its text.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WorkspaceFile)]
struct Text {
    /// Its text.
    content: String,
    /// Its path in the session.
    #[schema(example = "data/input.csv")]
    filename: String,
    /// Its permissions as a number: 420, which is 0644, if it is left out.
    #[serde(default = "usual_mode")]
    #[schema(maximum = 511)]
    mode: u32,
}

fn usual_mode() -> u32 {
    0o644
}

/// Write a file
#[utoipa::path(
    post, path = "/workspace/se/create/{session_id}", tag = "workspace", request_body = Text,
    params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, body = Value), (status = 422, description = "A field is wrong", body = Value))
)]
async fn create(
    state: State,
    caller: Caller,
    id: Id,
    Body(text): Body<Text>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    if text.mode > 0o777 {
        return Err(Problem::invalid_field("mode", "is no mode").hint("a number up to 511, which is 0777"));
    }
    let (caller, limit) = (caller.of_engine(), state.options().max_body);
    ensure(&state, &caller, id.as_str()).await?;
    let plane = state.plane();
    let mut upload = plane.upload_file(&caller, id.as_str(), &text.filename, text.mode, limit).await?;
    upload.push(text.content.as_bytes()).await?;
    Ok(Json(json!({"filename": text.filename, "size": upload.finish().await?})))
}

/// Fetch a file
#[utoipa::path(
    get, path = "/workspace/se/download/{session_id}/{*filepath}", tag = "workspace",
    params(("session_id" = String, Path, description = "Of the session"), ("filepath" = String, Path, description = "Of the file, slashes and all")),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = 404, description = "There is none", body = Value))
)]
async fn download(state: State, caller: Caller, at: Place) -> Result<Response, Problem> {
    caller.require(Scope::Files)?;
    let (session, path) = place(at)?;
    let caller = caller.of_engine();
    ensure(&state, &caller, &session).await?;
    let file = state.plane().open_file(&caller, &session, &path).await?;
    let size = file.entry.size;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (header::CONTENT_LENGTH, HeaderValue::from(size)),
    ];
    Ok((headers, content(file, 0, size)).into_response())
}

/// How files are listed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct How {
    /// Whether what is below directories counts.
    #[serde(default)]
    recursive: bool,
}

/// List the files of a session
#[utoipa::path(
    get, path = "/workspace/se/files/{session_id}", tag = "workspace",
    params(("session_id" = String, Path, description = "Of the session"), How), responses((status = 200, body = Value))
)]
async fn list_all(
    state: State,
    caller: Caller,
    id: Id,
    Params(how): Params<How>,
) -> Result<Json<Value>, Problem> {
    list_in(&state, &caller, id.as_str(), "", how.recursive).await
}

/// List the files of a directory
#[utoipa::path(
    get, path = "/workspace/se/files/{session_id}/{*path}", tag = "workspace",
    params(("session_id" = String, Path, description = "Of the session"), ("path" = String, Path, description = "Of the directory"), How),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = Value))
)]
async fn list(
    state: State,
    caller: Caller,
    at: Place,
    Params(how): Params<How>,
) -> Result<Json<Value>, Problem> {
    let (session, path) = place(at)?;
    list_in(&state, &caller, &session, &path, how.recursive).await
}

async fn list_in(
    state: &State,
    caller: &Caller,
    session: &str,
    path: &str,
    recursive: bool,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    let caller = caller.of_engine();
    ensure(state, &caller, session).await?;
    let found = state.plane().list_files(&caller, session, path, recursive, None, MOST_FILES).await?;
    let files = found.entries.iter().filter(|file| !command::is_ours(&file.path));
    Ok(Json(json!({"files": files.map(entry).collect::<Vec<_>>()})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_file_is_its_ending() {
        let kind = |path: &str, kind| {
            let file = FileEntry { path: path.into(), kind, size: 1, mode: 0o644, modified_ms: 1500 };
            entry(&file)["type"].as_str().unwrap().to_owned()
        };
        assert_eq!(kind("a/b.tar.gz", FileKind::File), "gz");
        for unknown in ["a.b/c", ".hidden", "plain", "dot."] {
            assert_eq!(kind(unknown, FileKind::File), "unknown", "{unknown}");
        }
        assert_eq!(kind("a.b", FileKind::Directory), "directory");
    }
}
