//! What a restart finds: executions and sessions that an earlier life of this node left behind.
//!
//! Every sandbox ends with the server that made it, so nothing runs that is not known. What had not begun is run now;
//! what had is run again only where its caller said that it may be.

use super::error::ControlError;
use super::program::Program;
use super::running::{Ground, Order, Way, failed};
use super::turns::Bounds;
use super::{Caller, ControlPlane, now, traced};
use crate::storage::{
    ExecutionStatus, Progress, Session, SessionMode, SessionStatus, StoreError, StoredExecution,
};
use crate::{FileOp, Status};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// What is found is looked at in pieces of this many.
const PIECE: usize = 100;

/// How long a sandbox may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of looking at every session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Sessions that have a sandbox here.
    pub healthy: usize,
    /// Those whose sandbox was gone and that have another one with their saved workspace now.
    pub recovered: usize,
    /// Why others have none.
    pub errors: Vec<String>,
}

impl ControlPlane {
    /// Looks at every session of this node. One whose sandbox is gone gets another one.
    pub async fn check_sessions(self: &Arc<ControlPlane>) -> Checked {
        let mut checked = Checked::default();
        for live in self.all_live_sessions() {
            // Its PID 1 answers, whatever it answers.
            let question = FileOp::Stat { path: ".".into() };
            let answers = tokio::time::timeout(PATIENCE, live.sandbox.file(question, None)).await;
            if matches!(answers, Ok(Ok(_))) {
                checked.healthy += 1;
                continue;
            }
            self.close(&live).await;
            let row = live.row();
            let lost = self
                .store
                .move_session(&row, SessionStatus::Failed, now(), Some("its sandbox is gone"))
                .await;
            let caller = Caller { tenant: row.owner.as_str().into(), bounds: Bounds::default() };
            let again = match lost {
                // Whoever noticed it before us has stored it.
                Ok(()) | Err(StoreError::Conflict { .. }) => self.session_to_use(&caller, &row.id).await,
                Err(error) => Err(error.into()),
            };
            match again {
                Ok(_) => checked.recovered += 1,
                Err(error) => checked.errors.push(format!("{}: {error}", row.id)),
            }
        }
        checked
    }

    pub(super) async fn reconcile(self: &Arc<ControlPlane>) -> Result<(), ControlError> {
        self.reconcile_sessions().await?;
        self.reconcile_executions().await
    }

    async fn reconcile_sessions(&self) -> Result<(), ControlError> {
        use SessionStatus::{Creating, Paused, Ready, Running, Stopping};
        for status in [Creating, Ready, Running, Paused, Stopping] {
            let mut after = None;
            loop {
                let page = self.store.due_sessions(status, i64::MAX, after.as_ref(), PIECE).await?;
                for row in page.items {
                    if row.node.as_deref() == Some(&self.settings.node) {
                        self.interrupted(row).await?;
                    }
                }
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// A session whose sandbox ended with the server.
    async fn interrupted(&self, row: Session) -> Result<(), ControlError> {
        let (next, reason) = match (row.status, row.mode, &row.workspace) {
            (_, SessionMode::Ephemeral, _) => (SessionStatus::Terminated, "the server ended"),
            (SessionStatus::Creating, ..) => (SessionStatus::Failed, "the server ended while it was made"),
            (_, _, Some(_)) => {
                (SessionStatus::Stopping, "the server ended; its workspace is as it was saved last")
            }
            (..) => (SessionStatus::Failed, "the server ended before its workspace was saved"),
        };
        let settle = async {
            if row.status == SessionStatus::Stopping && next == SessionStatus::Stopping {
                return self.store.move_session(&row, SessionStatus::Stopped, now(), Some(reason)).await;
            }
            self.store.move_session(&row, next, now(), Some(reason)).await?;
            if next == SessionStatus::Stopping {
                let row = Session { status: next, ..row.clone() };
                self.store.move_session(&row, SessionStatus::Stopped, now(), None).await?;
            }
            Ok(())
        };
        match settle.await {
            // Somebody else saw to it.
            Ok(()) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn reconcile_executions(self: &Arc<ControlPlane>) -> Result<(), ControlError> {
        let mut after = None;
        loop {
            let page = self.store.unfinished(after.as_ref(), PIECE).await?;
            for found in page.items {
                self.take_up(found).await?;
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn take_up(self: &Arc<ControlPlane>, found: StoredExecution) -> Result<(), ControlError> {
        let Progress::Unfinished { node, attempts, .. } = &found.progress else { return Ok(()) };
        if node.as_ref().is_some_and(|node| *node != self.settings.node) {
            return Ok(());
        }
        let program: Result<Program, _> = found.submission.request.read();
        let begun = found.status != ExecutionStatus::Pending;
        let again = match &program {
            Ok(program) => {
                (!begun || program.idempotent) && *attempts < i64::from(self.settings.retry_attempts)
            }
            Err(_) => false,
        };
        if found.status == ExecutionStatus::Running {
            self.store.crash(&found.submission.id).await?;
        }
        if let (true, Ok(program)) = (again, program) {
            let caller = Caller { tenant: found.submission.owner.as_str().into(), bounds: Bounds::default() };
            match self.prepare_again(&caller, &found, &program).await {
                Ok((order, way)) => {
                    let live = self.enlist(&found.submission, caller.tenant.clone());
                    let span = traced::submitted(&order);
                    let run = self.clone().run_submitted(order, way, live, program.idempotent);
                    tokio::spawn(run.instrument(span));
                    return Ok(());
                }
                Err(error) => return self.give_up(&found, &error.to_string()).await,
            }
        }
        self.give_up(&found, "the server ended while it ran, and nobody knows how far it got").await
    }

    async fn prepare_again(
        self: &Arc<ControlPlane>,
        caller: &Caller,
        found: &StoredExecution,
        program: &Program,
    ) -> Result<(Order, Way), ControlError> {
        let ground = match &found.submission.session_id {
            Some(id) => Ground::Session(self.session_to_use(caller, id).await?),
            None => Ground::Fresh,
        };
        let request = self.request(caller, &ground, program).await?;
        let bounds = Bounds { queued: usize::MAX, cpu_seconds_per_hour: None, ..caller.bounds };
        let way = self.way(&ground, (&caller.tenant, &bounds), usize::MAX)?;
        Ok((Order { ground, request, submission: found.submission.clone() }, way))
    }

    async fn give_up(&self, found: &StoredExecution, why: &str) -> Result<(), ControlError> {
        let outcome = failed(&found.submission, Status::InfraError, why, None);
        match self.store.finish(&found.submission, &outcome).await {
            Ok(()) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
