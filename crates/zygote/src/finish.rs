//! Ends a program as the interpreter does, without taking down what was there before it.
//!
//! At its end the interpreter destroys every object. Here that would touch, and so copy, every page a child shares
//! with the zygote, and nobody notices unless something happens when an object goes. So there are three ways out:
//!
//! * If nothing of the program can make itself felt when it goes, nothing is destroyed.
//! * If something can, the program's own modules are taken down, in the order and by the rules of the interpreter.
//! * If something is then still there, because the preloaded world holds it, or if other threads might be using it,
//!   the interpreter takes everything down by itself.

use crate::program::Ending;
use crate::python::{Identity, Object, Python, Raised};
use std::collections::BTreeSet;
use std::ffi::{CStr, c_int};

/// The exit code of a program whose output could not be flushed.
const FLUSH_FAILED: i32 = 120;

/// What every program begins with.
pub(crate) struct Usual {
    gc: Object,
    modules: BTreeSet<Identity>,
    /// The global names of those modules.
    namespaces: BTreeSet<Identity>,
    streams: [(&'static CStr, Option<Identity>); 2],
    libraries: u64,
    /// Keeps alive what the program's end lets go of.
    _kept: Vec<Object>,
}

impl Usual {
    /// As it is now.
    pub(crate) fn now(python: Python) -> Result<Usual, Raised> {
        let modules = python.modules().values();
        let of_sys = [c"path", c"argv", c"path_hooks", c"path_importer_cache", c"meta_path"];
        let streams = [c"stdout", c"stderr"];
        Ok(Usual {
            gc: python.import(c"gc")?,
            modules: modules.iter().map(Object::identity).collect(),
            namespaces: modules
                .iter()
                .filter(|module| module.is_module())
                .map(|module| module.namespace().identity())
                .collect(),
            streams: streams.map(|name| (name, python.sys(name).map(|stream| stream.identity()))),
            libraries: libraries(),
            _kept: modules
                .into_iter()
                .chain(of_sys.into_iter().filter_map(|name| python.sys(name)))
                .collect(),
        })
    }

    /// Looks at everything [`finish`] looks at, so that it lies ready.
    pub(crate) fn rehearse(&self, python: Python) {
        let _ = (python.has_other_threads(), self.nothing_can_happen(python), flush(python), libraries());
    }

    /// Whether no object that was made since the fork can make itself felt when it is destroyed.
    fn nothing_can_happen(&self, python: Python) -> bool {
        let usual =
            self.streams.iter().all(|(name, identity)| python.sys(name).map(|s| s.identity()) == *identity);
        usual && self.nothing_is_left(python)
    }

    fn nothing_is_left(&self, python: Python) -> bool {
        let Ok(objects) = self.gc.call_method(c"get_objects", &[]) else {
            python.clear_error();
            return false;
        };
        let mut harmless = BTreeSet::new();
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
            !unseen && object.observer().is_none_or(|observer| self.only_keeps_books(&observer))
        });
        python.clear_error();
        nothing
    }

    /// Whether what observes an object is a function of a preloaded module, or of C code, which binds it to the
    /// reference. Both only strike the object off a list of their own.
    fn only_keeps_books(&self, observer: &Object) -> bool {
        observer.attribute(c"__globals__").is_ok_and(|names| self.namespaces.contains(&names.identity()))
            || observer.attribute(c"__self__").is_ok_and(|bound_to| bound_to.is_weak_reference())
    }

    /// What was set aside from garbage collection takes part again.
    pub(crate) fn let_garbage_be_collected(&self, python: Python) {
        if self.gc.call_method(c"unfreeze", &[]).is_err() {
            python.clear_error();
        }
    }
}

pub(crate) fn finish(python: Python, usual: Usual, ending: Ending) -> ! {
    let libraries_before = usual.libraries;
    let done = !python.has_other_interpreters() && end_what_began(python, &usual);
    let ended = if done { Ok(()) } else { take_everything_down(python, usual) };
    match (ending, ended) {
        (Ending::Interrupted, _) => die_by_interrupt(),
        (Ending::Exit(code), Ok(())) => exit(code, libraries_before),
        (Ending::Exit(_), Err(Raised)) => exit(FLUSH_FAILED, libraries_before),
    }
}

/// Whether that was enough. Output that could not be written is still there, so that the interpreter finds and
/// reports it.
pub(crate) fn end_what_began(python: Python, usual: &Usual) -> bool {
    wait_for_threads(python);
    call_exit_functions(python);
    if flush(python).is_err() {
        return false;
    }
    if usual.nothing_can_happen(python) {
        return true;
    }
    // Only the interpreter can stop other threads, and they may use what would be destroyed.
    if python.has_other_threads() {
        return false;
    }
    python.collect();
    if !usual.nothing_can_happen(python) {
        take_modules_down(python, usual);
    }
    flush(python).is_ok() && usual.nothing_is_left(python)
}

