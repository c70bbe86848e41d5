//! Calls that take long, for clients that would rather ask again than wait. Each tenant sees its own.

use rmcp::model::{CallToolResponse, CallToolResult, CreateTaskResult, ErrorData, GetTaskResult};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a task may run, and how long what came of it is kept.
const KEPT: Duration = Duration::from_secs(3900);
/// When to ask again.
const POLL: Duration = Duration::from_millis(500);
/// Most tasks of a tenant that run; further calls are waited for.
const MOST: usize = 64;

/// All tasks.
#[derive(Default)]
pub(super) struct Tasks(Mutex<HashMap<Arc<str>, TaskManager>>);

/// A call that has begun.
type Call = Pin<Box<dyn Future<Output = CallToolResult> + Send>>;

impl Tasks {
    /// Goes on with a call as a task.
    pub(super) async fn take_over(
        &self,
        tenant: &Arc<str>,
        call: Call,
    ) -> Result<CallToolResponse, ErrorData> {
        let tasks = self.of(tenant);
        if tasks.running_task_count() >= MOST {
            return Ok(call.await.into());
        }
        let options = TaskOptions::new()
            .with_ttl_ms(KEPT.as_millis() as u64)
            .with_poll_interval_ms(POLL.as_millis() as u64)
            .with_status_message("the program runs");
        let task = tasks.spawn(options, |context| {
            Box::pin(async move {
                tokio::select! {
                    result = call => Ok(result),
                    // Leaving it ends what it runs.
                    () = context.cancelled() => Err(TaskExit::Cancelled),
                }
            })
        });
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    pub(super) fn get(&self, tenant: &Arc<str>, id: &str) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.of(tenant).get_task(id)?))
    }

    pub(super) fn cancel(&self, tenant: &Arc<str>, id: &str) -> Result<(), ErrorData> {
        self.of(tenant).cancel_task(id)
    }

    /// Those of a tenant.
    pub(super) fn of(&self, tenant: &Arc<str>) -> TaskManager {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(tenant.clone()).or_default().clone()
    }
}
