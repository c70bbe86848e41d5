//! How sessions end: because somebody wants it, because their time is over, because they were for one program.

use super::NO_SESSION;
use crate::control::error::ControlError;
use crate::control::running::Ground;
use crate::control::session::{LiveSession, SessionView};
use crate::control::{Caller, ControlPlane, locked, now};
use crate::storage::{Session, SessionMode, SessionStatus, StoreError};
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How much of the time a session may do nothing passes before it is stored that it did something.
const SHARE: i64 = 10;
/// And at least this long, in milliseconds.
const SELDOM: i64 = 1000;
/// How long a sandbox may take to go.
const FAREWELL: Duration = Duration::from_secs(5);

impl ControlPlane {
    /// Ends a session: its programs, its sandbox and its files. What it was, and its executions, can still be looked at.
    /// Ending it again changes nothing.
    pub async fn terminate_session(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        id: &str,
    ) -> Result<SessionView, ControlError> {
        self.terminate(&caller.tenant, id, None).await?;
        self.session(caller, id).await
    }

    /// Ends a session, and forgets that it ever was.
    pub async fn purge_session(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        id: &str,
    ) -> Result<(), ControlError> {
        self.terminate(&caller.tenant, id, None).await?;
        let row = self.stored(&caller.tenant, id).await?;
        if row.status != SessionStatus::Terminated {
            // Somebody else has purged it, and the name is another one's.
            return Ok(());
        }
        // Somebody who takes the name again must not find what was made, or is being made, under it.
        tokio::time::timeout(FAREWELL, self.left_by_all(&row))
            .await
            .map_err(|_| ControlError::conflict("session", "is being made"))?;
        let purged = self.store.purge_session(&row).await;
        self.settled.notify_waiters();
        match purged {
            Err(StoreError::NotFound { .. }) => Err(NO_SESSION),
            other => Ok(other?),
        }
    }

    /// After a program: a session that was for one is over.
    pub(in crate::control) async fn left(self: &Arc<ControlPlane>, ground: &Ground) {
        let Ground::Session(live) = ground else { return };
        live.touch();
        let row = live.row();
        if row.mode == SessionMode::Ephemeral {
            let _ = self.terminate(&row.owner, &row.id, Some("its one program is over")).await;
        } else if live.touched() - live.noted.load(Relaxed) >= (row.idle_ms / SHARE).max(SELDOM) {
            let at = live.touched();
            live.noted.store(at, Relaxed);
            let _ = self.store.touch_session(&row, at).await;
        }
    }

    pub(in crate::control) async fn terminate(
        self: &Arc<ControlPlane>,
        owner: &str,
        id: &str,
        reason: Option<&str>,
    ) -> Result<(), ControlError> {
        let row = match self.live_session(owner, id) {
            Some(live) => {
                self.close(&live).await;
                live.row()
            }
            None => self.stored(owner, id).await?,
        };
        if row.status == SessionStatus::Terminated {
            return Ok(());
        }
        match self.store.move_session(&row, SessionStatus::Terminated, now(), reason).await {
            // Somebody else ended it, or it failed meanwhile.
            Err(StoreError::Conflict { .. }) => {
                let row = self.stored(owner, id).await?;
                if row.status != SessionStatus::Terminated {
                    self.store.move_session(&row, SessionStatus::Terminated, now(), reason).await?;
                }
            }
            other => other?,
        }
        self.drop_workspace(&self.stored(owner, id).await?).await
    }

    /// Ends everything in a session, and its sandbox.
    pub(in crate::control) async fn close(&self, live: &LiveSession) {
        live.closing.store(true, Relaxed);
        let row = live.row();
        for execution in self.live_in(&row.owner, &row.id) {
            execution.cancel.cancel();
        }
        live.sandbox.close();
        let _ = tokio::time::timeout(FAREWELL, live.sandbox.gone()).await;
        self.forget_session(live);
    }

    pub(in crate::control) fn forget_session(&self, live: &LiveSession) {
        let row = live.row();
        let mut sessions = locked(&self.sessions);
        if let Entry::Occupied(known) = sessions.live.entry((Arc::from(row.owner.as_str()), row.id))
            && std::ptr::eq(Arc::as_ptr(known.get()), live)
        {
            known.remove();
        }
        drop(sessions);
        self.settled.notify_waiters();
    }

    /// Waits until no sandbox is, or will be, of this session, which is terminated.
    async fn left_by_all(&self, row: &Session) {
        let name = (Arc::from(row.owner.as_str()), row.id.clone());
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            settled.as_mut().enable();
            if !locked(&self.sessions).has(&name) {
                return;
            }
            // Whoever ended it as well may have been faster, and the name may be another one's.
            let now = self.stored(&row.owner, &row.id).await;
            if !now.is_ok_and(|now| (now.status, now.created_at) == (row.status, row.created_at)) {
                return;
            }
            settled.await;
        }
    }

    /// Ends sessions whose time is over.
    pub(in crate::control) async fn end_due_sessions(self: &Arc<ControlPlane>) {
        let at = now();
        for live in self.all_live_sessions() {
            let view = live.view();
            let busy = view.running > 0;
            let lifetime = Session { idle_ms: -1, ..view.session.clone() };
            let reason = if at >= lifetime.due_at(at) {
                "its lifetime is over"
            } else if !busy && at >= view.session.due_at(view.session.last_activity_at) {
                "it was idle"
            } else {
                continue;
            };
            let _ = self.terminate(&view.session.owner, &view.session.id, Some(reason)).await;
        }
        for status in [SessionStatus::Stopped, SessionStatus::Ready, SessionStatus::Paused] {
            let Ok(due) = self.store.due_sessions(status, at, None, 100).await else { return };
            for row in due.items {
                let here = row.node.as_deref() == Some(&self.settings.node);
                if here && self.live_session(&row.owner, &row.id).is_none() {
                    let _ = self.terminate(&row.owner, &row.id, Some("its time is over")).await;
                }
            }
        }
    }
}
