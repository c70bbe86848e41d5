//! Everything that can be done before a program is known, once, in the zygote.

use crate::finish::Usual;
use crate::pages::Pages;
use crate::python::{Object, Python, Raised};
use crate::settings::{Lent, Settings};
use crate::signals::Signals;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// An interpreter with modules in it, and what a fork of it needs to know to become a new one.
pub(crate) struct World {
    pub(crate) python: Python,
    /// The name of the program, as it was started.
    pub(crate) program_name: CString,
    /// What the kernel shows as the name of the process.
    pub(crate) label: [u8; 16],
    /// A variable Python sets for its children where there is no locale.
    pub(crate) locale: Option<CString>,
    /// What Python believes to be its arguments.
    pub(crate) arguments: [CString; 1],
    pub(crate) loaded: Loaded,
    /// What a copy makes its own before it waits.
    pub(crate) pages: Pages,
}

/// What there is to know once everything is loaded.
pub(crate) struct Loaded {
    pub(crate) signals: Signals,
    /// Functions of `state.py`.
    pub(crate) refresh: Object,
    pub(crate) adopt: Object,
    pub(crate) begin: Object,
    /// Whether something is here that has to know when a program begins.
    pub(crate) has_clock: bool,
    pub(crate) sqlite: Option<Randomness>,
    pub(crate) usual: Usual,
}

/// SQLite's source of randomness.
pub(crate) type Randomness = unsafe extern "C" fn(c_int, *mut c_void);

pub(crate) const LOCALE: &CStr = c"LC_CTYPE";

impl World {
    pub(crate) fn start(settings: &Settings, argc: c_int, argv: *mut *mut c_char) -> Result<World, String> {
        if argc < 2 {
            return Err("it has to be started like a program: `python3 main.py`".into());
        }
        // SAFETY: the first of at least two arguments is a C string.
        let program_name = unsafe { CStr::from_ptr(*argv) }.to_owned();
        let locale_before = variable(LOCALE);
        let python = on_pipes(|| Python::start(argc, argv))?;
        let locale = if locale_before.is_none() { variable(LOCALE) } else { None };
        run_own(python, c"<path>", OWN_PATH)?;
        Ok(World {
            python,
            program_name,
            label: label(),
            locale,
            // SAFETY: the last of at least two arguments is a C string.
            arguments: [unsafe { CStr::from_ptr(*argv.add(argc as usize - 1)) }.to_owned()],
            loaded: Loaded::with(python, settings)?,
            pages: Pages::default(),
        })
    }

    /// The same in a process that was forked from it, with more in it.
    pub(crate) fn grow(self, settings: &Settings) -> Result<World, String> {
        // Whoever serves may react to signals in another way.
        jail::sys::reset_signals();
        self.loaded.signals.restore();
        self.python.after_fork();
        Ok(World { loaded: Loaded::with(self.python, settings)?, ..self })
    }
}

/// Modules are those of the interpreter's installation. Its home is the workspace of programs, which is not here, and
/// nobody's modules are taken from a directory of that name.
const OWN_PATH: &str = "
import os, sys
home = os.path.join(os.environ.get('HOME') or '/', '')
sys.path[:] = [place for place in sys.path if place.startswith('/') and (home == '/' or not place.startswith(home))]
";

/// Runs a program of ours. Its names are its own, as long as it is needed.
fn run_own(python: Python, name: &CStr, source: &str) -> Result<Object, String> {
    let failed = |Raised| python.describe_error();
    let names = python.globals().map_err(failed)?;
    let source = CString::new(source).map_err(|error| error.to_string())?;
    let code = python.compile(&source, name).map_err(failed)?;
    python.execute(&code, &names).map_err(failed)?;
    Ok(names)
}

impl Loaded {
    /// Loads modules, and does with them what it takes so that they are ready.
    fn with(python: Python, settings: &Settings) -> Result<Loaded, String> {
        let lent = Lent::new(&settings.load_env);
        for name in &settings.preload {
            let c_name = CString::new(name.as_str()).map_err(|error| error.to_string())?;
            if python.import(&c_name).is_err() {
                eprintln!("sandbox-zygote: `{name}` is left out: {}", python.describe_error());
            }
            expect_one_thread(name)?;
        }
        drop(lent);
        let gc_was_there = python.modules().get(c"gc").is_some();
        let state = run_own(python, c"<state>", include_str!("state.py"))?;
        let function = |name| state.get(name).ok_or("`state.py` lacks a function");
        let (refresh, adopt, begin) = (function(c"refresh")?, function(c"adopt")?, function(c"begin")?);

        for program in &settings.warm_up {
            // It may import more.
            let lent = Lent::new(&settings.load_env);
            if let Err(problem) = warm_up(python, program) {
                eprintln!("sandbox-zygote: a warm-up is left out: {problem}");
            }
            drop(lent);
            expect_one_thread("the warm-up")?;
        }
        let failed = |Raised| python.describe_error();
        let usual = Usual::now(python).map_err(failed)?;
        set_aside(python).and_then(|()| forget_gc(python, gc_was_there)).map_err(failed)?;
        Ok(Loaded {
            signals: Signals::remember(),
            refresh,
            adopt,
            begin,
            has_clock: has_clock(python),
            sqlite: sqlite(),
            usual,
        })
    }

