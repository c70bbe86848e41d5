//! What a session is, as it is stored: its row, its states, and which may follow which.

use super::bounds;
use super::error::StoreError;
use super::json::Json;
use super::statement::{Columns, words};
use sqlx::any::AnyRow;

words! {
    /// Where a session is in its life.
    ///
    /// ```text
    ///  creating ─► ready ◄─► running ─► stopping ─► stopped ─► terminated
    ///      │         ▲ ▼        │          ▲  │        │           ▲
    ///      │        paused ─────┼──────────┘  └────────┼───────────┤
    ///      └──────────┴─────────┴──► failed ───────────┴───────────┘
    /// ```
    SessionStatus {
        /// Its sandbox is being made.
        Creating = "creating",
        /// It waits for something to do.
        Ready = "ready",
        /// Something runs in it.
        Running = "running",
        /// It is frozen.
        Paused = "paused",
        /// It is being taken down.
        Stopping = "stopping",
        /// It has no sandbox, but its workspace is kept.
        Stopped = "stopped",
        /// Its sandbox could not be made, or died.
        Failed = "failed",
        /// It is over, and its workspace is gone.
        Terminated = "terminated",
    }
}

impl SessionStatus {
    /// Whether this may follow at once.
    pub const fn may_become(self, next: SessionStatus) -> bool {
        use SessionStatus::*;
        match self {
            Creating => matches!(next, Ready | Stopping | Failed | Terminated),
            Ready => matches!(next, Running | Paused | Stopping | Failed | Terminated),
            Running => matches!(next, Ready | Paused | Stopping | Failed | Terminated),
            Paused => matches!(next, Ready | Running | Stopping | Failed | Terminated),
            Stopping => matches!(next, Stopped | Failed | Terminated),
            // Its workspace is put into a new sandbox.
            Stopped => matches!(next, Creating | Failed | Terminated),
            Failed => matches!(next, Creating | Terminated),
            Terminated => false,
        }
    }

    /// Whether it has a sandbox, or will have one in a moment.
    pub const fn is_live(self) -> bool {
        use SessionStatus::*;
        matches!(self, Creating | Ready | Running | Paused | Stopping)
    }
}

words! {
    /// How long a session is meant to last.
    SessionMode {
        /// For one run.
        Ephemeral = "ephemeral",
        /// For many, with a workspace that is kept.
        Persistent = "persistent",
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Whose it is. Ids are unique for each owner, so nobody learns of another's.
    pub owner: String,
    /// Chosen by the caller or made.
    pub id: String,
    /// What it was made from.
    pub template: String,
    /// The agent that gets it back when it asks again.
    pub agent_id: Option<String>,
    /// How long it is meant to last.
    pub mode: SessionMode,
    /// Where it is in its life.
    pub status: SessionStatus,
    /// Limits, environment, network and whatever else it was made with.
    pub spec: Json,
    /// The node it lives on.
    pub node: Option<String>,
    /// Its sandbox there.
    pub sandbox_id: Option<String>,
    /// The object that keeps its workspace while it has no sandbox.
    pub workspace: Option<String>,
    /// How long it may do nothing, in milliseconds; -1 for ever.
    pub idle_ms: i64,
    /// How long it may live, likewise.
    pub lifetime_ms: i64,
    /// When it was made, in milliseconds since 1970.
    pub created_at: i64,
    /// When something was last done with it.
    pub last_activity_at: i64,
    /// When it had ended.
    pub ended_at: Option<i64>,
    /// How many states it has been in.
    pub transitions: i64,
}

/// One change of state, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The how-manieth of its session, from 1.
    pub number: i64,
    /// Before; none at the beginning.
    pub from: Option<SessionStatus>,
    /// After.
    pub to: SessionStatus,
    /// When.
    pub at: i64,
    /// Why, in words.
    pub reason: Option<String>,
}

impl Session {
    /// When its time is over if nothing is done with it after this moment.
    pub fn due_at(&self, last_activity_at: i64) -> i64 {
        let bound = |from: i64, length: i64| if length < 0 { i64::MAX } else { from.saturating_add(length) };
        bound(last_activity_at, self.idle_ms).min(bound(self.created_at, self.lifetime_ms))
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        bounds::id("owner", &self.owner)?;
        bounds::id("id", &self.id)?;
        bounds::id("template", &self.template)?;
        self.agent_id.as_deref().map_or(Ok(()), |agent| bounds::name("agent_id", agent))?;
        self.node.as_deref().map_or(Ok(()), |node| bounds::id("node", node))?;
        self.sandbox_id.as_deref().map_or(Ok(()), |sandbox| bounds::name("sandbox_id", sandbox))?;
        self.workspace.as_deref().map_or(Ok(()), |workspace| bounds::name("workspace", workspace))?;
        self.spec.check("spec")
    }

    /// Columns of [`Session::read`], in their order.
    pub(crate) fn read(row: &AnyRow) -> Result<Session, StoreError> {
        let mut row = Columns::of(row);
        Ok(Session {
            owner: row.next()?,
            id: row.next()?,
            template: row.next()?,
            agent_id: row.next()?,
            mode: row.word()?,
            status: row.word()?,
            spec: Json::stored(row.next()?),
            node: row.next()?,
            sandbox_id: row.next()?,
            workspace: row.next()?,
            idle_ms: row.next()?,
            lifetime_ms: row.next()?,
            created_at: row.next()?,
            last_activity_at: row.next()?,
            ended_at: row.next()?,
            transitions: row.next()?,
        })
    }
}

impl Transition {
    pub(crate) fn read(row: &AnyRow) -> Result<Transition, StoreError> {
        let mut row = Columns::of(row);
        Ok(Transition {
            number: row.next()?,
            from: row.next::<Option<String>>()?.map(|word| word.parse()).transpose()?,
            to: row.word()?,
            at: row.next()?,
            reason: row.next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SessionStatus::{self, *};
    use proptest::prelude::*;

    #[test]
    fn nothing_follows_the_end() {
        for next in SessionStatus::ALL {
            assert!(!Terminated.may_become(*next));
        }
    }

    #[test]
    fn words_are_read_back() {
        for status in SessionStatus::ALL {
            assert_eq!(status.word().parse(), Ok(*status));
        }
    }

    proptest! {
        /// However a life goes, it can be ended, and it never continues as itself.
        #[test]
        fn every_life_can_be_ended(path in proptest::collection::vec(0..SessionStatus::ALL.len(), 0..20)) {
            let mut status = Creating;
            for index in path {
                let next = SessionStatus::ALL[index];
                prop_assert!(!status.may_become(status));
                if status.may_become(next) {
                    status = next;
                }
                prop_assert!(status == Terminated || status.may_become(Terminated));
            }
        }
    }
}
