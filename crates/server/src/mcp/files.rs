//! Files of a sandbox: read, written, listed.

use super::arguments::{DownloadFile, Encoding, ListFiles, ReadFile, UploadFile, WriteFile};
use super::running::Asked;
use super::sandboxes::{WORKSPACE, object, pretty};
use super::{Connection, blocks, resources};
use crate::clock::rfc3339;
use crate::doors::command;
use crate::{Problem, Scope};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::control::ControlError;
use engine::{FileEntry, FileKind};
use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};

/// Longest file that a message carries.
pub(super) const LONGEST: u64 = 10 << 20;
/// Most files of a list.
const MOST: usize = 10_000;

impl Connection {
    pub(super) async fn upload_file(
        &self,
        asked: &Asked,
        wanted: UploadFile,
    ) -> Result<CallToolResult, Problem> {
        let path = inside(&wanted.path)?;
        let bytes = decoded(wanted.content, wanted.encoding)?;
        let mode = match &wanted.mode {
            None => 0o644,
            Some(text) => u32::from_str_radix(text, 8)
                .ok()
                .filter(|mode| text.len() == 4 && *mode <= 0o777)
                .ok_or_else(|| Problem::invalid_field("mode", "is no permissions").hint("such as `0644`"))?,
        };
        asked.caller.require(Scope::Files)?;
        let (plane, caller, id) = (self.mcp.plane(), asked.of_engine(), wanted.sandbox_id.as_str());
        let there = match plane.stat_file(&caller, id, path).await {
            Ok(_) => true,
            Err(ControlError::NotFound { what: "file" }) => false,
            Err(error) => return Err(error.into()),
        };
        let mut backup = None;
        if there && !wanted.force_overwrite {
            if !wanted.create_backup {
                return Err(Problem::new(
                    StatusCode::CONFLICT,
                    "file_exists",
                    format!("`{path}` is there already"),
                )
                .field("path")
                .hint("set `force_overwrite`, or `create_backup`"));
            }
            let aside = format!("{path}.bak");
            plane.move_file(&caller, id, path, &aside, true).await?;
            backup = Some(format!("{WORKSPACE}/{aside}"));
        }
        self.write(asked, id, path, &bytes, mode).await?;
        if wanted.validate_checksum && self.contents(asked, id, path, LONGEST).await?.1 != bytes {
            return Err(Problem::new(
                StatusCode::CONFLICT,
                "file_changed",
                "what is there is not what was sent",
            )
            .hint("something in the sandbox writes to the same file"));
        }
        let entry = plane.stat_file(&caller, id, path).await?;
        let mut facts = about(id, &entry, wanted.encoding);
        facts.insert("backup".into(), json!(backup));
        self.tell_of(asked, id, path).await;
        Ok(blocks::plain(words("File uploaded successfully", &facts, None), facts))
    }

    pub(super) async fn write_file(
        &self,
        asked: &Asked,
        wanted: WriteFile,
    ) -> Result<CallToolResult, Problem> {
        let (path, id) = (inside(&wanted.path)?, wanted.sandbox_id.as_str());
        let bytes = decoded(wanted.content, wanted.encoding)?;
        self.write(asked, id, path, &bytes, 0o644).await?;
        let entry = self.mcp.plane().stat_file(&asked.of_engine(), id, path).await?;
        let facts = about(id, &entry, wanted.encoding);
        self.tell_of(asked, id, path).await;
        Ok(blocks::plain(words("File written successfully", &facts, None), facts))
    }

    pub(super) async fn download_file(
        &self,
        asked: &Asked,
        wanted: DownloadFile,
    ) -> Result<CallToolResult, Problem> {
        self.shown_file(asked, &wanted.sandbox_id, &wanted.path, wanted.encoding, LONGEST).await
    }

    pub(super) async fn read_file(&self, asked: &Asked, wanted: ReadFile) -> Result<CallToolResult, Problem> {
        if !(1..=LONGEST).contains(&wanted.max_size) {
            return Err(Problem::invalid_field("max_size", "is not from 1 to 10485760"));
        }
        self.shown_file(asked, &wanted.sandbox_id, &wanted.path, wanted.encoding, wanted.max_size).await
    }

    async fn shown_file(
        &self,
        asked: &Asked,
        id: &str,
        path: &str,
        encoding: Encoding,
        most: u64,
    ) -> Result<CallToolResult, Problem> {
        let (entry, bytes) = self.contents(asked, id, inside(path)?, most).await?;
        let content = match encoding {
            Encoding::Base64 => STANDARD.encode(bytes),
            Encoding::Utf8 => String::from_utf8(bytes).map_err(|_| {
                Problem::invalid_field("encoding", "the file is no text").hint("ask for `base64`")
            })?,
        };
        let mut facts = about(id, &entry, encoding);
        let words = words("File", &facts, Some(&content));
        facts.insert("content".into(), content.into());
        Ok(blocks::plain(words, facts))
    }

