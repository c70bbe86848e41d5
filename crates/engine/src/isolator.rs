//! Isolators: each makes a walled place with our executor in it and hands out the stream to it.
//!
//! An isolator knows no language, no session and no door. What it made says by its receipt how strong the
//! walls are; one that cannot make them as strong as they should be refuses.

pub mod native;
pub mod process;

use crate::execution::Receipt;
use crate::limits::Limits;
use crate::runtime::plan::Places;
use crate::{EngineError, Layer, Network, Profile};
use async_trait::async_trait;
use jail::spec::{BoxUsage, HostDir};
use tokio::net::UnixStream;

/// What a place shall be like.
#[derive(Clone, Debug)]
pub struct PlaceSpec {
    /// Its name, unique on this host.
    pub id: String,
    /// Its bounds.
    pub limits: Limits,
    /// What it may reach.
    pub network: Network,
    /// System call profile of user code.
    pub profile: Profile,
    /// Directories of the host it sees beside the ones every place sees.
    pub host_dirs: Vec<HostDir>,
    /// Layers whose absence the operator accepts.
    pub allow_weaker: Vec<Layer>,
}

/// A place that stands.
#[derive(Debug)]
pub struct Place {
    /// The stream to its executor.
    pub stream: UnixStream,
    /// What protects the host from it.
    pub receipt: Receipt,
    /// Where things are in it.
    pub places: Places,
}

/// Makes and ends places.
#[async_trait]
pub trait Isolator: Send + Sync {
    /// Its name.
    fn kind(&self) -> &'static str;
    /// Whether it can work on this host, or why not.
    async fn probe(&self) -> Result<(), EngineError>;
    /// Makes a place.
    async fn create(&self, spec: &PlaceSpec) -> Result<Place, EngineError>;
    /// What a place has used so far.
    async fn usage(&self, id: &str) -> Result<BoxUsage, EngineError>;
    /// Ends a place and everything in it. Says what it had used.
    async fn destroy(&self, id: &str) -> Result<BoxUsage, EngineError>;
    /// Names of the places that stand.
    async fn list(&self) -> Vec<String>;
}
