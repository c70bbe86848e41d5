//! Linux isolation for sandboxd: one file per kernel mechanism, and two ladders that call them.
//!
//! * [`enter`] makes a box: namespaces, ids, cgroup, mounts, and the executor as its PID 1.
//! * [`job`] starts one program of the user inside a box that already exists.
//!
//! This is the only crate that may contain unsafe code. It knows no language, no protocol, no async and
//! no policy: what to mount, to mask or to allow arrives as data in a [`spec::JailSpec`].

pub mod beneath;
pub mod caps;
pub mod cgroup;
pub mod enter;
mod error;
pub mod fds;
pub mod identity;
pub mod job;
pub mod keyring;
pub mod landlock;
pub mod large;
pub mod mounts;
pub mod mutant;
pub mod net_ns;
pub mod probe;
pub mod rlimits;
pub mod seccomp;
pub mod spec;
pub mod sys;
mod token;

pub use error::{JailError, Step};
pub use token::SingleThreaded;
