//! The small program at both ends of a sandbox, in three roles.
//!
//! * The spawner lives on the host: one thread that makes sandboxes by order of the engine. Each sandbox begins
//!   as a fork of it.
//! * That fork becomes PID 1 inside: it runs jobs and reaps.
//! * The plain executor runs jobs with no isolation at all.
//!
//! One thread, one poll loop, no async runtime, no name service.

mod artifacts;
mod control;
mod ground;
mod job;
mod meters;
mod pipes;
mod spawner;
mod watch;

use control::Control;
use jail::enter::Landed;
use jail::{SingleThreaded, fds, sys};
use rustix::fd::OwnedFd;
use spawner::Habit;

/// Makes sandboxes by order of the engine at the other end of `socket`, until it hangs up.
pub fn spawner(socket: OwnedFd) -> Result<(), String> {
    let proof = SingleThreaded::prove().ok_or("the spawner must have one thread")?;
    spawner::run(proof, &socket, Habit::OneMore)
}

/// Forks a spawner off this process, which must have one thread and should have done nothing yet: what it
/// holds in memory, PID 1 of every sandbox will hold. The environment is wiped. A first sandbox is begun at once,
/// because somebody who is in such a hurry will want one. Does not return in the spawner.
pub fn fork_spawner(proof: &SingleThreaded, socket: OwnedFd) -> std::io::Result<()> {
    match sys::fork_into(proof, 0, None)? {
        sys::Forked::Parent(..) => Ok(()),
        sys::Forked::Child(proof) => {
            sys::forget_environment(&proof);
            let served = apart(socket).and_then(|socket| spawner::run(proof, &socket, Habit::OneAtOnce));
            sys::exit_now(i32::from(served.is_err()))
        }
    }
}

/// Leaves the descriptors of the parent behind. Standard error too: whoever reads our caller's would wait for
/// the spawner, which goes on cleaning up when everything else is done.
fn apart(socket: OwnedFd) -> Result<OwnedFd, String> {
    use rustix::fs::{Mode, OFlags};
    let null = || rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let standard =
        [null(), null(), null()].into_iter().collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    let kept = fds::exactly(standard, vec![socket]).map_err(|e| e.to_string())?;
    kept.into_iter().next().ok_or_else(|| "the control socket got lost".into())
}

/// Runs jobs with no isolation at all, as this JSON says.
pub fn plain(spec: &str, control: OwnedFd) -> Result<(), String> {
    let spec = serde_json::from_str(spec).map_err(|e| format!("bad specification: {e}"))?;
    let ground = ground::Plain::new(spec)?;
    let served = job::serve(Control::new(control)?, &ground);
    // The engine may not live to do it.
    ground.remove();
    served
}

/// The life of PID 1 of a box. Returns its exit code.
fn init(landed: Landed) -> i32 {
    // Only a label for people who look at the host's processes.
    let _ = rustix::thread::set_name(c"sandbox-init");
    let served = Control::new(landed.control).and_then(|mut control| {
        match ground::Walled::new(landed.proof, landed.spec, landed.meters) {
            Ok(ground) => job::serve(control, &ground),
            Err(error) => {
                control.broken(&error);
                Err(error)
            }
        }
    });
    i32::from(served.is_err())
}
