//! The small program at both ends of a sandbox, in three roles.
//!
//! * The spawner lives on the host: one thread that makes sandboxes by order of the engine. Each sandbox begins
//!   as a fork of it.
//! * That fork becomes PID 1 inside: it runs jobs and reaps. Where several shall run at once, forks of it do, each PID 1
//!   of a seat.
//! * The plain executor runs jobs with no isolation at all.
//!
//! One thread, one poll loop, no async runtime, no name service.

mod artifacts;
mod control;
mod crowd;
mod files;
mod ground;
mod hall;
mod job;
mod launcher;
mod meters;
mod pipes;
mod spawner;
mod survey;
mod value;
mod waiting;
mod watch;

use control::Control;
use jail::enter::{Blank, Landed, Post, Workshop};
use jail::job::Life;
use jail::mutant::{Mutant, lacks};
use jail::spec::Network;
use jail::{JailError, SingleThreaded};
use meters::Meters;
use rustix::fd::OwnedFd;

/// Has a panic end this process, at once and whichever thread it is in. What forks says this first: a copy that went on
/// up its stack would come to where the other one is. The first line of each of our programs.
pub fn end_on_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        std::process::abort();
    }));
}

/// What copies of an interpreter do.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter {
    /// In a sandbox: wait for a program, and run it.
    pub live: fn() -> !,
    /// On the host, where descriptor 0 is the socket to the engine and there is no other but the standard streams: load
    /// what this says, and make sandboxes.
    pub branch: fn(&str) -> !,
}

/// Makes sandboxes by order of the engine at the other end of `socket`, until it hangs up. Where this process is no
/// interpreter, a copy of it in a sandbox waits for a program, and becomes it. One sandbox is begun `ahead` when there is
/// nothing else to do.
pub fn spawner(socket: OwnedFd, interpreter: Option<Interpreter>, ahead: bool) -> Result<(), String> {
    let proof = SingleThreaded::prove().ok_or("the spawner must have one thread")?;
    let life = interpreter.map_or(Life::Launcher(launcher::live), |copy| Life::Interpreter(copy.live));
    let _ = ground::LIFE.set(life);
    spawner::run(proof, &socket, interpreter.map(|copy| copy.branch), ahead)
}

/// Begins a first sandbox in this process, which must have one thread and should have done nothing yet: what it
/// holds in memory, PID 1 of the sandbox will hold, without the environment.
pub fn begin_first(proof: SingleThreaded) -> Result<Blank, JailError> {
    let _ = ground::LIFE.set(Life::Launcher(launcher::live));
    Workshop::open(proof, None, init).with_secrets().in_a_hurry().begin(Network::None)
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

/// The life of PID 1 of a box, or of a seat in it. Returns its exit code.
fn init(landed: Landed) -> i32 {
    let Landed { proof, spec, lines, meters, rate_door, post } = landed;
    // Only a label for people who look at the host's processes.
    let label = if matches!(post, Post::Seat(_)) { c"sandbox-seat" } else { c"sandbox-init" };
    let _ = rustix::thread::set_name(label);
    let is_hall = matches!(post, Post::Hall);
    let meters = match post {
        Post::Seat(tally) => Meters::of_seat(spec.cgroup, meters, tally),
        Post::Alone | Post::Hall => Meters::of_box(spec.cgroup, meters),
    };
    let served = Control::new(lines.control).and_then(|mut control| {
        match ground::Walled::new(proof, spec, meters, rate_door, lines.program) {
            Ok(ground) if is_hall => hall::serve(control, &ground),
            Ok(ground) => job::serve(control, &ground),
            Err(error) => {
                control.broken(&error);
                Err(error)
            }
        }
    });
    while lacks(Mutant::KillTree) {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    i32::from(served.is_err())
}
