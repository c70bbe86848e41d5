//! Results as agents read them: blocks of text, and what the program made.
//!
//! What a block is about is in its `_meta`; `style.rs` repeats that where older clients look for it.

use super::ContentStyle;
use super::languages::Language;
use super::running::{Piece, Ran, Stream};
use crate::Problem;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{AudioContent, EmbeddedResource};
use rmcp::model::{
    CallToolResult, ContentBlock, ImageContent, MetaObject, Resource, ResourceContents, TextContent,
};
use serde_json::{Map, Value, json};

/// Most lines that have a block of their own; what comes after them is in one block for each stream.
const MOST_LINES: usize = 1000;
/// Most bytes of a file that comes along.
const MOST_OF_A_FILE: usize = 5 << 20;
/// Most bytes of all of them.
const MOST_OF_FILES: usize = 8 << 20;

/// A block of text that is about something.
pub(super) fn text(text: impl Into<String>, about: Value) -> ContentBlock {
    ContentBlock::Text(TextContent::new(text).with_meta(meta(about)))
}

fn meta(about: Value) -> MetaObject {
    match about {
        Value::Object(about) => MetaObject(about),
        _ => MetaObject::new(),
    }
}

/// A result that says what is wrong with what was asked for.
pub(super) fn refusal(problem: &Problem) -> CallToolResult {
    let mut result =
        CallToolResult::error(vec![text(problem.words(), json!({"role": "error", "code": problem.code()}))]);
    result.structured_content = None;
    result
}

/// A result of words and an object.
pub(super) fn plain(words: String, facts: Map<String, Value>) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(words)]);
    result.structured_content = Some(Value::Object(facts));
    result
}

/// The code, as it was given.
pub(super) fn source(code: &str, language: &Language) -> ContentBlock {
    text(code, json!({"role": "source", "mimeType": language.mime}))
}

/// What a program wrote and how it ended.
pub(super) fn output(
    style: ContentStyle,
    ran: &Ran,
    record: &Map<String, Value>,
    notes: &[String],
) -> Vec<ContentBlock> {
    let mut blocks = match style {
        ContentStyle::Stream => lines(&ran.pieces),
        ContentStyle::Compact | ContentStyle::Plain => streams(record),
    };
    let (status, why) = (record["status"].as_str().unwrap_or_default(), record["error"]["message"].as_str());
    let late = status == "timed_out";
    if late {
        blocks.push(text("Execution timeout exceeded", json!({"role": "stderr", "timeout": true})));
    } else if let Some(why) = why.filter(|_| !matches!(status, "success" | "failed")) {
        blocks.push(text(why, json!({"role": "stderr", "status": status})));
    }
    if record["return_value_set"] == true {
        blocks.push(text(
            record["return_value"].to_string(),
            json!({"role": "return_value", "mimeType": "application/json"}),
        ));
    }
    let code = if late { json!(-1) } else { record["exit_code"].clone() };
    let seconds = record["execution_time"].as_f64().unwrap_or(0.0);
    let end = match style {
        ContentStyle::Stream => {
            let count = |stream| {
                ran.pieces.iter().filter(|piece| piece.stream == stream).map(newlines).sum::<usize>()
            };
            let facts = json!({
                "exitCode": code,
                "executionTime": format!("{:.0}ms", seconds * 1000.0),
                "language": record["language"],
                "status": status,
                "outputLines": count(Stream::Stdout),
                "errorLines": count(Stream::Stderr),
                "session": record["session_id"],
                "notes": notes,
                "timestamp": record["finished_at"],
            });
            serde_json::to_string_pretty(&facts).unwrap_or_default()
        }
        ContentStyle::Compact | ContentStyle::Plain => {
            let mut words = format!("Exit code: {code}\nExecution time: {seconds:.2}s");
            if let Some(session) = record["session_id"].as_str() {
                words += &format!("\nSession: {session}");
            }
            notes.iter().for_each(|note| words += &format!("\n{note}"));
            words
        }
    };
    let kind = if style == ContentStyle::Stream { "application/json" } else { "text/plain" };
    blocks.push(text(end, json!({"role": "metadata", "final": true, "mimeType": kind})));
    blocks
}

