//! Files of sessions: listed, read, written, moved, removed. Everything happens beneath the workspace.

use crate::clock::rfc3339;
use crate::{Body, Caller, Id, Params, Problem, Scope, State};
use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::{Multipart, Path, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use engine::control::{Archive, OpenFile};
use engine::{FileEntry, FileKind};
use futures_util::{StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(upload))
        .routes(routes!(make_directory))
        .routes(routes!(rename))
        .routes(routes!(read, write, remove))
        .routes(routes!(export, import))
}

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
    /// At most so many: 1 to 10000, 1000 if it is left out.
    limit: Option<usize>,
    /// Only what comes behind this path, as the piece before it says.
    after: Option<String>,
}

fn entry(entry: &FileEntry) -> Value {
    json!({
        "name": entry.path.rsplit('/').next(),
        "path": entry.path,
        "container_path": format!("/workspace/{}", entry.path),
        "type": match entry.kind {
            FileKind::File => "file",
            FileKind::Directory => "directory",
            FileKind::Other => "other",
        },
        "size": entry.size,
        "mode": format!("{:04o}", entry.mode),
        "modified_time": rfc3339(entry.modified_ms),
        "etag": tag(entry),
    })
}

fn tag(entry: &FileEntry) -> String {
    format!("\"{:x}-{:x}\"", entry.size, entry.modified_ms)
}

/// List files
#[utoipa::path(
    get, path = "/api/v1/sessions/{session_id}/files", tag = "files",
    params(("session_id" = String, Path, description = "Of the session"), Which), responses((status = 200, body = Value))
)]
async fn list(
    state: State,
    caller: Caller,
    id: Id,
    Params(which): Params<Which>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    let limit = which.limit.unwrap_or(1000);
    if !(1..=10_000).contains(&limit) {
        return Err(Problem::invalid_field("limit", "is not from 1 to 10000"));
    }
    let (path, after) = (which.path.as_str(), which.after.as_deref());
    let list = state
        .plane()
        .list_files(&caller.of_engine(), id.as_str(), path, which.recursive, after, limit)
        .await?;
    let files: Vec<Value> = list.entries.iter().map(entry).collect();
    Ok(Json(json!({"session_id": id.as_str(), "count": files.len(), "files": files, "next": list.next})))
}

/// Where an upload goes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct To {
    /// Its path; the name it is sent under if it is left out.
    path: Option<String>,
}

/// A file as a form sends it.
#[derive(ToSchema)]
#[schema(as = UploadForm)]
#[expect(dead_code, reason = "only its description is used")]
struct Form {
    /// The file.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// Write a file that a form sends
#[utoipa::path(
    post, path = "/api/v1/sessions/{session_id}/files/upload", tag = "files",
    params(("session_id" = String, Path, description = "Of the session"), To),
    request_body(content = Form, content_type = "multipart/form-data"),
    responses((status = 200, body = Value), (status = 413, description = "It is too large", body = crate::problem::Facts))
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
    while let Some(mut field) = form.next_field().await.map_err(broken)? {
        if field.name() != Some("file") {
            continue;
        }
        let name = to.path.clone().or(field.file_name().map(str::to_owned));
        let path = name.ok_or_else(|| Problem::invalid_field("path", "is missing"))?;
        let limit = state.options().max_body;
        let mut upload =
            state.plane().upload_file(&caller.of_engine(), id.as_str(), &path, 0o644, limit).await?;
        while let Some(bytes) = field.chunk().await.map_err(broken)? {
            upload.push(&bytes).await?;
        }
        let size = upload.finish().await?;
        return Ok(Json(json!({"session_id": id.as_str(), "file_path": path, "size": size})));
    }
    Err(Problem::invalid_field("file", "is missing").hint("send a form with a field `file`"))
}

/// A directory to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDirectory)]
struct Directory {
    /// Its path.
    #[schema(example = "data/raw")]
    path: String,
}

/// Make a directory, and those above it
#[utoipa::path(
    post, path = "/api/v1/sessions/{session_id}/files/directories", tag = "files", request_body = Directory,
    params(("session_id" = String, Path, description = "Of the session")), responses((status = 201, body = Value))
)]
async fn make_directory(
    state: State,
    caller: Caller,
    id: Id,
    Body(wanted): Body<Directory>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    caller.require(Scope::Files)?;
    state.plane().make_directory(&caller.of_engine(), id.as_str(), &wanted.path).await?;
    Ok((StatusCode::CREATED, Json(json!({"session_id": id.as_str(), "path": wanted.path}))))
}

/// What gets another name.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MoveFile)]
struct Rename {
    /// What.
    from: String,
    /// Its new path.
    to: String,
    /// Whether a file that has that path is replaced.
    #[serde(default)]
    replace: bool,
}

