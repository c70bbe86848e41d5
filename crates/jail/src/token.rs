//! Proof that this process has one thread, so that fork is safe in it.
//!
//! After fork a child has only the forking thread: locks held by others stay locked for ever. A server
//! with a thread pool can never get this token, so it cannot call what needs it.

use std::marker::PhantomData;

/// Shown to every function that forks.
#[derive(Debug)]
pub struct SingleThreaded(PhantomData<*const ()>);

impl SingleThreaded {
    /// The token, if this process really has exactly one thread.
    pub fn prove() -> Option<SingleThreaded> {
        let threads = std::fs::read_dir("/proc/self/task").ok()?.count();
        (threads == 1).then_some(SingleThreaded(PhantomData))
    }

    /// The token of a process that was just forked: it has one thread, whatever its parent had.
    pub(crate) fn of_fork() -> SingleThreaded {
        SingleThreaded(PhantomData)
    }
}
