//! Sandboxes as the first of the founding systems had them: below `/api/v1`, `/api/v2` and `/api`, with what only its
//! second version had below that one. A sandbox is a session by another name. Its tools are those of agents.

mod batch;
mod files;
mod life;
mod meters;
mod offers;
mod run;
mod tools;
pub(crate) mod wire;

use crate::State;
use utoipa_axum::router::OpenApiRouter;

/// The door, with tools if agents have any.
pub(super) fn door(has_tools: bool) -> OpenApiRouter<State> {
    let (tools, short) = match has_tools {
        true => (tools::door().merge(offers::door()), tools::short_door()),
        false => Default::default(),
    };
    let both = || {
        let sandboxes = OpenApiRouter::new().merge(life::door()).merge(files::door()).merge(run::door());
        sandboxes.merge(tools.clone())
    };
    let second = both().merge(meters::door()).merge(batch::door());
    OpenApiRouter::new().nest("/api/v1", both()).nest("/api/v2", second).nest("/api", both()).merge(short)
}
