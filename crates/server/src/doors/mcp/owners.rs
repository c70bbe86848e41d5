//! Whose sessions of the protocol these are. Revisions before 2026-07-28 have some, named by a header; a name is no proof.

use crate::Caller;
use axum::http::HeaderValue;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The header that names one.
pub(super) const HEADER: &str = "mcp-session-id";
/// From how many on those that are over are looked for.
const MANY: usize = 1000;

/// Tenant and key of each, by its name.
type All = HashMap<String, (Arc<str>, Arc<str>)>;

/// Whose they are.
#[derive(Clone)]
pub(super) struct Owners {
    sessions: Arc<LocalSessionManager>,
    all: Arc<Mutex<All>>,
}

impl Owners {
    pub(super) fn new(sessions: Arc<LocalSessionManager>) -> Owners {
        Owners { sessions, all: Arc::default() }
    }

    pub(super) fn is_of(&self, id: &HeaderValue, caller: &Caller) -> bool {
        let all = self.all();
        let owner = id.to_str().ok().and_then(|id| all.get(id));
        owner.is_some_and(|(tenant, key)| *tenant == caller.tenant && *key == caller.key_id)
    }

    pub(super) async fn add(&self, id: &HeaderValue, caller: &Caller) {
        let Ok(id) = id.to_str() else { return };
        let count = {
            let mut all = self.all();
            all.insert(id.to_owned(), (caller.tenant.clone(), caller.key_id.clone()));
            all.len()
        };
        if count > MANY {
            self.tidy().await;
        }
    }

    pub(super) fn forget(&self, id: &HeaderValue) {
        if let Ok(id) = id.to_str() {
            self.all().remove(id);
        }
    }

    /// Forgets those that are over.
    async fn tidy(&self) {
        let ids: Vec<String> = self.all().keys().cloned().collect();
        for id in ids {
            if !self.sessions.has_session(&id.as_str().into()).await.unwrap_or(true) {
                self.all().remove(&id);
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
