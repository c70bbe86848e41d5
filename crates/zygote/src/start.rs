//! Everything that can be done before a program is known, once, in the zygote.

use crate::finish::Usual;
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
    pub(crate) signals: Signals,
    /// A variable Python sets for its children where there is no locale.
    pub(crate) locale: Option<CString>,
    /// What each child does before it waits.
    pub(crate) rehearsal: WarmUp,
    /// Functions of `state.py`.
    pub(crate) refresh: Object,
    pub(crate) adopt: Object,
    /// Only where something has to know.
    pub(crate) begin: Option<Object>,
    /// What Python believes to be its arguments.
    pub(crate) arguments: [CString; 1],
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
        let failed = |Raised| python.describe_error();

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
        let state = python.globals().map_err(failed)?;
        let source = CString::new(include_str!("state.py")).map_err(|error| error.to_string())?;
        let code = python.compile(&source, c"<state>").map_err(failed)?;
        python.execute(&code, &state).map_err(failed)?;
        let function = |name| state.get(name).ok_or("`state.py` lacks a function");
        let (refresh, adopt, begin) = (function(c"refresh")?, function(c"adopt")?, function(c"begin")?);

        let rehearsal = WarmUp::new(python, &settings.rehearsal)?;
        for warm_up in [&WarmUp::new(python, &settings.warm_up)?, &rehearsal] {
            warm_up.run(python).map_err(|problem| format!("warm-up: {problem}"))?;
            expect_one_thread("the warm-up")?;
        }

        let usual = Usual::now(python).map_err(failed)?;
        set_aside(python).map_err(failed)?;
        if !gc_was_there {
            // Only we have imported it.
            python.modules().remove(c"gc").map_err(failed)?;
        }
        Ok(World {
            python,
            program_name,
            label: label(),
            signals: Signals::remember(),
            locale,
            rehearsal,
            refresh,
            adopt,
            begin: python.modules().get(c"logging").map(|_| begin),
            // SAFETY: the last of at least two arguments is a C string.
            arguments: [unsafe { CStr::from_ptr(*argv.add(argc as usize - 1)) }.to_owned()],
            sqlite: sqlite(),
            usual,
        })
    }
}

/// What is here now stays; garbage collection in a child shall not even look at it.
fn set_aside(python: Python) -> Result<(), Raised> {
    let gc = python.import(c"gc")?;
    gc.call_method(c"collect", &[])?;
    gc.call_method(c"freeze", &[]).map(drop)
}

/// Code that does what programs usually do, so that what they need lies ready.
pub(crate) struct WarmUp(Option<Object>);

impl WarmUp {
    fn new(python: Python, source: &str) -> Result<WarmUp, String> {
        if source.is_empty() {
            return Ok(WarmUp(None));
        }
        let source = CString::new(source).map_err(|error| error.to_string())?;
        let code = python.compile(&source, c"<warm-up>").map_err(|Raised| python.describe_error())?;
        Ok(WarmUp(Some(code)))
    }

    /// Runs it. What it writes goes nowhere.
    pub(crate) fn run(&self, python: Python) -> Result<(), String> {
        let Some(code) = &self.0 else { return Ok(()) };
        let nowhere =
            File::options().write(true).open("/dev/null").map_err(|e| format!("`/dev/null`: {e}"))?;
        let kept = Replaced::new([None, Some(nowhere.as_raw_fd()), Some(nowhere.as_raw_fd())])?;
        let ran = python.globals().and_then(|globals| python.execute(code, &globals));
        let ran = ran.map(drop).map_err(|Raised| python.describe_error());
        for name in [c"stdout", c"stderr"] {
            let flushed = python.sys(name).map(|stream| stream.call_method(c"flush", &[]));
            if matches!(flushed, Some(Err(Raised))) {
                python.clear_error();
            }
        }
        drop(kept);
        ran
    }
}

/// Standard streams that stand aside for a while, until this is dropped.
struct Replaced([Option<OwnedFd>; 3]);

impl Replaced {
    /// Puts other descriptors in the place of 0, 1 and 2, where given.
    fn new(others: [Option<RawFd>; 3]) -> Result<Replaced, String> {
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
