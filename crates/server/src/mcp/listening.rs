//! Files that clients listen for in the way of revision 2026-07-28: one request says which, and goes on until they have
//! heard enough.

use super::{Connection, call, fixtures, resources};
use crate::Scope;
use rmcp::model::{ErrorData, SubscriptionFilter};
use rmcp::service::SubscriptionContext;
use std::sync::Arc;
use tokio::sync::broadcast;

/// Changes that a listener may be behind before it misses the oldest.
const BEHIND: usize = 256;

/// Everyone who listens, of all tenants.
pub(super) struct Listeners(broadcast::Sender<Changed>);

#[derive(Clone)]
struct Changed {
    tenant: Arc<str>,
    uri: Arc<str>,
}

impl Default for Listeners {
    fn default() -> Listeners {
        Listeners(broadcast::channel(BEHIND).0)
    }
}

impl Listeners {
    pub(super) fn are_there(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Says that a file of a tenant is another one now.
    pub(super) fn tell(&self, tenant: &Arc<str>, uri: &str) {
        // Fails if nobody listens.
        let _ = self.0.send(Changed { tenant: tenant.clone(), uri: uri.into() });
    }
}

impl Connection {
    /// What of it can be listened for. Whose files they are is looked at when there is something to tell.
    pub(super) fn accepted(&self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let mut accepted = match self.mcp.0.options.fixtures {
            true => fixtures::accepted(requested),
            false => SubscriptionFilter::new(),
        };
        let uris = requested.resource_subscriptions.iter().flatten();
        let files = uris.filter(|uri| resources::is_file(uri)).cloned();
        let all: Vec<String> =
            accepted.resource_subscriptions.take().into_iter().flatten().chain(files).collect();
        accepted.resource_subscriptions = (!all.is_empty()).then_some(all);
        accepted
    }

    /// Tells of changes until nobody listens any more.
    pub(super) async fn heard(&self, context: &SubscriptionContext) -> Result<(), ErrorData> {
        let caller = self.caller(context.request_context())?;
        caller.require(Scope::Files).map_err(|problem| call::wrong(&problem))?;
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let mut changes = self.mcp.0.listeners.0.subscribe();
        let files = async {
            loop {
                match changes.recv().await {
                    Ok(Changed { tenant, uri })
                        if tenant == caller.tenant && uris.iter().any(|one| **one == *uri) =>
                    {
                        if context.sink().notify_resource_updated(&*uri).await.is_err() {
                            return;
                        }
                    }
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        };
        tokio::select! {
            () = context.cancelled() => {}
            () = files => {}
            () = fixtures::listen(context), if self.mcp.0.options.fixtures => {}
        }
        Ok(())
    }
}
