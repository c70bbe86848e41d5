//! Who calls, and what they may do.

use crate::Problem;
use crate::keys::Pace;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use engine::control::Bounds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use utoipa::ToSchema;

/// What a key may be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Running programs, and sessions.
    Run,
    /// Files of sessions, and artifacts.
    Files,
    /// Keys, the audit log, and the state of the server.
    Admin,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Run => "run",
            Scope::Files => "files",
            Scope::Admin => "admin",
        })
    }
}

/// How much a key may use. What is left out has no bound of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyLimits {
    /// Programs that run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub concurrency: Option<u32>,
    /// Sessions at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub sessions: Option<u32>,
    /// Programs that wait for their turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued: Option<u32>,
    /// CPU time in an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub cpu_seconds_per_hour: Option<u64>,
    /// Requests in a minute, in the long run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub requests_per_minute: Option<u32>,
    /// Requests at once, where none came for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub burst: Option<u32>,
}

impl KeyLimits {
    /// What a key gets that was made without limits.
    pub fn usual() -> KeyLimits {
        KeyLimits {
            concurrency: Some(16),
            sessions: Some(50),
            queued: Some(500),
            cpu_seconds_per_hour: None,
            requests_per_minute: Some(600),
            burst: Some(100),
        }
    }

    /// These, with others where there are none.
    pub fn or(self, others: KeyLimits) -> KeyLimits {
        KeyLimits {
            concurrency: self.concurrency.or(others.concurrency),
            sessions: self.sessions.or(others.sessions),
            queued: self.queued.or(others.queued),
            cpu_seconds_per_hour: self.cpu_seconds_per_hour.or(others.cpu_seconds_per_hour),
            requests_per_minute: self.requests_per_minute.or(others.requests_per_minute),
            burst: self.burst.or(others.burst),
        }
    }

    /// The first field that is out of range or more than `most` allows, with what is wrong with it.
    pub(crate) fn fault(&self, most: &KeyLimits) -> Option<(&'static str, String)> {
        let fields = [
            ("concurrency", self.concurrency.map(u64::from), most.concurrency.map(u64::from), 1),
            ("sessions", self.sessions.map(u64::from), most.sessions.map(u64::from), 1),
            ("queued", self.queued.map(u64::from), most.queued.map(u64::from), 0),
            ("cpu_seconds_per_hour", self.cpu_seconds_per_hour, most.cpu_seconds_per_hour, 1),
            (
                "requests_per_minute",
                self.requests_per_minute.map(u64::from),
                most.requests_per_minute.map(u64::from),
                1,
            ),
            ("burst", self.burst.map(u64::from), most.burst.map(u64::from), 1),
        ];
        fields.into_iter().find_map(|(name, value, most, least)| match (value?, most) {
            (value, _) if value < least => Some((name, format!("is less than {least}"))),
            (value, Some(most)) if value > most => {
                Some((name, format!("is more than the {most} of the key that asks")))
            }
            _ => None,
        })
    }
}

/// Whoever has sent the request. A handler that takes one is reached only with a token that works.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose things these are.
    pub tenant: Arc<str>,
    /// The part of the key that is no secret.
    pub key_id: Arc<str>,
    /// What the key is for.
    pub scopes: Arc<BTreeSet<Scope>>,
    /// How much the key may use.
    pub limits: KeyLimits,
    /// Whether this is the operator, who may look at every tenant.
    pub operator: bool,
    /// How fast the key may ask.
    pub(crate) pace: Option<Arc<Pace>>,
}

impl Caller {
    /// Whoever has started this program, and talks to it by its standard streams.
    pub fn local() -> Caller {
        Caller {
            tenant: "local".into(),
            key_id: "local".into(),
            scopes: Arc::new([Scope::Run, Scope::Files, Scope::Admin].into()),
            limits: KeyLimits::default(),
            operator: true,
            pace: None,
        }
    }

    /// Nobody gets further who may not do this.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.contains(&scope) {
            return Ok(());
        }
        let detail = format!("this key does not have the scope `{scope}`");
        Err(Problem::forbidden("missing_scope", detail).hint(format!("use a key with the scope `{scope}`")))
    }

    /// As the control plane wants to know them.
    pub(crate) fn of_engine(&self) -> engine::control::Caller {
        let usual = Bounds::default();
        let count = |own: Option<u32>, usual: usize| own.map_or(usual, |own| own as usize);
        let bounds = match self.operator {
            // Nobody bounds the operator but the server itself.
            true => Bounds {
                concurrency: usize::MAX,
                queued: usize::MAX,
                sessions: usize::MAX,
                cpu_seconds_per_hour: None,
            },
            false => Bounds {
                concurrency: count(self.limits.concurrency, usual.concurrency),
                queued: count(self.limits.queued, usual.queued),
                sessions: count(self.limits.sessions, usual.sessions),
                cpu_seconds_per_hour: self.limits.cpu_seconds_per_hour,
            },
        };
        engine::control::Caller { tenant: self.tenant.clone(), bounds }
    }

    /// The tenant whose things this caller may look at; none for everybody's.
    pub fn sees(&self) -> Option<&str> {
        (!self.operator).then_some(&*self.tenant)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| Problem::unauthorized("a token is needed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_key_stay_within_those_of_its_maker() {
        let most = KeyLimits::usual();
        assert_eq!(most.fault(&most), None);
        let more = KeyLimits { burst: Some(101), ..KeyLimits::default() };
        assert_eq!(more.fault(&most).map(|(field, _)| field), Some("burst"));
        assert_eq!(more.fault(&KeyLimits::default()), None);
        let none = KeyLimits { concurrency: Some(0), ..KeyLimits::default() };
        assert_eq!(none.fault(&KeyLimits::default()).map(|(field, _)| field), Some("concurrency"));
    }
}
