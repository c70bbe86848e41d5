//! Settings of the server: one file, variables, the command line, and a default for everything.
//!
//! Every setting is one entry of the [`catalogue`]; how it is parsed, what variable it is, what the generated file and
//! the reference page say about it, and the field of [`Settings`] it becomes all come from there. Nothing here acts
//! on a setting.

mod catalogue;
mod check;
mod file;
mod founding;
mod generate;
mod key;
mod kind;
mod load;
mod nearest;
mod problem;
mod value;

pub use catalogue::{
    Audit, Documents, Events, Executions, Isolation, Limits, Log, Mcp, Metrics, Pool, Retention, Server,
    Sessions, Settings, State, Storage, Tenants, Tracing, Webhooks, catalogue, find, sections,
};
pub use founding::{Alias, Unit};
pub use generate::{Format, generate, reference};
pub use key::{Key, Usual};
pub use kind::Kind;
pub use load::{Loaded, Origin, Setting, Sources, load};
pub use problem::{Problem, Problems};
pub use value::{Level, LogFormat, Secret, Value};

#[cfg(test)]
mod tests;
