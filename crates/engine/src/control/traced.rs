//! Spans of executions, for whoever records them (a feature of the server). Where nobody does they cost nothing. They name
//! things, and never have code or output in them.

use super::running::Order;
use crate::{EngineError, Execution};
use serde::Serialize;
use tracing::field::Empty;
use tracing::{Id, Span, info_span};

/// Of an execution whose caller waits for it.
pub(super) fn execution(order: &Order) -> Span {
    below(Span::current().id(), order)
}

/// Of an execution that was submitted: a trace of its own, which says where it came from.
pub(super) fn submitted(order: &Order) -> Span {
    let span = below(None, order);
    span.follows_from(Span::current().id());
    span
}

fn below(parent: Option<Id>, order: &Order) -> Span {
    info_span!(
        target: "sandboxd::trace",
        parent: parent,
        "execution",
        execution.id = order.submission.id,
        tenant = order.submission.owner,
        language = order.submission.language,
        session = order.submission.session_id,
        isolator = Empty,
        start = Empty,
        status = Empty,
        otel.status_code = Empty,
    )
}

/// What came of the execution of this span.
pub(super) fn ended(done: &Result<Execution, EngineError>) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    match done {
        Ok(execution) => {
            span.record("isolator", execution.isolation.backend);
            span.record("start", word(&execution.start));
            span.record("status", word(&execution.status));
        }
        Err(_) => {
            span.record("status", "not_run");
            span.record("otel.status_code", "ERROR");
        }
    }
}

fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
