//! The engine of sandboxd: sandboxes, isolators, languages and limits.
//!
//! [`Engine`] is the one door. Whoever stands outside, a command line or a server, turns what people ask for
//! into a [`Request`], and the [`Execution`] that comes back into what people see. The engine itself never
//! runs user code: an executor does, inside a place an [`isolator`] made.

mod afterwards;
mod aside;
mod cache;
mod call;
mod cancel;
pub mod control;
mod conversation;
mod engine;
mod error;
mod execution;
mod input;
pub mod isolator;
pub mod limits;
mod output;
mod pool;
mod rootfs;
pub mod runtime;
pub mod storage;
mod warm;

pub use afterwards::{After, afterwards, answering};
pub use call::Mode;
pub use cancel::Cancel;
pub use engine::{CONCURRENT, Engine, Event, Request, Sandbox, SandboxSpec, SourceFile};
pub use error::EngineError;
pub use execution::{ArtifactRecord, Execution, Failure, Metrics, Receipt, Start, Status};
pub use input::{Feed, Input};
pub use jail::probe::Verdict;
pub use jail::seccomp::Profile;
pub use jail::spec::{BoxUsage, Layer, Network};
pub use output::{Exact, Text};
pub use pool::{MOST_REHEARSAL, PoolSettings, ShelfReport, TemplatePool, Warmth, ZygoteScope};
pub use protocol::{FileEntry, FileKind, FileOp, FileOutcome, LONGEST_PIECE, MOST_ENTRIES};
