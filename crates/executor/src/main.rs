//! The small program at both ends of a sandbox.
//!
//! * `sandbox-init` is PID 1 inside every native sandbox: it runs jobs and reaps.
//! * `sandbox-executor spawner` lives on the host: one thread that makes sandboxes by order of the engine.
//! * `sandbox-executor plain` runs jobs with no isolation at all.
//!
//! One thread, one poll loop, no async runtime, no name service. The role is the program's name or its first
//! argument; each role finds its control stream at descriptor 0.

mod artifacts;
mod control;
mod ground;
mod job;
mod meters;
mod pipes;
mod spawner;
mod watch;

use jail::sys;
use std::process::ExitCode;

/// Descriptor of the control stream in every role.
const CONTROL: i32 = 0;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["sandbox-init", spec] => init(spec),
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

fn init(spec: &str) -> Result<(), String> {
    let spec = serde_json::from_str(spec).map_err(|e| format!("bad specification: {e}"))?;
    let stream = sys::inherited(CONTROL).ok_or("no control stream")?;
    let mut control = control::Control::new(stream)?;
    match ground::Walled::new(spec) {
        Ok(ground) => job::serve(control, &ground),
        Err(error) => {
            // Standard error leads nowhere in here; the engine must hear it.
            control.broken(&error);
            Err(error)
        }
    }
}

fn plain(spec: &str) -> Result<(), String> {
    let spec = serde_json::from_str(spec).map_err(|e| format!("bad specification: {e}"))?;
    let stream = sys::inherited(CONTROL).ok_or("no control stream")?;
    let control = control::Control::new(stream)?;
    job::serve(control, &ground::Plain::new(spec)?)
}
