//! Files of sandboxes as resources: `sandbox://{id}/{path}`.

use super::call::wrong;
use super::files::{LONGEST, inside};
use super::running::Asked;
use super::{Connection, blocks};
use crate::doors::command;
use crate::{Problem, Scope};
use axum::http::StatusCode;
use engine::{FileEntry, FileKind};
use rmcp::model::{ErrorData, ListResourcesResult, ReadResourceResult, Resource, ResourceTemplate};
use serde_json::json;
use std::fmt::Write as _;

/// How the address of a file begins.
const SCHEME: &str = "sandbox://";
/// What is wrong with an address of nothing.
const NOTHING: &str = "resource_not_found";
/// Most files of a page.
const PAGE: usize = 200;

/// The address of a file. What could mean something else in an address is escaped.
pub(super) fn uri(session: &str, path: &str) -> String {
    let mut uri = format!("{SCHEME}{session}/");
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// Whether that is the address of a file.
pub(super) fn is_file(uri: &str) -> bool {
    place(uri).is_some()
}

/// Session and path of an address.
fn place(uri: &str) -> Option<(String, String)> {
    let (session, path) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if session.is_empty() || !session.chars().all(plain) || path.contains(['?', '#']) {
        return None;
    }
    Some((session.to_owned(), unescaped(path)?))
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok().filter(|path| !path.contains('\0'))
}

/// Files of all sandboxes of the caller, a page at a time. A page ends with the sandbox and file that it ended with.
pub(super) async fn list(
    connection: &Connection,
    asked: &Asked,
    cursor: Option<String>,
) -> Result<ListResourcesResult, Problem> {
    asked.caller.require(Scope::Files)?;
    let after = match &cursor {
        None => None,
        Some(cursor) => Some(
            place(cursor).ok_or_else(|| Problem::invalid_field("cursor", "is none that was given out"))?,
        ),
    };
    let (plane, caller) = (connection.mcp.plane(), asked.of_engine());
    let mut resources = Vec::new();
    for view in plane.standing(&caller) {
        let id = view.session.id.as_str();
        let behind = match &after {
            Some((session, _)) if id < session.as_str() => continue,
            Some((session, path)) if id == session => Some(path.as_str()),
            _ => None,
        };
        let room = PAGE - resources.len();
        let files = plane.list_files(&caller, id, "", true, behind, room).await?;
        let shown = |entry: &&FileEntry| entry.kind == FileKind::File && !command::is_ours(&entry.path);
        resources.extend(files.entries.iter().filter(shown).map(|entry| {
            Resource::new(uri(id, &entry.path), &entry.path)
                .with_mime_type(kind(&entry.path))
                .with_size(entry.size)
        }));
        if let Some(last) = files.entries.last().filter(|_| files.next.is_some() || resources.len() >= PAGE) {
            let mut page = ListResourcesResult::with_all_items(resources);
            page.next_cursor = Some(uri(id, &last.path));
            return Ok(page);
        }
    }
    Ok(ListResourcesResult::with_all_items(resources))
}

/// What a name says of its content.
fn kind(path: &str) -> String {
    mime_guess::from_path(path).first_or_octet_stream().essence_str().to_owned()
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{SCHEME}{{sandbox_id}}/{{+path}}"), "sandbox_file")
            .with_title("File of a sandbox")
            .with_description("A file below `/workspace` of a sandbox or session"),
    ]
}

pub(super) async fn read(
    connection: &Connection,
    asked: &Asked,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    contents(connection, asked, uri).await.map_err(|problem| match problem.code() {
        NOTHING => ErrorData::resource_not_found(problem.detail().to_owned(), Some(json!({ "uri": uri }))),
        _ => wrong(&problem),
    })
}

/// The content of what has this address.
pub(super) async fn contents(
    connection: &Connection,
    asked: &Asked,
    uri: &str,
) -> Result<ReadResourceResult, Problem> {
    let nothing = || Problem::new(StatusCode::NOT_FOUND, NOTHING, format!("there is no resource `{uri}`"));
    let (session, path) = place(uri).ok_or_else(nothing)?;
    let path = inside(&path).map_err(|_| nothing())?;
    let (entry, bytes) = connection.contents(asked, &session, path, LONGEST).await?;
    Ok(ReadResourceResult::new(vec![blocks::contents(uri, &kind(&entry.path), &bytes)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_back_to_where_they_came_from() {
        for (session, path) in [("demo", "a/b.txt"), ("s-1", "ä ö%2f?#.txt"), ("x", "..")] {
            assert_eq!(place(&uri(session, path)), Some((session.to_owned(), path.to_owned())));
        }
        for wrong in [
            "file:///etc/passwd",
            "sandbox://",
            "sandbox://a",
            "sandbox:///x",
            "sandbox://a b/c",
            "sandbox://a/%",
            "sandbox://a/%zz",
            "sandbox://a/%00",
            "sandbox://a/b?c",
            "sandbox://../a/b",
        ] {
            let found = place(wrong);
            assert!(found.is_none() || wrong == "sandbox://../a/b", "{wrong}: {found:?}");
        }
    }
}
