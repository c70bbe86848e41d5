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
mod files;
mod ground;
mod job;
mod launcher;
mod meters;
mod pipes;
mod spawner;
mod value;
mod waiting;
mod watch;

use control::Control;
use jail::enter::{Blank, Landed, Workshop};
use jail::job::Life;
use jail::mutant::{Mutant, lacks};
use jail::spec::Network;
use jail::{JailError, SingleThreaded};
use rustix::fd::OwnedFd;

/// Makes sandboxes by order of the engine at the other end of `socket`, until it hangs up. Where this process is an
/// interpreter, `life` is what a copy of it does in a sandbox: wait for a program, and run it. A copy of any other
/// waits for a program, and becomes it.
pub fn spawner(socket: OwnedFd, life: Option<fn() -> !>) -> Result<(), String> {
    let proof = SingleThreaded::prove().ok_or("the spawner must have one thread")?;
    let _ = ground::LIFE.set(life.map_or(Life::Launcher(launcher::live), Life::Interpreter));
    spawner::run(proof, &socket)
}

/// Begins a first sandbox in this process, which must have one thread and should have done nothing yet: what it
/// holds in memory, PID 1 of the sandbox will hold, without the environment.
pub fn begin_first(proof: SingleThreaded) -> Result<Blank, JailError> {
    let _ = ground::LIFE.set(Life::Launcher(launcher::live));
    Workshop::open(proof, None, init).with_secrets().begin(Network::None)
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
    let Landed { proof, spec, lines, meters, rate_door } = landed;
    let served = Control::new(lines.control).and_then(|mut control| {
        match ground::Walled::new(proof, spec, meters, rate_door, lines.program) {
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
