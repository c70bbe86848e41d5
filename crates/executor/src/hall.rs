//! PID 1 of a sandbox with seats: sees to files, and that the sandbox is over when one of its seats is.
//!
//! It runs nothing itself. Each seat has a PID 1 of its own, which does, on a stream of its own.

use crate::control::Control;
use crate::files::Files;
use crate::ground::Ground;
use crate::job::greet;
use jail::beneath::Tree;
use jail::sys;
use protocol::{FromHost, Kind};
use rustix::process::{WaitOptions, wait};

/// Serves the engine until it hangs up, or a seat is over.
pub(crate) fn serve(mut control: Control, ground: &impl Ground) -> Result<(), String> {
    let signals = sys::child_signals().map_err(|e| e.to_string())?;
    let workspace = Tree::open(ground.workspace()).map_err(|e| format!("workspace: {e}"))?;
    control.show(Files::of(workspace));
    while !control.hung_up() {
        // Files are seen to on the way here.
        while let Some(frame) = control.next() {
            if frame.kind == Kind::Control
                && let Some(FromHost::Hello { generation }) = control.message(&frame)
            {
                greet(&mut control, ground, generation);
            }
        }
        // We have no other children: who loses its parent becomes a child of PID 1 of its seat.
        if !control.hung_up() && control.wait(&signals, true) {
            let _ = rustix::io::read(&signals, &mut [0; 1024]);
            if wait(WaitOptions::NOHANG).is_ok_and(|ended| ended.is_some()) {
                return Err("a seat is over".into());
            }
        }
    }
    Ok(())
}