/// Give a file or directory another path
#[utoipa::path(
    post, path = "/api/v1/sessions/{session_id}/files/move", tag = "files", request_body = Rename,
    params(("session_id" = String, Path, description = "Of the session")),
    responses((status = 200, body = Value), (status = 409, description = "The path is taken", body = crate::problem::Facts))
)]
async fn rename(
    state: State,
    caller: Caller,
    id: Id,
    Body(wanted): Body<Rename>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    let Rename { from, to, replace } = &wanted;
    state.plane().move_file(&caller.of_engine(), id.as_str(), from, to, *replace).await?;
    Ok(Json(json!({"session_id": id.as_str(), "from": from, "to": to})))
}

/// A session and a path in it.
pub(in crate::doors) type Place = Path<(String, String)>;

/// The same, where the first is an id.
pub(in crate::doors) fn place(Path((session, path)): Place) -> Result<(String, String), Problem> {
    match Id::new(&session) {
        Some(_) => Ok((session, path)),
        None => Err(Problem::bad_request("invalid_id", "is no id").field("session_id")),
    }
}

/// Read a file, or a range of it
#[utoipa::path(
    get, path = "/api/v1/sessions/{session_id}/files/{*path}", tag = "files",
    params(("session_id" = String, Path, description = "Of the session"), ("path" = String, Path, description = "Of the file, slashes and all"),
        ("Range" = Option<String>, Header, description = "Such as `bytes=0-99`")),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = 206, content_type = "application/octet-stream", body = Vec<u8>),
        (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn read(state: State, caller: Caller, at: Place, headers: HeaderMap) -> Result<Response, Problem> {
    caller.require(Scope::Files)?;
    let (session, path) = place(at)?;
    let file = state.plane().open_file(&caller.of_engine(), &session, &path).await?;
    let size = file.entry.size;
    let range = headers.get(header::RANGE).map(|value| value.to_str().ok().and_then(|text| span(text, size)));
    let (status, begin, end) = match range {
        None => (StatusCode::OK, 0, size),
        Some(Some((begin, end))) => (StatusCode::PARTIAL_CONTENT, begin, end),
        Some(None) => {
            let all = HeaderValue::from_str(&format!("bytes */{size}"));
            let problem =
                Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "invalid_range", "this range cannot be read");
            return Err(match all {
                Ok(all) => problem.header(header::CONTENT_RANGE, all),
                Err(_) => problem,
            });
        }
    };
    let name: String = path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_graphic() && !matches!(c, '"' | '\\') { c } else { '_' })
        .collect();
    let mut response = content(file, begin, end).into_response();
    *response.status_mut() = status;
    let mut set = |name, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    };
    set(header::CONTENT_TYPE, "application/octet-stream".into());
    set(header::CONTENT_LENGTH, (end - begin).to_string());
    set(header::ACCEPT_RANGES, "bytes".into());
    set(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""));
    if status == StatusCode::PARTIAL_CONTENT {
        set(header::CONTENT_RANGE, format!("bytes {begin}-{}/{size}", end - 1));
    }
    Ok(response)
}

/// The first and the last byte, that one not included, of a range of a file.
fn span(text: &str, size: u64) -> Option<(u64, u64)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (begin, end) = match (first.parse().ok(), last.parse::<u64>().ok()) {
        (Some(begin), Some(last)) => (begin, last.checked_add(1)?.min(size)),
        (Some(begin), None) if last.is_empty() => (begin, size),
        (None, Some(count)) if first.is_empty() => (size.saturating_sub(count), size),
        _ => return None,
    };
    (begin < end).then_some((begin, end))
}

/// The bytes of a file, piece by piece. What has become shorter meanwhile breaks the answer off.
pub(in crate::doors) fn content(file: OpenFile, begin: u64, end: u64) -> HttpBody {
    let pieces = futures_util::stream::unfold((file, begin), move |(file, at)| async move {
        if at >= end {
            return None;
        }
        match file.read(at).await {
            Ok(piece) if piece.is_empty() => {
                Some((Err(std::io::Error::other("the file has become shorter")), (file, end)))
            }
            Ok(mut piece) => {
                piece.truncate((end - at).min(piece.len() as u64) as usize);
                let next = at + piece.len() as u64;
                Some((Ok(Bytes::from(piece)), (file, next)))
            }
            Err(error) => Some((Err(std::io::Error::other(error.to_string())), (file, end))),
        }
    });
    HttpBody::from_stream(pieces)
}

