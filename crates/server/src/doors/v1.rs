//! `/api/v1`: programs, executions, sessions, their files, templates, events, webhooks. Paths and fields of the founding
//! platform, and what it lacked.

mod dependencies;
mod events;
mod execute;
mod executions;
pub(super) mod files;
mod runtimes;
mod sessions;
mod stream;
mod templates;
mod webhooks;
pub(super) mod wire;

use crate::State;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn door() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .merge(execute::door())
        .merge(executions::door())
        .merge(stream::door())
        .merge(sessions::door())
        .merge(dependencies::door())
        .merge(files::door())
        .merge(templates::door())
        .merge(runtimes::door())
        .merge(events::door())
        .merge(webhooks::door())
}
