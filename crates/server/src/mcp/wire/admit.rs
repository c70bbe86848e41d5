//! Which texts are messages, and which of them may be handled now.

use rmcp::model::{CallToolRequest, ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Most requests of a client that are handled, or whose answers it has not taken yet; more are not read.
const MOST_AT_ONCE: usize = 64;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

/// What became of a text.
pub(super) enum Admitted {
    /// A message.
    Message(Box<ClientJsonRpcMessage>),
    /// The answer to what is none.
    Refused(String),
    /// There is nothing to do and nothing to say.
    Nothing,
    /// The client wants to go.
    Goodbye,
}

impl Admitted {
    pub(super) fn too_long() -> Admitted {
        refused(INVALID_REQUEST, "the message is longer than 16 MiB", None)
    }
}

/// Lets messages in.
#[derive(Default)]
pub(super) struct Gate {
    /// Whether the client has begun: from then on it does not begin again.
    begun: bool,
    initialized: bool,
    pub(super) open: Arc<Open>,
}

/// Requests that are not answered yet.
#[derive(Default)]
pub(super) struct Open {
    ids: Mutex<HashSet<RequestId>>,
    room: Notify,
}

impl Open {
    /// Waits until there is room for one more.
    pub(super) async fn room(&self) {
        while self.ids().len() >= MOST_AT_ONCE {
            self.room.notified().await;
        }
    }

    /// Takes note of one that is answered, or that nobody waits for any more.
    pub(super) fn over(&self, id: &RequestId) {
        self.ids().remove(id);
        self.room.notify_one();
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which request a message answers.
pub(super) fn answered(message: &ServerJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        _ => None,
    }
}

impl Gate {
    pub(super) fn admit(&mut self, text: &[u8]) -> Admitted {
        let mut message: Value = match serde_json::from_slice(text) {
            Ok(message) => message,
            Err(error) => return refused(PARSE_ERROR, &format!("Parse error: {error}"), None),
        };
        if message.is_array() {
            return refused(INVALID_REQUEST, "batches are not taken; send one message at a time", None);
        }
        let id = match message.get("id") {
            None => None,
            Some(id) => match serde_json::from_value::<RequestId>(id.clone()) {
                Ok(id) => Some(id),
                Err(_) => return refused(INVALID_REQUEST, "`id` is no text and no whole number", None),
            },
        };
        if message.get("jsonrpc") != Some(&json!("2.0")) {
            return refused(INVALID_REQUEST, "`jsonrpc` is not \"2.0\"", id);
        }
        let method = match message.get("method") {
            Some(Value::String(method)) => Some(method.clone()),
            Some(_) => return refused(INVALID_REQUEST, "`method` is no text", id),
            None => None,
        };
        match (method.as_deref(), &id) {
            (None, _) if message.get("result").is_none() && message.get("error").is_none() => {
                return refused(INVALID_REQUEST, "there is no `method`", id);
            }
            // Who asks nothing is not answered.
            (Some("exit"), None) => return Admitted::Goodbye,
            (Some("initialized"), None) => message["method"] = json!("notifications/initialized"),
            (Some("initialize"), Some(_)) if self.initialized => {
                return refused(INVALID_REQUEST, "it is initialized already", id);
            }
            (Some("initialize"), Some(_)) => (self.begun, self.initialized) = (true, true),
            (Some("ping" | "server/discover"), Some(_)) => {}
            (Some(_), Some(_)) if !self.begun => {
                // Newer clients say with each request what others say once.
                let version = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
                if !version.is_string() {
                    return refused(INVALID_REQUEST, "it is not initialized; send `initialize` first", id);
                }
                self.begun = true;
            }
            // What comes too early is about nothing.
            _ if !self.begun => return Admitted::Nothing,
            _ => {}
        }
        if method.as_deref() == Some("notifications/cancelled")
            && let Ok(cancelled) = serde_json::from_value::<RequestId>(message["params"]["requestId"].clone())
        {
            self.open.over(&cancelled);
        }
        match typed(message, id.as_ref(), method.as_deref()) {
            Ok(message) => {
                if let (Some(id), Some(_)) = (id, method)
                    && !self.open.ids().insert(id.clone())
                {
                    return refused(
                        INVALID_REQUEST,
                        "another request with this `id` is not answered yet",
                        Some(id),
                    );
                }
                Admitted::Message(Box::new(message))
            }
            Err(_) if id.is_none() => Admitted::Nothing,
            Err(error) => {
                refused(INVALID_REQUEST, &format!("it is no message that is known here: {error}"), id)
            }
        }
    }
}

/// A message of a kind that is known. Of all kinds there are, one after the other is tried, which takes longer than most of
/// what else is done for a call of a tool; so such a call is known by its method.
fn typed(
    message: Value,
    id: Option<&RequestId>,
    method: Option<&str>,
) -> serde_json::Result<ClientJsonRpcMessage> {
    if let (Some(id), Some("tools/call"), Some(4)) = (id, method, message.as_object().map(Map::len))
        && let Ok(call) = CallToolRequest::deserialize(&message)
    {
        return Ok(JsonRpcMessage::request(call.into(), id.clone()));
    }
    serde_json::from_value(message)
}

fn refused(code: i32, message: &str, id: Option<RequestId>) -> Admitted {
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    Admitted::Refused(answer.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(gate: &mut Gate, text: &str) -> Option<i64> {
        match gate.admit(text.as_bytes()) {
            Admitted::Refused(answer) => {
                serde_json::from_str::<Value>(&answer).unwrap()["error"]["code"].as_i64()
            }
            _ => None,
        }
    }

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

    #[test]
    fn what_is_no_message_is_refused_by_what_is_wrong_with_it() {
        let mut gate = Gate::default();
        assert_eq!(code(&mut gate, "{"), Some(-32700));
        assert_eq!(code(&mut gate, "\u{0}"), Some(-32700));
        for text in [
            "[]",
            "1",
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        ] {
            assert_eq!(code(&mut gate, text), Some(-32600), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(code(&mut gate, &deep), Some(-32700));
    }

    #[test]
    fn a_call_of_a_tool_is_the_same_by_its_method_as_found_among_all_kinds() {
        let id = RequestId::String("a".into());
        for params in [
            json!({"name": "t"}),
            json!({"name": "t", "arguments": {"code": "x"}, "_meta": {"progressToken": 7, "own": 1}}),
            json!({"name": "t", "arguments": [1]}),
            json!({"arguments": {}}),
            json!([]),
        ] {
            let message = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params});
            let told = |message: serde_json::Result<ClientJsonRpcMessage>| {
                message.map(|message| format!("{message:?}")).map_err(|error| error.to_string())
            };
            let by_method = typed(message.clone(), Some(&id), Some("tools/call"));
            assert_eq!(told(by_method), told(serde_json::from_value(message)));
        }
    }

    #[test]
    fn a_client_begins_once() {
        let mut gate = Gate::default();
        assert!(matches!(
            gate.admit(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#),
            Admitted::Nothing
        ));
        assert!(matches!(gate.admit(INITIALIZE.as_bytes()), Admitted::Message(_)));
        assert_eq!(code(&mut gate, INITIALIZE), Some(-32600));
        assert!(matches!(gate.admit(br#"{"jsonrpc":"2.0","method":"initialized"}"#), Admitted::Message(_)));
        assert!(matches!(
            gate.admit(br#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#),
            Admitted::Message(_)
        ));
        assert_eq!(gate.open.ids().len(), 2);
        assert_eq!(code(&mut gate, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#), Some(-32600));
        gate.admit(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
        assert_eq!(gate.open.ids().len(), 1);
        assert!(matches!(gate.admit(br#"{"jsonrpc":"2.0","method":"exit"}"#), Admitted::Goodbye));
    }
}
