//! The words the engine and the executor exchange.
//!
//! One connection carries one sandbox: `Hello` both ways, then jobs. A [`Job`] is the whole of what shall
//! happen, in one message: files in, steps, limits, what to bring back. The answer is a stream of output
//! frames and [`FromExecutor`] messages ending in `Finished`.
//!
//! Rules that let old and new meet: one [`GENERATION`], agreed at Hello as the lower of the two; new fields
//! are optional; the old side never has to understand anything new. A snapshot test freezes the wire.

pub mod frame;
mod header;
pub mod message;
pub mod spawner;

pub use frame::{Frame, FrameError, Kind, LONGEST_BODY, Reader};
pub use header::{Header, Rehearsal, header};
pub use message::{
    ASIDE, Artifact, BUILD_STREAM, Collect, Ending, Errand, FileEntry, FileIn, FileKind, FileOp, FileOutcome,
    FromExecutor, FromHost, Job, JobResult, LONGEST_PIECE, MOST_ENTRIES, PARKED_FDS, Parked, Place, Present,
    Returned, RunLimits, Step, StepKind, Usage, VALUE, VALUE_STREAM, Written,
};

/// Version of the words. Raised when a message is added; never when a field is.
pub const GENERATION: u32 = 6;