/// Write a file: the body is its content
#[utoipa::path(
    put, path = "/api/v1/sessions/{session_id}/files/{*path}", tag = "files",
    params(("session_id" = String, Path, description = "Of the session"), ("path" = String, Path, description = "Of the file, slashes and all"),
        ("X-File-Mode" = Option<String>, Header, description = "Its permissions, such as `0755`")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = Value), (status = 413, description = "It is too large", body = crate::problem::Facts))
)]
async fn write(
    state: State,
    caller: Caller,
    at: Place,
    headers: HeaderMap,
    request: Request,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    let (session, path) = place(at)?;
    let mode = match headers
        .get("x-file-mode")
        .map(|value| value.to_str().ok().and_then(|text| u32::from_str_radix(text, 8).ok()))
    {
        None => 0o644,
        Some(Some(mode)) if mode <= 0o777 => mode,
        Some(_) => {
            return Err(Problem::invalid_field("X-File-Mode", "is no mode").hint("such as `0644` or `0755`"));
        }
    };
    let limit = state.options().max_body;
    let mut upload = state.plane().upload_file(&caller.of_engine(), &session, &path, mode, limit).await?;
    let mut body = request.into_body().into_data_stream();
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(|error| crate::body::unreadable(&error))?;
        upload.push(&bytes).await?;
    }
    let size = upload.finish().await?;
    Ok(Json(json!({"session_id": session, "file_path": path, "size": size})))
}

/// How something is removed.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct How {
    /// Whether a directory goes with all that is in it.
    #[serde(default)]
    recursive: bool,
}

/// Remove a file or directory
#[utoipa::path(
    delete, path = "/api/v1/sessions/{session_id}/files/{*path}", tag = "files",
    params(("session_id" = String, Path, description = "Of the session"), ("path" = String, Path, description = "Of the file, slashes and all"), How),
    responses((status = 204, description = "It is gone"), (status = 404, description = "There is none", body = crate::problem::Facts))
)]
async fn remove(
    state: State,
    caller: Caller,
    at: Place,
    Params(how): Params<How>,
) -> Result<StatusCode, Problem> {
    caller.require(Scope::Files)?;
    let (session, path) = place(at)?;
    state.plane().remove_file(&caller.of_engine(), &session, &path, how.recursive).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What an archive is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(as = ArchiveFormat)]
enum Format {
    /// A tar file, compressed by gzip.
    #[default]
    #[serde(rename = "tar.gz", alias = "tgz")]
    TarGz,
    /// A zip file.
    #[serde(rename = "zip")]
    Zip,
}

/// Which archive.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Packed {
    /// Below which directory; the workspace itself if it is left out.
    #[serde(default)]
    path: String,
    /// What it is written in: `tar.gz` or `zip`.
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

impl Packed {
    fn archive(&self) -> Archive {
        match self.format {
            Format::TarGz => Archive::TarGz,
            Format::Zip => Archive::Zip,
        }
    }
}

/// Everything below a directory, as an archive. Links are not followed and not in it
#[utoipa::path(
    get, path = "/api/v1/sessions/{session_id}/archive", tag = "files",
    params(("session_id" = String, Path, description = "Of the session"), Packed),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>))
)]
async fn export(
    state: State,
    caller: Caller,
    id: Id,
    Params(packed): Params<Packed>,
) -> Result<Response, Problem> {
    caller.require(Scope::Files)?;
    let (plane, format) = (state.plane(), packed.archive());
    let archive = plane.export_archive(&caller.of_engine(), id.as_str(), &packed.path, format).await?;
    let name = if format == Archive::Zip { "workspace.zip" } else { "workspace.tar.gz" };
    let pieces = futures_util::stream::unfold(archive, |mut archive| async {
        let piece = archive.next().await?;
        Some((piece.map(Bytes::from).map_err(|error| std::io::Error::other(error.to_string())), archive))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    Ok((headers, HttpBody::from_stream(pieces)).into_response())
}

/// Unpack an archive below a directory: all of it, or nothing if anything is wrong with it
///
/// It may hold files and directories with plain relative names. Links, devices, names that lead elsewhere or come twice,
/// and archives that unpack to more than the session has room for are refused.
#[utoipa::path(
    put, path = "/api/v1/sessions/{session_id}/archive", tag = "files",
    params(("session_id" = String, Path, description = "Of the session"), Packed),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = Value), (status = 413, description = "It is too large", body = crate::problem::Facts),
        (status = 422, description = "It is refused", body = crate::problem::Facts))
)]
async fn import(
    state: State,
    caller: Caller,
    id: Id,
    Params(packed): Params<Packed>,
    request: Request,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    let (limit, format) = (state.options().max_body, packed.archive());
    let body = request.into_body().into_data_stream().map_err(std::io::Error::other);
    let body = tokio_util::io::StreamReader::new(body);
    let plane = state.plane();
    let done =
        plane.import_archive(&caller.of_engine(), id.as_str(), &packed.path, format, body, limit).await?;
    Ok(Json(json!({"session_id": id.as_str(), "files": done.files, "bytes": done.bytes})))
}