fn newlines(piece: &Piece) -> usize {
    piece.bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// A block for each line, in the order in which they were complete.
fn lines(pieces: &[Piece]) -> Vec<ContentBlock> {
    let mut blocks = Vec::new();
    let mut begun = [Vec::new(), Vec::new()];
    for Piece { stream, bytes } in pieces {
        let open = &mut begun[*stream as usize];
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            open.extend_from_slice(part);
            if blocks.len() < MOST_LINES && open.ends_with(b"\n") {
                blocks.push(line(*stream, &open[..open.len() - 1]));
                open.clear();
            }
        }
    }
    for stream in [Stream::Stdout, Stream::Stderr] {
        let rest = &begun[stream as usize];
        if !rest.is_empty() {
            blocks.push(line(stream, rest.strip_suffix(b"\n").unwrap_or(rest)));
        }
    }
    blocks
}

fn line(stream: Stream, bytes: &[u8]) -> ContentBlock {
    text(String::from_utf8_lossy(bytes), json!({"role": stream.word(), "streamed": true}))
}

/// A block for each stream that has anything.
fn streams(record: &Map<String, Value>) -> Vec<ContentBlock> {
    let of = |stream: Stream| {
        let all = record[stream.word()].as_str().unwrap_or_default().trim();
        (!all.is_empty()).then(|| text(all, json!({"role": stream.word()})))
    };
    [of(Stream::Stdout), of(Stream::Stderr)].into_iter().flatten().collect()
}

/// What a program made: pictures and sounds as such, other files as resources, or links to where they are.
pub(super) fn artifacts(ran: &Ran, session: Option<&str>) -> Vec<ContentBlock> {
    let mut blocks = Vec::new();
    let mut room = MOST_OF_FILES;
    for artifact in &ran.done.artifacts {
        let uri = super::resources::uri(session.unwrap_or(&ran.done.id), &artifact.path);
        let about = || meta(json!({"role": "artifact", "path": artifact.path, "size": artifact.size}));
        let content = artifact.content.as_deref().filter(|content| content.len() <= MOST_OF_A_FILE.min(room));
        let Some(content) = content else {
            // Without a session there is nothing left to link to.
            if session.is_some() {
                let link = Resource::new(uri, &artifact.path)
                    .with_mime_type(&artifact.mime)
                    .with_size(artifact.size);
                blocks.push(ContentBlock::resource_link(link.with_meta(about())));
            }
            continue;
        };
        room -= content.len();
        blocks.push(match artifact.mime.split('/').next() {
            Some("image") if artifact.mime != "image/svg+xml" => ContentBlock::Image(
                ImageContent::new(STANDARD.encode(content), &artifact.mime).with_meta(about()),
            ),
            Some("audio") => ContentBlock::Audio(
                AudioContent::new(STANDARD.encode(content), &artifact.mime).with_meta(about()),
            ),
            _ => ContentBlock::Resource(
                EmbeddedResource::new(contents(&uri, &artifact.mime, content)).with_meta(about()),
            ),
        });
    }
    blocks
}

/// A file as a resource: text where it is text.
pub(super) fn contents(uri: &str, mime: &str, content: &[u8]) -> ResourceContents {
    match std::str::from_utf8(content) {
        Ok(text) => ResourceContents::text(text, uri).with_mime_type(mime),
        Err(_) => ResourceContents::blob(STANDARD.encode(content), uri).with_mime_type(mime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(parts: &[(Stream, &str)]) -> Vec<Piece> {
        parts
            .iter()
            .map(|(stream, text)| Piece { stream: *stream, bytes: text.as_bytes().to_vec() })
            .collect()
    }

    fn texts(blocks: &[ContentBlock]) -> Vec<(String, String)> {
        let of = |block: &ContentBlock| {
            let text = block.as_text().unwrap();
            (text.meta.as_ref().unwrap().0["role"].as_str().unwrap().to_owned(), text.text.clone())
        };
        blocks.iter().map(of).collect()
    }

    #[test]
    fn lines_come_in_the_order_in_which_they_were_complete() {
        use Stream::{Stderr, Stdout};
        let blocks = lines(&pieces(&[(Stdout, "a\nb"), (Stderr, "x\n"), (Stdout, "c\n\nlast")]));
        let expected =
            [("stdout", "a"), ("stderr", "x"), ("stdout", "bc"), ("stdout", ""), ("stdout", "last")];
        let expected: Vec<_> = expected.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        assert_eq!(texts(&blocks), expected);
    }

    #[test]
    fn more_lines_than_anybody_reads_are_one_block() {
        let many = "x\n".repeat(MOST_LINES * 3);
        let blocks = lines(&pieces(&[(Stream::Stdout, &many)]));
        assert_eq!(blocks.len(), MOST_LINES + 1);
        let all: usize = texts(&blocks).iter().map(|(_, text)| text.len() + 1).sum();
        assert_eq!(all, many.len());
    }
}
