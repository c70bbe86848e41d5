//! Sandboxes as the first of the founding systems had them: below `/api/v1`, `/api/v2` and `/api`, with what only its
//! second version had below that one. A sandbox is a session by another name.

mod batch;
mod files;
mod life;
mod meters;
mod run;
mod wire;

use crate::State;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn door() -> OpenApiRouter<State> {
    let both = || OpenApiRouter::new().merge(life::door()).merge(files::door()).merge(run::door());
    let second = both().merge(meters::door()).merge(batch::door());
    OpenApiRouter::new().nest("/api/v1", both()).nest("/api/v2", second).nest("/api", both())
}
