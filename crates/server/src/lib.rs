//! The doors of sandboxd: REST, and the pages people look at.
//!
//! [`Server`] listens and serves until it is told to stop. What is here translates requests into calls of the engine
//! and of storage, and results into answers; it holds no logic of its own. A request passes the layers
//! (`layers.rs`) and then one of the doors (`doors.rs`). Whatever goes wrong is a [`Problem`], which is written down in
//! one place, in the words of the API that was asked.

pub mod audit;
mod body;
mod caller;
mod clock;
mod documents;
mod doors;
mod events;
mod id;
mod keys;
mod layers;
mod listen;
mod lock;
pub mod logs;
pub mod mcp;
mod metrics;
mod options;
mod outgoing;
pub mod panics;
mod params;
mod problem;
mod server;
pub mod settings;
mod state;
pub mod traces;
mod webhooks;

pub use body::Body;
pub use caller::{Caller, KeyLimits, Scope};
pub use doors::openapi;
pub use id::Id;
pub use listen::Address;
pub use lock::StateDir;
pub use options::{DocumentOptions, Options, Secret};
pub use params::Params;
pub use problem::Problem;
pub use server::{Server, ServerError};
pub use state::State;
