//! Becomes the program it is told: what waits in a sandbox for languages whose interpreters cannot.
//!
//! It has climbed as far as a program does before it is executed, so that nothing is left to do but that.

use jail::job::encode;
use jail::sys::{self, Image, Note};
use jail::{JailError, Step};
use protocol::Header;
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

/// What the engine takes for the word that it waits.
const READY: u8 = 6;

/// Where it says why nothing came of it.
static NOTE: OnceLock<Note> = OnceLock::new();

/// Leaves room for a note. For PID 1, before it is copied.
pub(crate) fn leave(note: Note) {
    let _ = NOTE.set(note);
}

/// Why the program was not executed, if it was not. For PID 1, when the copy has ended.
pub(crate) fn failure() -> Option<JailError> {
    NOTE.get().and_then(Note::read).map(|bytes| jail::job::decode(&bytes))
}

/// The life of a copy of PID 1.
pub(crate) fn live() -> ! {
    let failed = match wait_and_become() {
        Ok(()) => sys::exit_now(0),
        Err(failed) => failed,
    };
    if let Some(note) = NOTE.get() {
        note.write(&encode(&failed));
    }
    sys::exit_now(127)
}

/// Returns when nobody wants it, or with what went wrong.
fn wait_and_become() -> Result<(), JailError> {
    let lost = |errno| JailError::new(Step::Descriptors, "standard streams", errno);
    // They are the program's, and never closed by us.
    let stream = |number| sys::inherited(number).map(|fd| ManuallyDrop::new(File::from(fd)));
    let (Some(mut input), Some(mut output)) = (stream(0), stream(1)) else { return Err(lost(Errno::BADF)) };
    if output.write_all(&[READY]).is_err() {
        return Ok(());
    }
    let header = match Header::read(&mut *input) {
        Ok(Some(header)) => header,
        Ok(None) => return Ok(()),
        Err(_) => return Err(lost(Errno::INVAL)),
    };
    let [directory, program, argv @ ..] = header.arguments.as_slice() else { return Err(lost(Errno::INVAL)) };
    rustix::process::chdir(directory.as_c_str())
        .map_err(|errno| JailError::new(Step::WorkingDirectory, shown(directory), errno))?;
    let errno = Image::new(program, argv, &header.variables).execute();
    Err(JailError::new(Step::Exec, shown(program), errno))
}

fn shown(path: &CStr) -> String {
    path.to_string_lossy().into_owned()
}
