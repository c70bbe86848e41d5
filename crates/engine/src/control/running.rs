//! Having programs run: at once for whoever waits, or as somebody's turn comes, and storing what came of it.

use super::error::ControlError;
use super::executions::{Done, Hear};
use super::live::{Live, What};
use super::session::{LiveSession, Place, Seat};
use super::turns::{Bounds, Reservation, Ticket, Turn};
use super::{ControlPlane, locked, now, traced};
use crate::storage::{ExecutionStatus, Json, Outcome, StoreError, Submission};
use crate::{EngineError, Event, Execution, Request, Status};
use serde_json::json;
use std::sync::Arc;
use std::task::Poll;
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

impl Ground {
    /// CPU time, in milliseconds, that has to be paid for when this program is over.
    async fn cost(&self, execution: &Execution) -> f64 {
        match self {
            Ground::Fresh => execution.metrics.cpu_time_ms,
            Ground::Session(session) => session.cost(execution).await,
        }
    }
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
    /// What a program on this ground waits for. Whether it may is known at once.
    pub(super) fn way(
        &self,
        ground: &Ground,
        (tenant, bounds): (&Arc<str>, &Bounds),
        session_queue: usize,
    ) -> Result<Way, ControlError> {
        Ok(match ground {
            Ground::Fresh => Way::Turn(self.turns.ask(tenant, bounds)?),
            Ground::Session(session) => {
                Way::Session(session.place(session_queue)?, self.turns.reserve(tenant, bounds)?)
            }
        })
    }

