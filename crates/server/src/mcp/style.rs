//! Results in the shape that clients of earlier systems look for: what a block is about is among its annotations too,
//! which the types of the protocol have no room for. So it is added to messages on their way out.

use bytes::Bytes;
use rmcp::model::{JsonRpcMessage, JsonRpcResponse, ServerJsonRpcMessage, ServerResult};
use serde_json::Value;

/// A message as text, with it added if that is the result of a tool.
pub(super) fn text(mut message: ServerJsonRpcMessage) -> serde_json::Result<String> {
    let JsonRpcMessage::Response(JsonRpcResponse { result: ServerResult::CallToolResult(result), .. }) =
        &mut message
    else {
        return serde_json::to_string(&message);
    };
    // The record is most of the message, and stays as it is.
    let record = result.structured_content.take();
    let mut value = serde_json::to_value(&message)?;
    if let Some(record) = record {
        value["result"]["structuredContent"] = record;
    }
    add(&mut value);
    Ok(value.to_string())
}

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
    use rmcp::model::{CallToolResult, RequestId};
    use serde_json::json;

    #[test]
    fn a_result_is_the_same_text_as_all_of_it_at_once() {
        let mut result = CallToolResult::success(vec![blocks::text("1", json!({"role": "stdout"}))]);
        for record in [None, Some(json!({"stdout": "1\n", "metrics": {"duration_ms": 0.1}}))] {
            result.structured_content = record;
            let response = ServerResult::CallToolResult(result.clone());
            let message = ServerJsonRpcMessage::response(response, RequestId::Number(1));
            let mut at_once = serde_json::to_value(&message).unwrap();
            assert!(add(&mut at_once));
            assert_eq!(text(message).unwrap(), at_once.to_string());
        }
    }

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
