//! A Python that has started already.
//!
//! The library is loaded into the host's own `python3` (`LD_PRELOAD`), started as `python3 [OPTIONS] main.py`, and
//! takes the place of its `main`. That process, the zygote, starts the interpreter as `main` would have done,
//! imports modules, and then serves: whoever serves forks, and a fork that calls `child` becomes a Python that
//! has just started, waits to be told its program, runs it and ends, as the bare tool would have. A fork that calls
//! `branch` imports more, and is a zygote itself from then on.
//!
//! An interpreter that waits by itself and wants a keeper (`SANDBOXD_KEEPER`) has it loaded, too: see [`kept`].
//!
//! Nothing here isolates anything. That is done between the fork and `child`, by whoever serves.

mod child;
mod finish;
mod kept;
mod memory;
#[cfg(not(test))]
mod node;
mod pages;
mod program;
mod python;
mod settings;
mod signals;
mod start;
#[cfg(feature = "try")]
mod trial;
mod veil;

use executor::Interpreter;
use settings::Settings;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};

/// The `main` of a C program.
type Main = extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
/// What calls it.
type StartMain = unsafe extern "C" fn(
    Main,
    c_int,
    *mut *mut c_char,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;

/// Not Python's: what is allocated here would lie among its objects, on as many pages as there are gaps, and each page
/// that the zygote or PID 1 writes to is copied with every fork.
#[global_allocator]
static OWN: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

struct OneThread<T>(Cell<Option<T>>);
// SAFETY: what is kept here is written and read only by the first thread of the process: before `main`, by the
// zygote, which has no other, and in its forks, before they run a program.
unsafe impl<T> Sync for OneThread<T> {}

static PYTHONS_MAIN: OneThread<Main> = OneThread(Cell::new(None));
static WORLD: OneThread<start::World> = OneThread(Cell::new(None));

/// Called by the program in place of the function of libc, to run `main`.
///
/// # Safety
///
/// Only the start of a C program may call it, as it would call libc's.
// The tests of this crate are a program themselves, whose start is none of our business.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __libc_start_main(
    main: Main,
    argc: c_int,
    argv: *mut *mut c_char,
    init: *mut c_void,
    fini: *mut c_void,
    loader_fini: *mut c_void,
    stack_end: *mut c_void,
) -> c_int {
    PYTHONS_MAIN.0.set(Some(main));
    // SAFETY: the name is a C string; dlsym only searches.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"__libc_start_main".as_ptr()) };
    if next.is_null() {
        std::process::abort();
    }
    // SAFETY: libc's function of that name has this type.
    let start_main = unsafe { std::mem::transmute::<*mut c_void, StartMain>(next) };
    // SAFETY: it gets what the program meant for it, but for `main`.
    unsafe { start_main(main_instead, argc, argv, init, fini, loader_fini, stack_end) }
}

extern "C" fn main_instead(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) -> c_int {
    let settings = match (Settings::take(), PYTHONS_MAIN.0.get()) {
        (Some(settings), _) => settings,
        (None, Some(main)) => {
            if let Some(keeper) = settings::wants_keeper() {
                kept::begin(keeper);
            }
            return main(argc, argv, envp);
        }
        (None, None) => return 1,
    };
    executor::end_on_panic();
    let world = settings.and_then(|settings| start::World::start(&settings, argc, argv));
    i32::from(ended(world.and_then(|world| {
        veil::draw();
        be_forked(world, &[])
    })))
}

/// Serves until nobody wants anything any more. Of the memory, what stands in `shared` is not only ours.
fn be_forked(mut world: start::World, shared: &[(usize, usize)]) -> Result<(), String> {
    memory::use_large_pages(shared);
    world.python.before_fork();
    world.pages = pages::Pages::tried(&world);
    WORLD.0.set(Some(world));
    serve(Interpreter { live: child, branch })
}

/// The life of a fork of the zygote that imports more, in a process that has one thread and the standard streams, the
/// first of which is for whoever it serves.
fn branch(load: &str) -> ! {
    let shared = memory::private_memory();
    let world = WORLD.0.take().ok_or_else(|| "no interpreter".to_owned());
    let grown = world.and_then(|world| world.grow(&Settings::parse(load.as_bytes())?));
    jail::sys::exit_now(i32::from(ended(grown.and_then(|world| be_forked(world, &shared)))))
}

/// Whether it was by an error, which is told.
fn ended(served: Result<(), String>) -> bool {
    served.inspect_err(|error| eprintln!("sandbox-zygote: {error}")).is_err()
}

/// The life of a child, in a process that was forked from the zygote and has one thread. It has descriptors 0, 1
/// and 2, and is already restricted as its program shall be.
fn child() -> ! {
    match WORLD.0.take() {
        Some(world) => child::live(world),
        None => std::process::abort(),
    }
}

#[cfg(feature = "try")]
use trial::serve;

/// Makes sandboxes by order of the engine, which is at the other end of descriptor 0, until it hangs up.
#[cfg(not(feature = "try"))]
fn serve(interpreter: Interpreter) -> Result<(), String> {
    let socket = jail::sys::inherited(0).ok_or("no control stream")?;
    executor::spawner(socket, Some(interpreter), true)
}