    /// Runs a program for somebody who waits for it.
    pub(super) async fn run_at_once(
        self: &Arc<ControlPlane>,
        order: Order,
        way: Way,
        hear: Hear<'_>,
    ) -> Result<Done, ControlError> {
        let (seat, turn) = way.wait(&order.ground).await?;
        let mut meter = Meter::new(turn, &order.request);
        let mut attempt = 1;
        let mut execution = loop {
            let (done, begun) = self.run(&order, hear).await;
            if begun || !has_broken(&done) || attempt >= self.settings.retry_attempts {
                break done?;
            }
            tokio::time::sleep(self.pause_after(attempt)).await;
            attempt += 1;
        };
        meter.charge(order.ground.cost(&execution).await);
        drop(seat);
        execution.execution_id.clone_from(&order.submission.id);
        let outcome = Outcome::of(&execution, now(), self.settings.inline_output)?;
        if self.settings.keep_results {
            self.store.record(&order.submission, &outcome).await?;
        }
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
            artifacts: execution.artifacts,
        })
    }

    /// Runs a program that was submitted, when it is its turn. Tries again where it had not begun, or may be run twice.
    pub(super) async fn run_submitted(
        self: Arc<ControlPlane>,
        mut order: Order,
        way: Way,
        live: Arc<Live>,
        idempotent: bool,
    ) {
        order.request.cancel = live.cancel.clone();
        let outcome = tokio::select! {
            biased;
            () = live.cancel.cancelled(), if self.is_ending() => return,
            outcome = self.in_turn(&order, way, &live, idempotent) => outcome,
        };
        // What was only submitted when we ended is the next one's.
        let Some(outcome) = outcome else { return };
        self.keep(&order.submission, &outcome).await;
        live.note(What::Status(outcome.status));
        live.note(What::Finished(Arc::new(outcome.record)));
        locked(&self.live).over.push_back((Instant::now(), live.id.clone()));
        self.left(&order.ground).await;
    }

    async fn in_turn(&self, order: &Order, way: Way, live: &Live, idempotent: bool) -> Option<Outcome> {
        let (seat, turn) = tokio::select! {
            biased;
            () = live.cancel.cancelled() => {
                if self.is_ending() {
                    return None;
                }
                return Some(never_ran(order, Status::Cancelled, &EngineError::Cancelled));
            }
            ready = way.wait(&order.ground) => match ready {
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
            let (done, begun) = self.run(order, &|event| live.tell(event)).await;
            let again = has_broken(&done) && (!begun || idempotent) && attempt < self.settings.retry_attempts;
            match done {
                Ok(mut execution) if !again => {
                    meter_turn.charge(order.ground.cost(&execution).await);
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
            let rest = async {
                tokio::time::sleep(self.pause_after(attempt)).await;
                self.breaker.passed().await;
            };
            tokio::select! {
                () = live.cancel.cancelled() => {
                    return Some(never_ran(order, Status::Cancelled, &EngineError::Cancelled));
                }
                () = rest => {}
            }
            attempt += 1;
        }
    }

    /// How long to wait before something is tried once more.
    fn pause_after(&self, attempt: u32) -> Duration {
        let longer = self.settings.retry_factor.max(1.0).powi(attempt as i32 - 1);
        let pause = self.settings.retry_base.as_secs_f64() * longer;
        Duration::try_from_secs_f64(pause).unwrap_or(Duration::MAX).min(self.settings.retry_max)
    }

    /// Runs a program once. Says whether any of it was begun.
    async fn run(&self, order: &Order, hear: Hear<'_>) -> (Result<Execution, EngineError>, bool) {
        let (events, mut heard) = mpsc::channel(64);
        let mut begun = false;
        let tell = |event: Event, begun: &mut bool| {
            *begun |= matches!(event, Event::Started { .. } | Event::Stdout { .. } | Event::Stderr { .. });
            hear(event);
        };
        let engine = &self.engine;
        let run = async {
            match &order.ground {
                Ground::Fresh => engine.execute(&order.request, &events).await,
                Ground::Session(session) => session.execute(order.request.clone(), events.clone()).await,
            }
        };
        tokio::pin!(run);
        let done = std::future::poll_fn(|context| {
            let done = run.as_mut().poll(context);
            match &order.ground {
                // It is we who sent them, just now. To be woken for what we do ourselves would have another thread go on.
                Ground::Fresh => {
                    while let Ok(event) = heard.try_recv() {
                        tell(event, &mut begun);
                    }
                }
                Ground::Session(_) => {
                    while let Poll::Ready(Some(event)) = heard.poll_recv(context) {
                        tell(event, &mut begun);
                    }
                }
            }
            done
        })
        .await;
        begun |= done.as_ref().is_ok_and(|execution| execution.status != Status::InfraError);
        traced::ended(&done);
        if let Ground::Fresh = order.ground {
            // What a program did to its sandbox says nothing about the next one.
            match (&done, begun) {
                (_, true) => self.breaker.worked(),
                (Err(EngineError::Broken(why)), false) => self.breaker.failed(why),
                _ => {}
            }
        }
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

/// Whether it was us who failed.
fn has_broken(done: &Result<Execution, EngineError>) -> bool {
    match done {
        Ok(execution) => execution.status == Status::InfraError,
        Err(error) => matches!(error, EngineError::Broken(_)),
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

/// What a program waits for before it runs. Whoever has it will get there.
#[derive(Debug)]
pub(crate) enum Way {
    /// A turn.
    Turn(Ticket),
    /// The session first: a turn is not taken from others by who could not use it yet.
    Session(Place, Reservation),
}

impl Way {
    async fn wait(self, ground: &Ground) -> Result<(Option<Seat>, Arc<Turn>), ControlError> {
        let (seat, ticket) = match self {
            Way::Turn(ticket) => (None, ticket),
            Way::Session(place, reservation) => (Some(place.seat().await?), reservation.ask()),
        };
        let turn = Arc::new(ticket.turn().await?);
        if let Ground::Session(session) = ground {
            session.works_in(&turn);
        }
        Ok((seat, turn))
    }
}

/// A turn whose CPU time is paid for, also when nobody waits for the end of it.
struct Meter {
    turn: Arc<Turn>,
    began: Instant,
    cores: f64,
    paid: bool,
}

impl Meter {
    fn new(turn: Arc<Turn>, request: &Request) -> Meter {
        let cores = request.limits.cpu_millis.unwrap_or(1000) as f64 / 1000.0;
        Meter { turn, began: Instant::now(), cores, paid: false }
    }

    fn charge(&mut self, cpu_time_ms: f64) {
        self.paid = true;
        self.turn.charge(cpu_time_ms);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if !self.paid {
            self.turn.charge(self.began.elapsed().as_secs_f64() * 1000.0 * self.cores);
        }
    }
}
