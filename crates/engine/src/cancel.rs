//! A wish to end a run, which stays wished: whoever looks later finds it as well.

use std::sync::Arc;
use tokio::sync::watch;

/// Ends a run. Clones speak of the same run.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel(Arc::new(watch::Sender::new(false)))
    }
}

impl Cancel {
    /// Wishes it.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Resolves once it is wished, at once if it was before.
    pub async fn cancelled(&self) {
        // The sender lives as long as we do.
        let _ = self.0.subscribe().wait_for(|wished| *wished).await;
    }
}
