//! Having programs run: at once for whoever waits, or as somebody's turn comes, and storing what came of it.

use super::error::ControlError;
use super::executions::Done;
use super::live::{Live, What};
use super::session::LiveSession;
use super::turns::{Ticket, Turn};
use super::{ControlPlane, locked, now, traced};
use crate::storage::{ExecutionStatus, Json, Outcome, StoreError, Submission};
use crate::{EngineError, Event, Execution, Request, Status};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Where a program runs.
#[derive(Clone, Debug)]
pub(crate) enum Ground {
    /// In a sandbox of its own.
    Fresh,
    /// In a session.
    Session(Arc<LiveSession>),
}

/// A program that is to be run.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) ground: Ground,
    pub(crate) request: Request,
    pub(crate) submission: Submission,
}

/// How often storing a result is tried before it is given up.
const STORE_TRIES: u32 = 5;

impl ControlPlane {
    /// Runs a program for somebody who waits for it.
    pub(super) async fn run_at_once(
        self: &Arc<ControlPlane>,
        order: Order,
        ticket: Ticket,
    ) -> Result<Done, ControlError> {
        let seat = order.ground.enter(self.settings.session_queue).await?;
        let mut meter = Meter::new(ticket.turn().await?, &order.request);
        let (execution, _) = self.run(&order, None).await;
        let mut execution = execution?;
        meter.charge(&execution);
        drop(seat);
        execution.execution_id.clone_from(&order.submission.id);
        let outcome = Outcome::of(&execution, now(), self.settings.inline_output)?;
        self.store.record(&order.submission, &outcome).await?;
        drop(meter);
        self.left(&order.ground).await;
        let shortened =
            outcome.objects.iter().any(|object| matches!(object.name.as_str(), "stdout" | "stderr"));
        let record = if shortened { Json::of(&execution)? } else { outcome.record };
        Ok(Done {
            id: order.submission.id,
            status: outcome.status,
            record: Arc::new(record),
            replayed: false,
        })
    }

    /// Runs a program that was submitted, when it is its turn. Tries again where it had not begun, or may be run twice.
    pub(super) async fn run_submitted(
        self: Arc<ControlPlane>,
        mut order: Order,
        ticket: Ticket,
        live: Arc<Live>,
        idempotent: bool,
    ) {
        order.request.cancel = live.cancel.clone();
        let outcome = tokio::select! {
            biased;
            () = live.cancel.cancelled(), if self.is_ending() => return,
            outcome = self.in_turn(&order, ticket, &live, idempotent) => outcome,
        };
        // What was only submitted when we ended is the next one's.
        let Some(outcome) = outcome else { return };
        self.keep(&order.submission, &outcome).await;
        live.note(What::Status(outcome.status));
        live.note(What::Finished(Arc::new(outcome.record)));
        locked(&self.live).over.push_back((Instant::now(), live.id.clone()));
        self.left(&order.ground).await;
    }

    async fn in_turn(&self, order: &Order, ticket: Ticket, live: &Live, idempotent: bool) -> Option<Outcome> {
        let waiting = async {
            let seat = order.ground.enter(usize::MAX).await?;
            Ok::<_, ControlError>((seat, ticket.turn().await?))
        };
        let (seat, turn) = tokio::select! {
            biased;
            () = live.cancel.cancelled() => {
                if self.is_ending() {
                    return None;
                }
                return Some(never_ran(order, Status::Cancelled, &EngineError::Cancelled));
            }
            ready = waiting => match ready {
                Ok(ready) => ready,
                Err(error) => {
                    let why = EngineError::Broken(error.to_string());
                    return Some(never_ran(order, Status::StartFailed, &why));
                }
            },
        };
        let mut attempt = 1;
        loop {
            let id = order.submission.id.as_str();
            if let Err(error) = self.store.begin(id, &self.settings.node, now()).await {
                let why = EngineError::Broken(error.to_string());
                return Some(never_ran(order, Status::InfraError, &why));
            }
            live.note(What::Status(ExecutionStatus::Running));
            let meter_turn = &turn;
            let began = Instant::now();
            let (done, begun) = self.run(order, Some(live)).await;
            let broke = match &done {
                Ok(execution) => execution.status == Status::InfraError,
                Err(error) => matches!(error, EngineError::Broken(_)),
            };
            let again = broke && (!begun || idempotent) && attempt < self.settings.retry_attempts;
            match done {
                Ok(mut execution) if !again => {
                    meter_turn.charge(execution.metrics.cpu_time_ms);
                    execution.execution_id.clone_from(&order.submission.id);
                    drop(seat);
                    let outcome = Outcome::of(&execution, now(), self.settings.inline_output);
                    return Some(outcome.unwrap_or_else(|error| {
                        never_ran(order, Status::InfraError, &EngineError::Broken(error.to_string()))
                    }));
                }
                Err(error) if !again => {
                    let status = match error {
                        EngineError::Cancelled => Status::Cancelled,
                        EngineError::Broken(_) => Status::InfraError,
                        _ => Status::StartFailed,
                    };
                    return Some(never_ran(order, status, &error));
                }
                _ => {}
            }
            meter_turn.charge(began.elapsed().as_secs_f64() * 1000.0);
            let _ = self.store.crash(id).await;
            live.note(What::Status(ExecutionStatus::Crashed));
            let longer = self.settings.retry_factor.max(1.0).powi(attempt as i32 - 1);
            let pause = self.settings.retry_base.as_secs_f64() * longer;
            let pause = Duration::try_from_secs_f64(pause).unwrap_or(self.settings.retry_max);
            tokio::select! {
                () = live.cancel.cancelled() => {
                    return Some(never_ran(order, Status::Cancelled, &EngineError::Cancelled));
                }
                () = tokio::time::sleep(pause.min(self.settings.retry_max)) => {}
            }
            attempt += 1;
        }
    }

