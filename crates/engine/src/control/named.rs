//! Sessions by names that callers choose: made when they are first used, and anew when the one before is over. And what
//! callers who think of a session as a machine do with it: start it, stop it, look at its meters.

use super::error::ControlError;
use super::session::{NewSession, SessionView};
use super::{Caller, ControlPlane};
use crate::BoxUsage;
use crate::storage::{SessionMode, SessionStatus, StoreError};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long somebody waits for a session that another is making.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often they look.
const GLANCE: Duration = Duration::from_millis(20);

impl ControlPlane {
    /// Makes a session with an id that an earlier one may have had. What is over makes room, and is forgotten.
    pub async fn create_named(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        new: NewSession,
    ) -> Result<SessionView, ControlError> {
        if let Some(id) = &new.id
            && let Ok(before) = self.session(caller, id).await
            && before.session.status == SessionStatus::Terminated
        {
            match self.purge_session(caller, id).await {
                // Another was faster.
                Ok(()) | Err(ControlError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.create_session(caller, new, None).await?.0)
    }

    /// The session with this id, ready for use. If there is none it is made as `new` says: of several who ask at once
    /// by one, while the others wait.
    pub async fn session_or_new(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        id: &str,
        new: impl Fn() -> NewSession,
    ) -> Result<SessionView, ControlError> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let found = match self.session(caller, id).await {
                Ok(view) => match view.session.status {
                    SessionStatus::Terminated => self.create_named(caller, named(id, new())).await,
                    SessionStatus::Creating | SessionStatus::Stopping => {
                        Err(ControlError::conflict("session", "is being made"))
                    }
                    SessionStatus::Stopped => self.session_to_use(caller, id).await.map(|live| live.view()),
                    SessionStatus::Failed if view.session.mode == SessionMode::Persistent => {
                        self.session_to_use(caller, id).await.map(|live| live.view())
                    }
                    _ => return Ok(view),
                },
                Err(ControlError::NotFound { .. }) => self.create_named(caller, named(id, new())).await,
                Err(error) => return Err(error),
            };
            match found {
                Err(
                    ControlError::Conflict { what: "session", .. }
                    | ControlError::Store(StoreError::Conflict { .. }),
                ) if Instant::now() < patience => {
                    tokio::time::sleep(GLANCE).await;
                }
                found => return found,
            }
        }
    }

    /// Has a session go on: one that is paused, or one that has no sandbox at the moment.
    pub async fn start_session(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        id: &str,
    ) -> Result<SessionView, ControlError> {
        match self.session(caller, id).await?.session.status {
            SessionStatus::Paused => self.resume_session(caller, id).await,
            SessionStatus::Stopped | SessionStatus::Failed => {
                Ok(self.session_to_use(caller, id).await?.view())
            }
            other => Err(ControlError::conflict("session", format!("is {}", other.word()))),
        }
    }

    /// Takes down the sandbox of a session, with what runs in it, and keeps its files for when it is used again.
    pub async fn stop_session(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        id: &str,
    ) -> Result<SessionView, ControlError> {
        let live = self.live_session_of(caller, id).await?;
        self.stop(&live, "it was stopped").await?;
        self.session(caller, id).await
    }

    /// What the sandbox of a session has used so far.
    pub async fn session_usage(&self, caller: &Caller, id: &str) -> Result<BoxUsage, ControlError> {
        Ok(self.live_session_of(caller, id).await?.sandbox.usage().await?)
    }
}

fn named(id: &str, new: NewSession) -> NewSession {
    NewSession { id: Some(id.to_owned()), ..new }
}
