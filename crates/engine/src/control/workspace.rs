//! Workspaces of sessions that have no sandbox: saved as archives, and put back.

use super::archive::{Archive, pack, unpack};
use super::error::ControlError;
use super::session::LiveSession;
use super::{ControlPlane, locked, now};
use crate::Sandbox;
use crate::storage::{ObjectKey, Session, SessionMode, SessionStatus, StoreError};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// As much is on its way at once.
const CHUNK: usize = 64 << 10;

impl ControlPlane {
    /// Saves workspaces that changed, of sessions that are meant to last, when they have not been saved for a while.
    pub(super) async fn save_changed_workspaces(&self) {
        let every = self.settings.checkpoint_interval.as_millis() as i64;
        for live in self.all_live_sessions() {
            let due = live.has_changed() && now() - live.saved_at.load(Relaxed) >= every;
            if due && live.row().mode == SessionMode::Persistent {
                // What cannot be saved now can be the next time.
                let _ = self.save(&live).await;
            }
        }
    }

    /// Saves the workspace of a session.
    async fn save(&self, live: &LiveSession) -> Result<(), ControlError> {
        let row = live.row();
        live.take_change();
        // Another name each time, so that the one that is noted is always whole.
        let name = format!("{}.tar.gz", uuid::Uuid::new_v4().simple());
        let key = ObjectKey::new(&["sessions", &row.owner, &row.id, &name])?;
        let (ours, theirs) = tokio::io::duplex(CHUNK);
        let limit = live.sandbox.limits().disk_bytes.saturating_mul(2) + (1 << 20);
        let packed = async {
            let done = pack(&live.sandbox, "", Archive::TarGz, ours).await;
            // Where packing broke, what was sent must not pass for the whole.
            done.map_err(|error| error.to_string())
        };
        let (packed, put) = tokio::join!(packed, self.store.objects().put(&key, theirs, limit));
        let old = row.workspace.clone();
        let saved = match (packed, put) {
            (Ok(()), Ok(_)) => self.store.keep_workspace(&row.owner, &row.id, Some(&key.to_string())).await,
            (Err(why), _) => Err(StoreError::Broken(why)),
            (_, Err(error)) => Err(error),
        };
        if let Err(error) = saved {
            live.change();
            let _ = self.store.objects().delete(&key).await;
            return Err(error.into());
        }
        live.saved_at.store(now(), Relaxed);
        locked(&live.row).workspace = Some(key.to_string());
        if let Some(old) = old {
            self.store.objects().delete(&old.parse()?).await?;
        }
        Ok(())
    }

    /// Puts a workspace that was saved into a sandbox.
    pub(super) async fn restore(&self, sandbox: &Sandbox, object: &str) -> Result<(), ControlError> {
        let content = self.store.objects().get(&object.parse()?, None).await?;
        unpack(sandbox, "", content.bytes).await
    }

    /// Forgets the workspace of a session.
    pub(super) async fn drop_workspace(&self, row: &Session) -> Result<(), ControlError> {
        if let Some(object) = &row.workspace {
            self.store.keep_workspace(&row.owner, &row.id, None).await?;
            self.store.objects().delete(&object.parse()?).await?;
        }
        Ok(())
    }

    /// Saves every session that is meant to last, and ends all of them.
    pub(super) async fn stop_all_sessions(self: &Arc<ControlPlane>, reason: &str) {
        for live in self.all_live_sessions() {
            let row = live.row();
            if row.mode == SessionMode::Ephemeral {
                let _ = self.terminate(&row.owner, &row.id, Some(reason)).await;
                continue;
            }
            if self.stop(&live, reason).await.is_err() {
                self.close(&live).await;
                let _ = self.rest(&live.row(), "its workspace could not be saved").await;
            }
        }
    }

    /// Saves a session and ends its sandbox. If it cannot be saved it stays as it is.
    pub(super) async fn stop(&self, live: &LiveSession, reason: &str) -> Result<(), ControlError> {
        if live.has_changed() {
            self.save(live).await?;
        }
        self.close(live).await;
        self.rest(&live.row(), reason).await
    }

    /// From now on a session has no sandbox.
    async fn rest(&self, row: &Session, reason: &str) -> Result<(), ControlError> {
        self.store.move_session(row, SessionStatus::Stopping, now(), Some(reason)).await?;
        let row = Session { status: SessionStatus::Stopping, ..row.clone() };
        Ok(self.store.move_session(&row, SessionStatus::Stopped, now(), None).await?)
    }
}