    /// Runs a program once. Says whether any of it was begun.
    async fn run(&self, order: &Order, live: Option<&Live>) -> (Result<Execution, EngineError>, bool) {
        let (events, mut heard) = mpsc::channel(64);
        let mut begun = false;
        let tell = |event: Event, begun: &mut bool| {
            *begun |= matches!(event, Event::Started { .. } | Event::Stdout { .. } | Event::Stderr { .. });
            if let Some(live) = live {
                live.tell(event);
            }
        };
        let engine = &self.engine;
        let run = async {
            match &order.ground {
                Ground::Fresh => engine.execute(&order.request, &events).await,
                Ground::Session(session) => session.execute(order.request.clone(), events.clone()).await,
            }
        };
        tokio::pin!(run);
        let done = loop {
            tokio::select! {
                biased;
                done = &mut run => break done,
                Some(event) = heard.recv() => tell(event, &mut begun),
            }
        };
        while let Ok(event) = heard.try_recv() {
            tell(event, &mut begun);
        }
        begun |= done.as_ref().is_ok_and(|execution| execution.status != Status::InfraError);
        traced::ended(&done);
        (done, begun)
    }

    /// Stores an outcome, however long storage is away: nobody else knows it.
    async fn keep(&self, submission: &Submission, outcome: &Outcome) {
        let mut pause = Duration::from_millis(100);
        for _ in 0..STORE_TRIES {
            match self.store.finish(submission, outcome).await {
                Err(error) if error.is_retryable() => tokio::time::sleep(pause).await,
                // A conflict says that it has an outcome already, which is the one that counts.
                Ok(()) | Err(StoreError::Conflict { .. }) => return,
                Err(_) => return,
            }
            pause *= 4;
        }
    }
}

/// What came of a program that did not run.
pub(super) fn never_ran(order: &Order, status: Status, error: &EngineError) -> Outcome {
    failed(&order.submission, status, &error.to_string(), error.hint())
}

/// What came of a program of which there is no record.
pub(super) fn failed(submission: &Submission, status: Status, message: &str, hint: Option<&str>) -> Outcome {
    let finished = jiff::Timestamp::now();
    let record = json!({
        "execution_id": submission.id,
        "status": status,
        "start": null,
        "exit_code": null,
        "signal": null,
        "stdout": "",
        "stderr": "",
        "stdout_truncated": false,
        "stderr_truncated": false,
        "return_value": null,
        "return_value_set": false,
        "metrics": crate::Metrics::default(),
        "artifacts": [],
        "artifacts_truncated": false,
        "isolation": null,
        "error": {"step": "start", "message": message, "hint": hint},
        "language": submission.language,
        "started_at": null,
        "finished_at": finished.to_string(),
    });
    Outcome {
        status: status.into(),
        finished_at: finished.as_millisecond(),
        record: Json::stored(record.to_string()),
        objects: Vec::new(),
    }
}

impl Ground {
    /// Waits until the place is free.
    async fn enter(&self, most_waiting: usize) -> Result<Option<super::session::Seat>, ControlError> {
        match self {
            Ground::Fresh => Ok(None),
            Ground::Session(session) => session.enter(most_waiting).await.map(Some),
        }
    }
}

/// A turn whose CPU time is paid for, also when nobody waits for the end of it.
struct Meter {
    turn: Turn,
    began: Instant,
    cores: f64,
    paid: bool,
}

impl Meter {
    fn new(turn: Turn, request: &Request) -> Meter {
        let cores = request.limits.cpu_millis.unwrap_or(1000) as f64 / 1000.0;
        Meter { turn, began: Instant::now(), cores, paid: false }
    }

    fn charge(&mut self, execution: &Execution) {
        self.paid = true;
        self.turn.charge(execution.metrics.cpu_time_ms);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if !self.paid {
            self.turn.charge(self.began.elapsed().as_secs_f64() * 1000.0 * self.cores);
        }
    }
}
