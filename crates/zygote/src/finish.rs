//! Ends a program as the interpreter does, without taking down what was there before it.
//!
//! Threads are waited for, exit functions are called, streams are flushed. What comes then in the interpreter is to
//! destroy every object, which touches, and so copies, every page a child shares with the zygote, and which nobody
//! notices unless something happens when an object goes. So it is left out if nothing can happen, and is left to
//! the interpreter if something can.

use crate::program::Ending;
use crate::python::{Identity, Object, Python, Raised};
use std::collections::HashSet;
use std::ffi::{CStr, c_int};

/// The exit code of a program whose output could not be flushed.
const FLUSH_FAILED: i32 = 120;

/// The streams every program begins with.
pub(crate) struct Streams([(&'static CStr, Option<Identity>); 2]);

impl Streams {
    pub(crate) fn now(python: Python) -> Streams {
        Streams([c"stdout", c"stderr"].map(|name| (name, python.sys(name).map(|stream| stream.identity()))))
    }
}

pub(crate) fn finish(python: Python, streams: &Streams, ending: Ending) -> ! {
    wait_for_threads(python);
    if python.make_pending_calls().is_err() {
        python.clear_error();
    }
    call_exit_functions(python);
    let unnoticed = !python.has_company() && has_usual_streams(python, streams) && nothing_is_left(python);
    let ended = if unnoticed { flush(python, streams) } else { take_everything_down(python) };
    match (ending, ended) {
        (Ending::Interrupted, _) => die_by_interrupt(),
        (Ending::Exit(code), Ok(())) => exit(code),
        (Ending::Exit(_), Err(Raised)) => exit(FLUSH_FAILED),
    }
}

fn wait_for_threads(python: Python) {
    let Some(threading) = python.modules().get(c"threading") else { return };
    if threading.call_method(c"_shutdown", &[]).is_err() {
        python.print_ignored_error(Some(&threading));
    }
}

/// Those of `atexit`. Newer interpreters report what they raise, older ones raise the last of it.
fn call_exit_functions(python: Python) {
    if python.import(c"atexit").and_then(|atexit| atexit.call_method(c"_run_exitfuncs", &[])).is_err() {
        python.clear_error();
    }
}

fn has_usual_streams(python: Python, streams: &Streams) -> bool {
    let usual = streams.0.iter().all(|(name, identity)| {
        let stream = python.sys(name);
        // One that was taken apart cannot even say whether it is closed.
        stream.as_ref().map(Object::identity) == *identity
            && stream.is_none_or(|stream| stream.is_none() || stream.attribute(c"closed").is_ok())
    });
    python.clear_error();
    usual
}

/// Whether no object that was made since the fork can make itself felt when it is destroyed.
fn nothing_is_left(python: Python) -> bool {
    let Ok(objects) = python.import(c"gc").and_then(|gc| gc.call_method(c"get_objects", &[])) else {
        python.clear_error();
        return false;
    };
    let mut harmless = HashSet::new();
    let nothing = objects.items().all(|object| {
        let Ok(class) = object.class() else { return false };
        if !harmless.contains(&class.identity()) {
            if class.has_finalizer() {
                return false;
            }
            harmless.insert(class.identity());
        }
        // Objects of a class that garbage collection does not care for are not among those asked.
        let unseen = object.is_class() && !object.is_collected_class() && object.has_finalizer();
        !unseen && !object.is_observing_reference()
    });
    python.clear_error();
    nothing
}

/// Both streams, unless they are closed. An error of standard output is reported.
fn flush(python: Python, streams: &Streams) -> Result<(), Raised> {
    let mut flushed = Ok(());
    for (name, _) in streams.0 {
        let Some(stream) = python.sys(name).filter(|stream| !stream.is_none()) else { continue };
        if stream.attribute(c"closed").is_ok_and(|closed| closed.is_true()) {
            continue;
        }
        if stream.call_method(c"flush", &[]).is_err() {
            flushed = Err(Raised);
            if name == c"stdout" { python.print_ignored_error(Some(&stream)) } else { python.clear_error() }
        }
    }
    flushed
}

/// The interpreter's own end. What was set aside from garbage collection takes part again.
fn take_everything_down(python: Python) -> Result<(), Raised> {
    if python.import(c"gc").and_then(|gc| gc.call_method(c"unfreeze", &[])).is_err() {
        python.clear_error();
    }
    python.finalize()
}

fn die_by_interrupt() -> ! {
    // SAFETY: the default action needs no handler; the signal is for this process itself.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        libc::kill(libc::getpid(), libc::SIGINT);
    }
    exit(libc::SIGINT + 128)
}

/// With everything C libraries have put off until then.
fn exit(code: c_int) -> ! {
    // SAFETY: this is the first thread; others, if there are any, are those the interpreter leaves behind too.
    unsafe { libc::exit(code) }
}
