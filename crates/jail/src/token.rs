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

    /// The token for PID 1 of a box, which started as one thread and never makes another.
    ///
    /// Its `/proc` hides PID 1 from everyone, so it cannot be asked there.
    pub fn of_init() -> Option<SingleThreaded> {
        (rustix::process::getpid() == rustix::process::Pid::INIT).then_some(SingleThreaded(PhantomData))
    }
}