    pub(super) async fn list_files(
        &self,
        asked: &Asked,
        wanted: ListFiles,
    ) -> Result<CallToolResult, Problem> {
        asked.caller.require(Scope::Files)?;
        let (id, path) = (wanted.sandbox_id.as_str(), wanted.path.as_deref().unwrap_or(WORKSPACE));
        let below = if path.trim_end_matches('/') == WORKSPACE { "" } else { inside(path)? };
        let list =
            self.mcp.plane().list_files(&asked.of_engine(), id, below, wanted.recursive, None, MOST).await?;
        let shown = |entry: &FileEntry| {
            json!({
                "name": entry.path.rsplit('/').next(),
                "path": format!("{WORKSPACE}/{}", entry.path),
                "size": entry.size,
                "is_dir": entry.kind == FileKind::Directory,
                "mode": format!("{:04o}", entry.mode),
                "modified": rfc3339(entry.modified_ms),
            })
        };
        let files: Vec<Value> =
            list.entries.iter().filter(|entry| !command::is_ours(&entry.path)).map(shown).collect();
        let words = format!("Found {} files in {path}:\n{}", files.len(), pretty(&json!(files)));
        let facts = json!({
            "sandbox_id": id,
            "path": path,
            "recursive": wanted.recursive,
            "count": files.len(),
            "files": files,
        });
        Ok(blocks::plain(words, object(facts)))
    }

    /// Writes a file of a session.
    pub(super) async fn write(
        &self,
        asked: &Asked,
        session: &str,
        path: &str,
        bytes: &[u8],
        mode: u32,
    ) -> Result<(), Problem> {
        asked.caller.require(Scope::Files)?;
        let mut upload =
            self.mcp.plane().upload_file(&asked.of_engine(), session, path, mode, LONGEST).await?;
        upload.push(bytes).await?;
        upload.finish().await?;
        Ok(())
    }

    /// What a file is, and what is in it.
    pub(super) async fn contents(
        &self,
        asked: &Asked,
        session: &str,
        path: &str,
        most: u64,
    ) -> Result<(FileEntry, Vec<u8>), Problem> {
        asked.caller.require(Scope::Files)?;
        let file = self.mcp.plane().open_file(&asked.of_engine(), session, path).await?;
        if file.entry.size > most {
            let detail = format!("the file has {} bytes, more than {most}", file.entry.size);
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail).field("path"));
        }
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < file.entry.size {
            match file.read(bytes.len() as u64).await? {
                piece if piece.is_empty() => break,
                piece => bytes.extend(piece),
            }
        }
        Ok((file.entry, bytes))
    }

    /// Tells whoever watches a file that it has changed.
    async fn tell_of(&self, asked: &Asked, session: &str, path: &str) {
        let uri = resources::uri(session, path);
        self.mcp.0.listeners.tell(&asked.caller.tenant, &uri);
        if self.own().watched.contains(&uri) {
            asked.changed(uri).await;
        }
    }

    /// The same for all files that a program has made or changed.
    pub(super) async fn tell_of_changes(&self, asked: &Asked, session: &str, record: &Map<String, Value>) {
        if self.own().watched.is_empty() && !self.mcp.0.listeners.are_there() {
            return;
        }
        let made = record["artifacts"].as_array().map(Vec::as_slice).unwrap_or_default();
        for path in made.iter().filter_map(|artifact| artifact["path"].as_str()) {
            self.tell_of(asked, session, path).await;
        }
    }
}

/// A path of a file, below the workspace. What climbs out of there is refused by the sandbox itself.
pub(super) fn inside(path: &str) -> Result<&str, Problem> {
    let below = path.strip_prefix(WORKSPACE).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path);
    match below {
        "" => Err(Problem::invalid_field("path", "is empty")),
        below if below.starts_with('/') => Err(Problem::invalid_field("path", "is not in `/workspace`")
            .hint("such as `/workspace/data/input.csv`")),
        below => Ok(below),
    }
}

fn decoded(content: String, encoding: Encoding) -> Result<Vec<u8>, Problem> {
    let bytes = match encoding {
        Encoding::Utf8 => content.into_bytes(),
        Encoding::Base64 => {
            STANDARD.decode(content).map_err(|_| Problem::invalid_field("content", "is no base64"))?
        }
    };
    match bytes.len() as u64 {
        0..=LONGEST => Ok(bytes),
        _ => Err(Problem::invalid_field("content", "is longer than 10 MiB")),
    }
}

fn about(session: &str, entry: &FileEntry, encoding: Encoding) -> Map<String, Value> {
    object(json!({
        "sandbox_id": session,
        "path": format!("{WORKSPACE}/{}", entry.path),
        "size": entry.size,
        "encoding": encoding.word(),
        "modified": rfc3339(entry.modified_ms),
    }))
}

fn words(head: &str, facts: &Map<String, Value>, content: Option<&str>) -> String {
    let of = |name: &str| facts[name].as_str().unwrap_or_default();
    let mut words = format!(
        "{head}\nPath: {}\nSize: {} bytes\nEncoding: {}\nModified: {}",
        of("path"),
        facts["size"],
        of("encoding"),
        of("modified")
    );
    if let Some(content) = content {
        words += &format!("\n\nContent:\n{content}");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_in_the_workspace() {
        assert_eq!(inside("/workspace/a/b").unwrap(), "a/b");
        assert_eq!(inside("a/b").unwrap(), "a/b");
        for wrong in ["", "/workspace/", "/etc/passwd", "/workspacex/a"] {
            assert!(inside(wrong).is_err(), "{wrong}");
        }
    }
}