    /// Takes note of what a program has left that was run in a child before it waits. Nothing is collected: a child has
    /// what a Python that has just started keeps at hand for new objects.
    pub(crate) fn renew(&mut self, python: Python) -> Result<(), Raised> {
        let gc_was_there = python.modules().get(c"gc").is_some();
        self.has_clock = has_clock(python);
        self.sqlite = sqlite();
        self.usual = Usual::now(python)?;
        forget_gc(python, gc_was_there)
    }
}

fn has_clock(python: Python) -> bool {
    python.modules().get(c"logging").is_some()
}

/// What is here now stays; garbage collection in a child shall not even look at it.
fn set_aside(python: Python) -> Result<(), Raised> {
    let gc = python.import(c"gc")?;
    gc.call_method(c"collect", &[])?;
    gc.call_method(c"freeze", &[]).map(drop)
}

/// Where only we have imported it.
fn forget_gc(python: Python, was_there: bool) -> Result<(), Raised> {
    if was_there { Ok(()) } else { python.modules().remove(c"gc") }
}

/// Runs code that does what programs usually do, so that what they need lies ready. What it writes goes nowhere.
pub(crate) fn warm_up(python: Python, program: &str) -> Result<(), String> {
    if program.is_empty() {
        return Ok(());
    }
    let nowhere = File::options().write(true).open("/dev/null").map_err(|e| format!("`/dev/null`: {e}"))?;
    let kept = Replaced::new([None, Some(nowhere.as_raw_fd()), Some(nowhere.as_raw_fd())])?;
    let ran = run_own(python, c"<warm-up>", program).map(drop);
    for name in [c"stdout", c"stderr"] {
        let flushed = python.sys(name).map(|stream| stream.call_method(c"flush", &[]));
        if matches!(flushed, Some(Err(Raised))) {
            python.clear_error();
        }
    }
    drop(kept);
    ran
}

/// Standard streams that stand aside for a while, until this is dropped.
pub(crate) struct Replaced([Option<OwnedFd>; 3]);

impl Replaced {
    /// Puts other descriptors in the place of 0, 1 and 2, where given.
    pub(crate) fn new(others: [Option<RawFd>; 3]) -> Result<Replaced, String> {
        let mut kept = Replaced([None, None, None]);
        for (place, other) in others.into_iter().enumerate() {
            let Some(other) = other else { continue };
            // SAFETY: fcntl with these integers touches no memory.
            let copy = unsafe { libc::fcntl(place as RawFd, libc::F_DUPFD_CLOEXEC, 3) };
            if copy < 0 {
                return Err(format!("descriptor {place}: {}", std::io::Error::last_os_error()));
            }
            // SAFETY: the kernel just made it for us.
            kept.0[place] = Some(unsafe { OwnedFd::from_raw_fd(copy) });
            // SAFETY: dup2 touches no memory; what was there has been copied.
            unsafe { libc::dup2(other, place as RawFd) };
        }
        Ok(kept)
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        for (place, original) in self.0.iter().enumerate() {
            if let Some(original) = original {
                // SAFETY: dup2 touches no memory.
                unsafe { libc::dup2(original.as_raw_fd(), place as RawFd) };
            }
        }
    }
}

/// Starts Python with pipes as its standard streams, as a child will have them, because it looks what they are.
fn on_pipes(start: impl FnOnce() -> Result<Python, String>) -> Result<Python, String> {
    let pipe = || std::io::pipe().map_err(|error| format!("pipe: {error}"));
    let ((input, _), (mut said, output)) = (pipe()?, pipe()?);
    let kept = Replaced::new([Some(input.as_raw_fd()), Some(output.as_raw_fd()), Some(output.as_raw_fd())])?;
    let python = start();
    drop((kept, output));
    python.map_err(|error| {
        let mut words = String::new();
        // Only more about an error that is known already.
        let _ = said.read_to_string(&mut words);
        format!("{error}\n{words}")
    })
}

/// A thread that is there now would not be there in a fork, and whatever it holds would be held for ever.
fn expect_one_thread(after: &str) -> Result<(), String> {
    let threads =
        std::fs::read_dir("/proc/self/task").map_err(|error| format!("`/proc/self/task`: {error}"))?;
    match threads.count() {
        1 => Ok(()),
        count => Err(format!("`{after}` has started threads: there are {count}, and only one can be forked")),
    }
}

/// SQLite has a random state of its own, if it is here, and does not notice a fork.
fn sqlite() -> Option<Randomness> {
    // SAFETY: C strings; the library is only looked for among those that are loaded, and then stays loaded.
    let function = unsafe {
        let library = libc::dlopen(c"libsqlite3.so.0".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() { library } else { libc::dlsym(library, c"sqlite3_randomness".as_ptr()) }
    };
    // SAFETY: the type is that of SQLite's documentation.
    (!function.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Randomness>(function) })
}

fn variable(name: &CStr) -> Option<CString> {
    // SAFETY: there is one thread, so nobody changes the environment meanwhile.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: getenv gives a C string or null.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_owned())
}

fn label() -> [u8; 16] {
    let mut label = [0; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, label.as_mut_ptr()) };
    label
}
