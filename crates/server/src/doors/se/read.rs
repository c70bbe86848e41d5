//! Files of a session as they are looked at: shown in a browser, or read piece by piece.

use super::super::v1::files::{Place, content, place};
use super::ensure;
use crate::{Caller, Params, Problem, Scope, State};
use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(preview)).routes(routes!(read))
}

/// What can be shown, by ending.
const SHOWN: [(&str, &str); 14] = [
    ("html", "text/html; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("json", "application/json"),
    ("xml", "application/xml"),
    ("csv", "text/csv; charset=utf-8"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("bmp", "image/bmp"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
    ("ico", "image/x-icon"),
];

/// A program may have written the page: it gets an origin of its own, runs nothing and fetches nothing.
const POLICY: &str =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'";

/// Endings of files that are text.
const TEXT: [&str; 38] = [
    "bash", "bat", "c", "cfg", "conf", "cpp", "css", "csv", "env", "go", "h", "hpp", "htm", "html", "ini",
    "java", "js", "json", "jsonl", "jsx", "log", "lua", "md", "php", "pl", "py", "r", "rb", "rs", "rst",
    "sh", "sql", "svg", "toml", "ts", "txt", "xml", "yaml",
];

fn ending(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default()
}

/// Who looks.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Viewer {
    /// The id of the session once more.
    sid: String,
}

/// Show a file in a browser
#[utoipa::path(
    get, path = "/workspace/se/files/preview/{session_id}/{*filepath}", tag = "workspace",
    params(("session_id" = String, Path, description = "Of the session"), ("filepath" = String, Path, description = "Of the file, slashes and all"), Viewer),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = 404, description = "There is none", body = Value),
        (status = 422, description = "Files of this kind cannot be shown", body = Value))
)]
async fn preview(
    state: State,
    caller: Caller,
    at: Place,
    Params(viewer): Params<Viewer>,
) -> Result<Response, Problem> {
    caller.require(Scope::Files)?;
    let (session, path) = place(at)?;
    if viewer.sid != session {
        return Err(Problem::forbidden("wrong_session", "`sid` is not the session of this file"));
    }
    let ending = ending(&path);
    let Some((_, mime)) = SHOWN.iter().find(|(shown, _)| *shown == ending) else {
        return Err(Problem::invalid_field("filepath", "files of this kind cannot be shown")
            .hint(format!("fetch it from `/workspace/se/download/{session}/…`")));
    };
    let caller = caller.of_engine();
    ensure(&state, &caller, &session).await?;
    let file = state.plane().open_file(&caller, &session, &path).await?;
    let size = file.entry.size;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(mime)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("inline")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::CONTENT_LENGTH, HeaderValue::from(size)),
    ];
    Ok((headers, content(file, 0, size)).into_response())
}

/// Which piece of a file.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Piece {
    /// Where it begins.
    #[serde(default)]
    offset: u64,
    /// How long it is: 1 to 524288 bytes, 4096 if it is left out.
    #[serde(default = "usual_size")]
    buffer_size: usize,
}

fn usual_size() -> usize {
    4096
}

/// Read a piece of a file
///
/// `content` is text where the name of the file says so, and base64 where it does not. `offset` is where the next piece
/// begins: a character is never cut in two.
#[utoipa::path(
    get, path = "/workspace/se/readfile/{session_id}/{*filepath}", tag = "workspace",
    params(("session_id" = String, Path, description = "Of the session"), ("filepath" = String, Path, description = "Of the file, slashes and all"), Piece),
    responses((status = 200, body = Value), (status = 404, description = "There is none", body = Value))
)]
async fn read(
    state: State,
    caller: Caller,
    at: Place,
    Params(piece): Params<Piece>,
) -> Result<Json<Value>, Problem> {
    caller.require(Scope::Files)?;
    let (session, path) = place(at)?;
    if !(1..=engine::LONGEST_PIECE).contains(&piece.buffer_size) {
        return Err(Problem::invalid_field("buffer_size", "is not from 1 to 524288"));
    }
    let caller = caller.of_engine();
    ensure(&state, &caller, &session).await?;
    let file = state.plane().open_file(&caller, &session, &path).await?;
    let (size, binary) = (file.entry.size, !TEXT.contains(&ending(&path).as_str()));
    let mut bytes = match piece.offset < size {
        true => file.read(piece.offset).await?,
        false => Vec::new(),
    };
    // The longest character has four bytes, and a piece has to have one.
    bytes.truncate(if binary { piece.buffer_size } else { piece.buffer_size.max(4) });
    let at_end = piece.offset.saturating_add(bytes.len() as u64) >= size;
    let (content, taken) = match binary {
        true => (STANDARD.encode(&bytes), bytes.len()),
        false => text(&bytes, at_end),
    };
    let next = piece.offset.saturating_add(taken as u64);
    Ok(Json(
        json!({"content": content, "is_binary": binary, "offset": next, "size": size, "is_eof": next >= size}),
    ))
}

/// Text, and how many bytes it was made of: UTF-8, or else a character for each byte.
fn text(bytes: &[u8], at_end: bool) -> (String, usize) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), bytes.len()),
        Err(error) if error.error_len().is_none() && !at_end && error.valid_up_to() > 0 => {
            let whole = error.valid_up_to();
            (String::from_utf8_lossy(&bytes[..whole]).into_owned(), whole)
        }
        Err(_) => (bytes.iter().map(|&byte| char::from(byte)).collect(), bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_stay_whole_and_other_bytes_are_latin() {
        let euro = "ab€".as_bytes();
        assert_eq!(text(euro, true), ("ab€".into(), 5));
        assert_eq!(text(&euro[..4], false), ("ab".into(), 2));
        assert_eq!(text(&euro[..4], true), ("abâ\u{82}".into(), 4));
        assert_eq!(text(b"caf\xe9 au lait", false), ("café au lait".into(), 12));
        assert_eq!(text(b"", true), (String::new(), 0));
    }

    #[test]
    fn lists_of_endings_are_in_order() {
        assert!(TEXT.is_sorted(), "{TEXT:?}");
        assert_eq!(ending("a.b/C.TXT"), "txt");
        assert_eq!(ending("a.b/c"), "");
    }
}
