//! Files of a sandbox: listed, read, written, removed.

use super::wire::{Piece, Version, envelope};
use crate::clock::rfc3339;
use crate::doors::command;
use crate::doors::v1::files::{Place, place};
use crate::{Body, Caller, Id, Params, Problem, Scope, State};
use axum::Json;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{FileEntry, FileKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(list, add)).routes(routes!(read, write, remove))
}

/// Most files that are counted.
const MOST_FILES: usize = 10_000;

/// Which files.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Below which directory; the workspace itself if it is left out.
    #[serde(default)]
    path: String,
    /// Whether what is below its directories counts.
    #[serde(default)]
    recursive: bool,
    /// At most so many: 1 to 100, 20 if it is left out.
    page_size: Option<usize>,
    /// How many are passed over, up to 10000.
    page_offset: Option<usize>,
}

/// List files of a sandbox
#[utoipa::path(
    get, path = "/sandboxes/{id}/files", tag = "sandboxes", params(("id" = String, Path, description = "Of the sandbox"), Which),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = Value))
)]
async fn list(
    state: State,
    caller: Caller,
    version: Version,
    id: Id,
    Params(which): Params<Which>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    let piece = Piece { page_size: which.page_size, page_offset: which.page_offset }.read()?;
    let (caller, path, deep) = (caller.of_engine(), which.path.as_str(), which.recursive);
    let mut found =
        state.plane().list_files(&caller, id.as_str(), path, deep, None, MOST_FILES).await?.entries;
    found.retain(|file| !command::is_ours(&file.path));
    let data = found.iter().skip(piece.1).take(piece.0).map(shown).collect();
    Ok(Json(envelope(data, piece, found.len() as u64, &version)))
}

fn shown(file: &FileEntry) -> Value {
    json!({
        "name": file.path.rsplit('/').next(),
        "path": format!("/workspace/{}", file.path),
        "type": match file.kind {
            FileKind::File => "file",
            FileKind::Directory => "directory",
            FileKind::Other => "other",
        },
        "size": file.size,
        "mode": format!("{:04o}", file.mode),
        "modified_at": rfc3339(file.modified_ms),
    })
}

/// How content is written in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SandboxEncoding)]
enum Encoding {
    /// As it is.
    #[default]
    #[serde(alias = "utf-8")]
    Utf8,
    /// As base64.
    Base64,
}

/// How a file is read.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct How {
    /// `utf8` or `base64`; what fits if it is left out.
    encoding: Option<Encoding>,
}

/// Read a file of a sandbox
#[utoipa::path(
    get, path = "/sandboxes/{id}/files/{*path}", tag = "sandboxes",
    params(("id" = String, Path, description = "Of the sandbox"), ("path" = String, Path, description = "Of the file, slashes and all"), How),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = Value), (status = 413, description = "It is too large", body = Value))
)]
async fn read(
    state: State,
    caller: Caller,
    at: Place,
    Params(how): Params<How>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    let (id, path) = place(at)?;
    let file = state.plane().open_file(&caller.of_engine(), &id, &path).await?;
    if file.entry.size > state.options().max_json {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the file is too large for JSON",
        )
        .hint(format!("`GET /api/v1/sessions/{id}/files/…` gives its bytes")));
    }
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < file.entry.size {
        match file.read(bytes.len() as u64).await? {
            piece if piece.is_empty() => break,
            piece => bytes.extend(piece),
        }
    }
    let size = bytes.len();
    let (encoding, content) = match (how.encoding, String::from_utf8(bytes)) {
        (None | Some(Encoding::Utf8), Ok(text)) => (Encoding::Utf8, text),
        (Some(Encoding::Utf8), Err(_)) => {
            return Err(Problem::invalid_field("encoding", "the file is no text").hint("ask for `base64`"));
        }
        (_, text) => {
            (Encoding::Base64, STANDARD.encode(text.map_or_else(|e| e.into_bytes(), String::into_bytes)))
        }
    };
    Ok(Json(json!({"path": path, "content": content, "encoding": encoding, "size": size})))
}

/// What a file shall be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SandboxFileContent)]
struct Content {
    /// Its content.
    content: String,
    /// How that is written.
    #[serde(default)]
    encoding: Encoding,
    /// Whether it may be executed.
    #[serde(default)]
    executable: bool,
}

/// A file that shall be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SandboxFile)]
struct NewFile {
    /// Its path.
    #[schema(example = "data/input.csv")]
    path: String,
    /// Its content.
    content: String,
    /// How that is written.
    #[serde(default)]
    encoding: Encoding,
    /// Whether it may be executed.
    #[serde(default)]
    executable: bool,
}

/// Write a file of a sandbox, named by the body
#[utoipa::path(
    post, path = "/sandboxes/{id}/files", tag = "sandboxes", request_body = NewFile, params(("id" = String, Path, description = "Of the sandbox")),
    responses((status = 201, body = Value), (status = 422, description = "A field is wrong", body = Value))
)]
async fn add(
    state: State,
    caller: Caller,
    id: Id,
    Body(file): Body<NewFile>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let NewFile { path, content, encoding, executable } = file;
    let content = Content { content, encoding, executable };
    Ok((StatusCode::CREATED, put(&state, &caller, id.as_str(), &path, content).await?))
}

/// Write a file of a sandbox
#[utoipa::path(
    put, path = "/sandboxes/{id}/files/{*path}", tag = "sandboxes", request_body = Content,
    params(("id" = String, Path, description = "Of the sandbox"), ("path" = String, Path, description = "Of the file, slashes and all")),
    responses((status = 200, body = Value), (status = 422, description = "A field is wrong", body = Value))
)]
async fn write(
    state: State,
    caller: Caller,
    at: Place,
    Body(content): Body<Content>,
) -> Result<Json<Value>, Problem> {
    let (id, path) = place(at)?;
    put(&state, &caller, &id, &path, content).await
}

async fn put(
    state: &State,
    caller: &Caller,
    id: &str,
    path: &str,
    content: Content,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    let bytes = match content.encoding {
        Encoding::Utf8 => content.content.into_bytes(),
        Encoding::Base64 => {
            STANDARD.decode(content.content).map_err(|_| Problem::invalid_field("content", "is no base64"))?
        }
    };
    let mode = if content.executable { 0o755 } else { 0o644 };
    let limit = state.options().max_body;
    let mut upload = state.plane().upload_file(&caller.of_engine(), id, path, mode, limit).await?;
    upload.push(&bytes).await?;
    Ok(Json(json!({"path": path, "size": upload.finish().await?})))
}

/// How something is removed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Removal {
    /// Whether a directory goes with all that is in it.
    #[serde(default)]
    recursive: bool,
}

/// Remove a file or directory of a sandbox
#[utoipa::path(
    delete, path = "/sandboxes/{id}/files/{*path}", tag = "sandboxes",
    params(("id" = String, Path, description = "Of the sandbox"), ("path" = String, Path, description = "Of the file, slashes and all"), Removal),
    responses((status = 204, description = "It is gone"), (status = 404, description = "There is none", body = Value))
)]
async fn remove(
    state: State,
    caller: Caller,
    at: Place,
    Params(how): Params<Removal>,
) -> Result<StatusCode, Problem> {
    caller.require(Scope::Files)?;
    let (id, path) = place(at)?;
    state.plane().remove_file(&caller.of_engine(), &id, &path, how.recursive).await?;
    Ok(StatusCode::NO_CONTENT)
}
