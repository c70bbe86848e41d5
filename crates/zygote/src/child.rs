//! From a fork of the zygote to a program's exit code.

use crate::finish;
use crate::program::{self, Expected};
use crate::python::{Object, Python, Raised};
use crate::start::{self, LOCALE, World};
use protocol::{Header, Rehearsal};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;

/// Tells the engine that everything that could be done ahead is done.
const READY: u8 = 0x06;

pub(crate) fn live(mut world: World) -> ! {
    world.loaded.signals.restore();
    // SAFETY: the kernel reads up to 16 bytes, which end in a NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, world.label.as_ptr()) };
    let python = world.python;
    python.after_fork();
    let (Some(mut input), Some(mut output)) = (stream(0), stream(1)) else { fail("no standard streams") };
    let rehearsal = match Rehearsal::read(&mut *input) {
        Ok(Some(rehearsal)) => rehearsal,
        Ok(None) => leave(0),
        Err(problem) => fail(&problem),
    };
    rehearse(&mut world, &rehearsal.program);
    let (main, expected) = match get_ready(&world, rehearsal.hurry) {
        Ok(ready) => ready,
        Err(Raised) => fail(&python.describe_error()),
    };
    if let Some(randomness) = world.loaded.sqlite {
        // SAFETY: SQLite allows this call: asked for nothing into nowhere, it makes a new state at the next use.
        unsafe { randomness(0, std::ptr::null_mut()) };
    }

    if output.write_all(&[READY]).is_err() {
        leave(0);
    }
    let header = match Header::read(&mut *input) {
        Ok(Some(header)) => header,
        Ok(None) => leave(0),
        Err(problem) => fail(&problem),
    };
    if learn(&world, &header).is_err() {
        fail(&python.describe_error());
    }
    let path = &header.arguments[0];
    let usual = world.loaded.usual;
    let ending = program::run(python, &usual, main, expected, &world.program_name, path);
    finish::finish(python, usual, ending)
}

/// Goes all the way with a short program, in a fork of its own that then ends: which pages are its own by then and were not
/// when it would have waited, as `own_pages` tells.
pub(crate) fn go_all_the_way(world: &World, own_pages: fn() -> Option<Vec<usize>>) -> Option<Vec<usize>> {
    let (python, usual) = (world.python, &world.loaded.usual);
    world.loaded.signals.restore();
    python.after_fork();
    let (main, expected) = get_ready(world, false).ok()?;
    let before = own_pages()?;
    program::run_short(python, usual, main, expected).ok()?;
    finish::end_what_began(python, usual);
    let mut pages = own_pages()?;
    pages.retain(|page| before.binary_search(page).is_err());
    Some(pages)
}

/// Does what somebody wants done in each child, which is as isolated already as the program will be. It only makes the
/// program faster: what goes wrong with it, the program does not see.
fn rehearse(world: &mut World, program: &str) {
    if program.is_empty() {
        return;
    }
    let _ = start::warm_up(world.python, program);
    if world.loaded.renew(world.python).is_err() {
        fail(&world.python.describe_error());
    }
}

/// Everything that can be done before the program is known.
fn get_ready(world: &World, hurry: bool) -> Result<(Object, Expected), Raised> {
    let python = world.python;
    if !hurry {
        program::rehearse(python, &world.loaded.usual)?;
        world.pages.make_own();
    }
    world.loaded.refresh.call(&[])?;
    let main = fresh_main(python)?;
    let expected = Expected::new(python, &main, &world.arguments[0])?;
    Ok((main, expected))
}

/// Takes in what the request says, where Python does not know it already.
fn learn(world: &World, header: &Header) -> Result<(), Raised> {
    if !header.variables.is_empty() {
        set_variables(header, world.locale.as_deref());
    }
    if !header.variables.is_empty() || header.arguments != world.arguments {
        adopt(world.python, &world.loaded.adopt, header)?;
    }
    if world.loaded.has_clock {
        world.loaded.begin.call(&[])?;
    }
    Ok(())
}

/// A `__main__` like the one Python made at its start. That one lies among what garbage collection leaves alone,
/// so nothing a program keeps in it would ever be collected.
fn fresh_main(python: Python) -> Result<Object, Raised> {
    let modules = python.modules();
    let main = python.module(c"__main__")?;
    let names = main.namespace();
    names.update(&modules.get(c"__main__").ok_or(Raised)?.namespace())?;
    if let Some(annotations) = names.get(c"__annotations__") {
        names.set(c"__annotations__", &annotations.copy()?)?;
    }
    modules.set(c"__main__", &main)?;
    Ok(main)
}

/// Tells Python what the request says: arguments, and the environment as C has it by now.
fn adopt(python: Python, adopt: &Object, header: &Header) -> Result<(), Raised> {
    let arguments = python.list()?;
    for argument in &header.arguments {
        arguments.append(&python.text(argument.to_bytes())?)?;
    }
    let variables = python.dict()?;
    for entry in environment() {
        let Some(equals) = entry.iter().position(|&byte| byte == b'=') else { continue };
        variables.set_item(&python.bytes(&entry[..equals])?, &python.bytes(&entry[equals + 1..])?)?;
    }
    adopt.call(&[&arguments, &variables]).map(drop)
}

fn set_variables(header: &Header, locale: Option<&CStr>) {
    let set = |name: &CStr, value: &CStr| {
        // SAFETY: two C strings, which libc copies; there is one thread.
        unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
    };
    // What Python has added stands behind what it was given.
    if locale.is_some() {
        // SAFETY: a C string; there is one thread.
        unsafe { libc::unsetenv(LOCALE.as_ptr()) };
    }
    for variable in &header.variables {
        let bytes = variable.to_bytes();
        let end = bytes.iter().position(|&byte| byte == b'=').unwrap_or(bytes.len());
        if let (Ok(name), Some(value)) = (CString::new(&bytes[..end]), bytes.get(end + 1..)) {
            set(&name, &CString::new(value).unwrap_or_default());
        }
    }
    if let Some(value) = locale {
        set(LOCALE, value);
    }
}

/// `NAME=value` of everything in the environment.
fn environment() -> Vec<&'static [u8]> {
    unsafe extern "C" {
        static environ: *const *const std::ffi::c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: libc's list of C strings, ended by a null pointer, or no list at all. Nobody changes it until these
    // have been copied.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            entries.push(CStr::from_ptr(*at).to_bytes());
            at = at.add(1);
        }
    }
    entries
}

/// It is the program's, and never closed by us.
fn stream(number: i32) -> Option<ManuallyDrop<File>> {
    jail::sys::inherited(number).map(|fd| ManuallyDrop::new(File::from(fd)))
}

/// No program has run, so nobody has anything to flush.
fn leave(code: i32) -> ! {
    jail::sys::exit_now(code)
}

fn fail(problem: &str) -> ! {
    eprintln!("sandbox-zygote: {problem}");
    leave(1)
}
