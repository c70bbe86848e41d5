//! What tools return beside words: objects for programs, and the schemas of those.

use engine::control::Done;
use serde_json::{Map, Value, json};

/// What became of a program: its record, and where it ran.
pub(super) fn execution(done: &Done, session: Option<&str>) -> Map<String, Value> {
    let mut record: Map<String, Value> = done.record.read().unwrap_or_default();
    let seconds =
        record.get("metrics").and_then(|metrics| metrics["duration_ms"].as_f64()).unwrap_or(0.0) / 1000.0;
    record.insert("session_id".into(), json!(session));
    record.insert("execution_time".into(), json!(seconds));
    record
}

/// An object with these properties, all of which are there.
fn object(properties: Value) -> Value {
    let names: Vec<String> =
        properties.as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
    json!({"type": "object", "properties": properties, "required": names})
}

/// A schema for something that may not be there.
fn maybe(kind: &str) -> Value {
    json!({"type": [kind, "null"]})
}

pub(super) fn execution_schema() -> Value {
    object(json!({
        "execution_id": {"type": "string"},
        "session_id": maybe("string"),
        "status": {"type": "string", "description": "`success`, `failed`, `timed_out`, `out_of_memory` and others"},
        "language": {"type": "string"},
        "exit_code": maybe("integer"),
        "signal": maybe("integer"),
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "stdout_truncated": {"type": "boolean"},
        "stderr_truncated": {"type": "boolean"},
        "execution_time": {"type": "number", "description": "Seconds"},
        "return_value": {"description": "Of a handler, or of the last expression"},
        "return_value_set": {"type": "boolean"},
        "metrics": {"type": "object"},
        "artifacts": {"type": "array", "items": {"type": "object"}},
        "isolation": {"type": ["object", "null"], "description": "What protected the host"},
        "error": {"type": ["object", "null"], "description": "Why it is no success"},
    }))
}

pub(super) fn validation_schema() -> Value {
    object(json!({
        "valid": {"type": "boolean"},
        "language": {"type": "string"},
        "message": {"type": "string"},
        "line": maybe("integer"),
        "column": maybe("integer"),
        "saved": {"type": ["string", "null"], "description": "Where it was kept"},
    }))
}

pub(super) fn reset_schema() -> Value {
    object(json!({"sessions": {"type": "array", "items": {"type": "string"}}}))
}

pub(super) fn sandbox_schema() -> Value {
    object(json!({
        "sandbox_id": {"type": "string"},
        "container_id": {"type": "string"},
        "status": {"type": "string"},
        "working_dir": {"type": "string"},
        "created_at": {"type": "string"},
        "config": {"type": "object"},
    }))
}

pub(super) fn sandboxes_schema() -> Value {
    object(json!({
        "count": {"type": "integer"},
        "sandboxes": {"type": "array", "items": {"type": "object"}},
    }))
}

pub(super) fn terminated_schema() -> Value {
    object(json!({"sandbox_id": {"type": "string"}}))
}

/// What became of a command, in the words of these tools, and its record.
pub(super) fn command_schema() -> Value {
    object(json!({
        "sandbox_id": maybe("string"),
        "exit_code": {"type": "integer"},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "execution_time_ms": {"type": "number"},
        "working_dir": {"type": "string"},
        "language": {"type": "string"},
        "timed_out": {"type": "boolean"},
        "execution": {"type": "object", "description": "The record of the run"},
    }))
}

pub(super) fn file_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string"},
            "path": {"type": "string"},
            "size": {"type": "integer"},
            "encoding": {"type": "string"},
            "modified": {"type": "string"},
            "content": {"type": "string"},
            "backup": maybe("string"),
        },
        "required": ["sandbox_id", "path", "size", "encoding", "modified"],
    })
}

pub(super) fn files_schema() -> Value {
    object(json!({
        "sandbox_id": {"type": "string"},
        "path": {"type": "string"},
        "recursive": {"type": "boolean"},
        "count": {"type": "integer"},
        "files": {"type": "array", "items": {"type": "object"}},
    }))
}
