//! Results in the shape that clients of earlier systems look for: what a block is about is among its annotations too,
//! which the types of the protocol have no room for. So it is added to messages on their way out.

use bytes::Bytes;
use serde_json::Value;

/// Adds it to a message, if that is the result of a tool. Whether it was.
pub(super) fn add(message: &mut Value) -> bool {
    let blocks =
        message.get_mut("result").and_then(|result| result.get_mut("content")).and_then(Value::as_array_mut);
    let Some(blocks) = blocks else { return false };
    for block in blocks {
        let Some(about) = block.get("_meta").and_then(Value::as_object).cloned() else { continue };
        for (name, fact) in about {
            if name == "mimeType" {
                block["annotations"]["mime_type"] = fact.clone();
                block["mimeType"] = fact;
            } else {
                block["annotations"][name] = fact;
            }
        }
    }
    true
}

/// Adds it to a piece of an answer: a message, or an event with one in it.
pub(crate) fn added(piece: Bytes) -> Bytes {
    let text = match std::str::from_utf8(&piece) {
        Ok(text) if text.contains("\"content\":[") => text,
        _ => return piece,
    };
    let (head, message) = match text.find("data: ") {
        Some(at) if !text.starts_with('{') => text.split_at(at + "data: ".len()),
        _ => ("", text),
    };
    let end = message.trim_end().len();
    let Ok(mut value) = serde_json::from_str::<Value>(&message[..end]) else { return piece };
    if !add(&mut value) {
        return piece;
    }
    format!("{head}{value}{}", &message[end..]).into()
}

#[cfg(test)]
mod tests {
    use super::super::blocks;
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_block_is_about_is_among_its_annotations_too() {
        let block = blocks::text("print(1)", json!({"role": "source", "mimeType": "text/x-python"}));
        let message = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [block]}});
        for (before, after) in [("", ""), ("event: message\nid: 0\ndata: ", "\n\n")] {
            let piece = Bytes::from(format!("{before}{message}{after}"));
            let text = String::from_utf8(added(piece).to_vec()).unwrap();
            let found: Value = serde_json::from_str(&text[before.len()..text.len() - after.len()]).unwrap();
            let block = &found["result"]["content"][0];
            assert_eq!(block["mimeType"], "text/x-python");
            assert_eq!(block["annotations"], json!({"role": "source", "mime_type": "text/x-python"}));
            assert_eq!(block["_meta"]["role"], "source");
        }
        for other in [": still there\n\n", "{\"result\":{}}", "data: {\"content\":[\n\n"] {
            assert_eq!(added(Bytes::from(other)), other);
        }
    }
}
