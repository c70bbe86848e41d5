//! The small program at both ends of a sandbox.
//!
//! * `sandbox-executor spawner` lives on the host: one thread that makes sandboxes by order of the engine.
//!   Each sandbox begins as a fork of it, which becomes PID 1 inside: it runs jobs and reaps.
//! * `sandbox-executor plain` runs jobs with no isolation at all.
//!
//! One thread, one poll loop, no async runtime, no name service. Both find their control stream at
//! descriptor 0.

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
use jail::sys;
use std::process::ExitCode;

/// Descriptor of the control stream in every role.
const CONTROL: i32 = 0;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [_, "spawner"] => spawner::run(),
        [_, "plain", spec] => plain(spec),
        [_, "--version" | "-V"] => {
            println!("sandbox-executor {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        _ => Err("this program is started by `sandboxd`; run `sandboxd --help`".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("sandbox-executor: {reason}");
            ExitCode::from(125)
        }
    }
}

/// The life of PID 1 of a box. Returns its exit code.
fn init(landed: Landed) -> i32 {
    // Only a label for people who look at the host's processes.
    let _ = rustix::thread::set_name(c"sandbox-init");
    let served = Control::new(landed.control).and_then(|mut control| {
        match ground::Walled::new(landed.spec, landed.meters) {
            Ok(ground) => job::serve(control, &ground),
            Err(error) => {
                control.broken(&error);
                Err(error)
            }
        }
    });
    i32::from(served.is_err())
}

fn plain(spec: &str) -> Result<(), String> {
    let spec = serde_json::from_str(spec).map_err(|e| format!("bad specification: {e}"))?;
    let stream = sys::inherited(CONTROL).ok_or("no control stream")?;
    let control = Control::new(stream)?;
    job::serve(control, &ground::Plain::new(spec)?)
}
