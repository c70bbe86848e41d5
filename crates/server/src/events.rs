//! Events as callers see them, and which of them somebody wants.

use crate::Problem;
use crate::clock::rfc3339;
use engine::storage::{EVENT_KINDS, EVERYBODY, Event};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Most patterns that somebody may give.
const MOST: usize = 32;

/// Something that happened. It names things, and never has code or output in it.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct Told {
    /// Greater than those of all earlier ones.
    id: i64,
    /// What kind of thing happened.
    #[schema(example = "session.created")]
    kind: String,
    /// The id of what it happened to.
    subject: String,
    /// Whose it is; none for what everybody shares.
    tenant: Option<String>,
    /// When, RFC 3339.
    at: String,
    /// More about it, such as `status`.
    #[schema(value_type = Object)]
    data: Value,
}

impl Told {
    pub(crate) fn of(event: &Event) -> Told {
        let Event { sequence, event } = event;
        Told {
            id: *sequence,
            kind: event.kind.clone(),
            subject: event.subject.clone(),
            tenant: (event.owner != EVERYBODY).then(|| event.owner.clone()),
            at: rfc3339(event.at),
            data: event.body.read().unwrap_or_default(),
        }
    }
}

/// Kinds of events, by name or by what they are about, such as `session.*`; none stands for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(Vec<String>);

impl Kinds {
    /// Of patterns, each of which has to mean something.
    pub(crate) fn new(patterns: Vec<String>) -> Result<Kinds, Problem> {
        if patterns.len() > MOST {
            return Err(Problem::invalid_field("kinds", format!("has more than {MOST} entries")));
        }
        match patterns.iter().find(|pattern| !EVENT_KINDS.iter().any(|kind| fits(pattern, kind))) {
            Some(pattern) => {
                let shown: String = pattern.chars().take(64).collect();
                let hint = format!("one of {}, or such as `session.*`", EVENT_KINDS.join(", "));
                Err(Problem::invalid_field("kinds", format!("`{shown}` is no kind of event")).hint(hint))
            }
            None => Ok(Kinds(patterns)),
        }
    }

    /// Of patterns with commas between them.
    pub(crate) fn listed(text: Option<&str>) -> Result<Kinds, Problem> {
        let words = text.unwrap_or_default().split(',').map(str::trim);
        Kinds::new(words.filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }

    /// As they were stored.
    pub(crate) fn stored(patterns: Vec<String>) -> Kinds {
        Kinds(patterns)
    }

    /// Whether this kind is one of them.
    pub(crate) fn include(&self, kind: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| fits(pattern, kind))
    }

    pub(crate) fn patterns(&self) -> &[String] {
        &self.0
    }
}

fn fits(pattern: &str, kind: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some("") => true,
        Some(head) => head.ends_with('.') && kind.starts_with(head),
        None => pattern == kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_kinds_or_what_they_are_about() {
        let kinds = Kinds::listed(Some("session.*, key.created")).unwrap();
        assert!(kinds.include("session.created") && kinds.include("session.status"));
        assert!(kinds.include("key.created") && !kinds.include("key.revoked"));
        assert!(!kinds.include("execution.finished"));
        for all in [None, Some(""), Some("*")] {
            assert!(EVENT_KINDS.iter().all(|kind| Kinds::listed(all).unwrap().include(kind)), "{all:?}");
        }
        for wrong in ["sesion.*", "session", "session*", "*.created", "session.**"] {
            assert_eq!(Kinds::listed(Some(wrong)).unwrap_err().code(), "invalid_field", "{wrong}");
        }
        assert!(Kinds::new(vec!["*".into(); MOST + 1]).is_err());
    }
}