fn wait_for_threads(python: Python) {
    let Some(threading) = python.modules().get(c"threading") else { return };
    if threading.call_method(c"_shutdown", &[]).is_err() {
        python.print_ignored_error(&threading);
    }
}

/// Newer interpreters report what they raise, older ones raise the last of it.
fn call_exit_functions(python: Python) {
    let Some(atexit) = python.modules().get(c"atexit") else { return };
    if atexit.call_method(c"_run_exitfuncs", &[]).is_err() {
        python.clear_error();
    }
}

/// Both streams, unless there is none or it is closed.
fn flush(python: Python) -> Result<(), Raised> {
    let mut flushed = Ok(());
    for name in [c"stdout", c"stderr"] {
        let Some(stream) = python.sys(name).filter(|stream| !stream.is_none()) else { continue };
        let closed = stream.attribute(c"closed").is_ok_and(|closed| closed.is_true());
        python.clear_error();
        if !closed && stream.call_method(c"flush", &[]).is_err() {
            python.clear_error();
            flushed = Err(Raised);
        }
    }
    flushed
}

/// What the interpreter takes from `sys` before it takes down modules.
const NO_LONGER_IN_SYS: [&CStr; 12] = [
    c"path",
    c"argv",
    c"ps1",
    c"ps2",
    c"last_exc",
    c"last_type",
    c"last_value",
    c"last_traceback",
    c"path_hooks",
    c"path_importer_cache",
    c"meta_path",
    c"__interactivehook__",
];

/// Removes all modules, in the order and by the rules of the interpreter. Those that were preloaded survive.
fn take_modules_down(python: Python, usual: &Usual) {
    let none = python.none();
    for name in NO_LONGER_IN_SYS {
        let _ = python.set_sys(name, &none);
    }
    for (name, original) in [(c"stdin", c"__stdin__"), (c"stdout", c"__stdout__"), (c"stderr", c"__stderr__")]
    {
        let _ = python.set_sys(name, &python.sys(original).unwrap_or_else(|| python.none()));
    }
    let modules = python.modules();
    let mut of_program = Vec::new();
    for name in modules.keys(|_| true) {
        let Some(module) = modules.item(&name).filter(Object::is_module) else { continue };
        if !usual.modules.contains(&module.identity()) {
            of_program.extend(module.weakly());
        }
        let _ = modules.set_item(&name, &none);
    }
    modules.clear();
    python.clear_error();
    collect_in_any_case(python, usual);
    for module in of_program.iter().rev() {
        if let Some(module) = module.call(&[]).ok().filter(|module| !module.is_none()) {
            clear_names(&module.namespace(), &none);
        }
    }
    collect_in_any_case(python, usual);
    python.clear_error();
}

/// First the names with one underscore, then the others, but never the built-in functions.
fn clear_names(names: &Object, none: &Object) {
    let is_private = |name: &str| name.starts_with('_') && !name[1..].starts_with('_');
    for private in [true, false] {
        for key in names.keys(|value| value != none.identity()) {
            let Some(name) = key.to_string_lossy() else { continue };
            if if private { is_private(&name) } else { name != "__builtins__" } {
                let _ = names.set_item(&key, none);
            }
        }
    }
}

/// At the end the interpreter collects garbage even if the program has switched that off.
fn collect_in_any_case(python: Python, usual: &Usual) {
    if usual.gc.call_method(c"enable", &[]).is_err() {
        python.clear_error();
    }
    python.collect();
}

/// The interpreter's own end.
fn take_everything_down(python: Python, usual: Usual) -> Result<(), Raised> {
    usual.let_garbage_be_collected(python);
    drop(usual);
    python.finalize()
}

fn die_by_interrupt() -> ! {
    // SAFETY: the default action needs no handler; the signal is for this process itself.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        libc::kill(libc::getpid(), libc::SIGINT);
    }
    // SAFETY: takes any number and does not return.
    unsafe { libc::_exit(libc::SIGINT + 128) }
}

/// Shared libraries often have something to do at the end, which takes longer than most programs: freeing memory.
/// So they come to it only if there are some that the program has loaded.
pub(crate) fn exit(code: c_int, libraries_before: u64) -> ! {
    if libraries() != libraries_before {
        crate::kept::ordinary_exit(code)
    }
    // SAFETY: all streams of C are flushed, as `exit` would do, and then this process ends.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(code)
    }
}

/// How many shared libraries have been loaded since the start.
pub(crate) fn libraries() -> u64 {
    extern "C" fn first(library: *mut libc::dl_phdr_info, _: usize, count: *mut std::ffi::c_void) -> c_int {
        // SAFETY: libc describes a library, and gives back the pointer below.
        unsafe { *count.cast::<u64>() = (*library).dlpi_adds };
        1
    }
    let mut count = 0u64;
    // SAFETY: the function stores one number in the place it is given, and asks for no more.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}
