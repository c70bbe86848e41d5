//! Runs the main file as `python3 main.py` does, up to the last exception.
//!
//! CPython's own function for it ends the process on `SystemExit`, by taking down everything that was preloaded.
//! So its steps are made here, one by one, in its order.

use crate::finish::Usual;
use crate::python::{Object, Python, Raised, SourceFile};
use crate::start::Replaced;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// How a program came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The code it will exit with if nothing goes wrong while it ends.
    Exit(i32),
    /// Nobody caught the exception of SIGINT, so it has to look as if that had killed it.
    Interrupted,
}

const FAILED: Ending = Ending::Exit(1);

pub(crate) fn run(
    python: Python,
    usual: &Usual,
    main: Object,
    expected: Expected,
    program_name: &CStr,
    path: &CStr,
) -> Ending {
    if let Some(file) = expected.open(path) {
        return run_file(python, usual, main, &expected.name, file);
    }
    match expected.forget(python, &main).and_then(|()| prepare(python, path)) {
        Ok(Main::File(name)) => match SourceFile::open(&name) {
            Ok(file) => match describe_main(python, &main.namespace(), &name) {
                Ok(()) => run_file(python, usual, main, &name, file),
                Err(Raised) => ended_by_exception(python, usual, false, || ()),
            },
            Err(error) => cannot_open(python, program_name, &name, &error),
        },
        Ok(Main::Importable) => match run_importable(python) {
            Ok(_) => Ending::Exit(0),
            Err(Raised) => ended_by_exception(python, usual, false, || ()),
        },
        Err(Raised) => ended_by_exception(python, usual, false, || ()),
    }
}

/// What is run where nobody waits for it.
const SHORT: &[u8] = b"for i in range(2):\n    print(f'{i} {10000 + i} {i * 3.5}')\n";
const NAME: &CStr = c"/dev/null";

/// Makes the way of a program with a short one, so that what it needs lies ready. Leaves nothing behind.
pub(crate) fn rehearse(python: Python, usual: &Usual) -> Result<(), Raised> {
    // Every page that this writes to is copied now, and not when somebody waits for it.
    let main = python.module(c"__main__")?;
    let names = main.namespace();
    names.set(c"__builtins__", &python.import(c"builtins")?)?;
    describe_main(python, &names, NAME)?;
    run_aside(python, usual, main);
    usual.rehearse(python);
    Ok(())
}

/// Runs a short program as the one that was waited for.
pub(crate) fn run_short(
    python: Python,
    usual: &Usual,
    main: Object,
    expected: Expected,
) -> Result<(), Raised> {
    describe_main(python, &main.namespace(), NAME)?;
    drop(expected);
    run_aside(python, usual, main);
    Ok(())
}

fn run_aside(python: Python, usual: &Usual, main: Object) {
    let nowhere = File::options().write(true).open(OsStr::from_bytes(NAME.to_bytes())).ok();
    let aside = nowhere.and_then(|file| Replaced::new([None, Some(file.as_raw_fd()), None]).ok());
    if let (Some(_), Some(file)) = (&aside, SourceFile::of_text(SHORT)) {
        run_file(python, usual, main, NAME, file);
    }
}

/// The file that will most likely be the program. What Python has to know of it, it is told before it is there.
pub(crate) struct Expected {
    path: CString,
    name: CString,
    /// The same as Python knows it.
    text: Object,
    /// How things were before.
    search_path: Object,
    loader: Option<Object>,
}

impl Expected {
    /// Makes everything ready for a file in the working directory.
    pub(crate) fn new(python: Python, main: &Object, path: &CStr) -> Result<Expected, Raised> {
        let name = absolute(path);
        let (text, names) = (python.text(name.to_bytes())?, main.namespace());
        let search_path = python.sys(c"path").ok_or(Raised)?;
        let expected = Expected {
            path: path.to_owned(),
            text,
            search_path: search_path.call_method(c"copy", &[])?,
            loader: names.get(c"__loader__"),
            name,
        };
        expected.remembered(python)?.set_item(&expected.text, &python.none())?;
        if looks_for_modules_there(python) {
            let end = expected.name.to_bytes().len().saturating_sub(path.count_bytes() + 1);
            search_path.prepend(&python.text(&expected.name.to_bytes()[..end])?)?;
        }
        describe_main(python, &names, &expected.name)?;
        Ok(expected)
    }

    /// Opens it, if that is the program: a file of this name in the working directory, and no archive.
    fn open(&self, path: &CStr) -> Option<SourceFile> {
        if self.path.as_c_str() != path || path.to_bytes().contains(&b'/') {
            return None;
        }
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file =
            File::options().read(true).custom_flags(flags).open(OsStr::from_bytes(path.to_bytes())).ok()?;
        let about = file.metadata().ok()?;
        let ends = RECORD.min(about.len()) as usize;
        let mut end = vec![0; ends];
        file.read_exact_at(&mut end, about.len() - ends as u64).ok()?;
        (about.is_file() && !has_mark(&end)).then(|| SourceFile::of(file))?
    }

    /// Takes everything back.
    fn forget(self, python: Python, main: &Object) -> Result<(), Raised> {
        self.remembered(python)?.call_method(c"pop", &[&self.text])?;
        let search_path = python.sys(c"path").ok_or(Raised)?;
        search_path.call_method(c"clear", &[])?;
        search_path.call_method(c"extend", &[&self.search_path])?;
        let names = main.namespace();
        names.remove(c"__file__")?;
        names.remove(c"__cached__")?;
        match &self.loader {
            Some(loader) => names.set(c"__loader__", loader),
            None => names.remove(c"__loader__"),
        }
    }

    fn remembered(&self, python: Python) -> Result<Object, Raised> {
        python.sys(c"path_importer_cache").ok_or(Raised)
    }
}

/// Whether Python searches the directory of its program for modules.
fn looks_for_modules_there(python: Python) -> bool {
    let flag = |name| python.sys(c"flags").and_then(|flags| flags.attribute(name).ok());
    // One of them is new in Python 3.11, and asking older ones raises.
    let closed =
        [c"isolated", c"safe_path"].into_iter().filter_map(flag).any(|flag| flag.to_number() != Some(0));
    python.clear_error();
    !closed
}

enum Main {
    /// A source file, by its absolute name.
    File(CString),
    /// A directory or an archive with a `__main__` in it.
    Importable,
}

/// Finds out what the main file is, and puts its place at the head of `sys.path`.
fn prepare(python: Python, path: &CStr) -> Result<Main, Raised> {
    let name = absolute(path);
    let text = python.text(name.to_bytes())?;
    let importable = looks_importable(&name) && !python.importer(&text)?.is_none();
    if !importable {
        // What the interpreter remembers of a file it has asked its importers about.
        python.sys(c"path_importer_cache").ok_or(Raised)?.set_item(&text, &python.none())?;
    }
    let directory = if importable { text } else { python.text(&directory_of(path))? };
    if importable || looks_for_modules_there(python) {
        python.sys(c"path").ok_or(Raised)?.prepend(&directory)?;
    }
    Ok(if importable { Main::Importable } else { Main::File(name) })
}

/// The longest record an archive ends in: 22 bytes and a comment.
const RECORD: u64 = 22 + 0xffff;

/// Whether such a record could be in there.
fn has_mark(end: &[u8]) -> bool {
    const MARK: &[u8] = b"PK\x05\x06";
    end.windows(MARK.len()).any(|window| window == MARK)
}

/// Whether it is a directory or could be an archive. Asking the interpreter takes longer than running a short program.
fn looks_importable(name: &CStr) -> bool {
    let Ok(mut file) = File::open(OsStr::from_bytes(name.to_bytes())) else { return false };
    let mut end = Vec::new();
    let read = file.metadata().and_then(|about| {
        file.seek(SeekFrom::Start(about.len().saturating_sub(RECORD)))?;
        file.read_to_end(&mut end)
    });
    read.is_err() || has_mark(&end)
}

/// What the interpreter calls a file that is given relative to the working directory.
fn absolute(path: &CStr) -> CString {
    let bytes = path.to_bytes();
    if bytes.starts_with(b"/") {
        return path.to_owned();
    }
    let Ok(directory) = std::env::current_dir() else { return path.to_owned() };
    let mut whole = directory.into_os_string().into_vec();
    whole.push(b'/');
    whole.extend_from_slice(bytes.strip_prefix(b"./").unwrap_or(bytes));
    CString::new(whole).unwrap_or_else(|_| path.to_owned())
}

/// Where the main file really lies, or, if it does not exist, is said to.
fn directory_of(path: &CStr) -> Vec<u8> {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let real = std::fs::canonicalize(path);
    let parent = real.as_deref().unwrap_or(path).parent();
    parent.map(|parent| parent.as_os_str().as_bytes().to_vec()).unwrap_or_default()
}

fn run_file(python: Python, usual: &Usual, main: Object, name: &CStr, file: SourceFile) -> Ending {
    let names = main.namespace();
    drop(main);
    let ran = python.execute_file(file, name, &names);
    let interrupted = ran.is_err() && python.was_interrupted();
    flush(python);
    let forget = || {
        for name in [c"__file__", c"__cached__"] {
            if names.remove(name).is_err() {
                python.clear_error();
            }
        }
    };
    match ran {
        Ok(_) => {
            forget();
            Ending::Exit(0)
        }
        Err(Raised) => ended_by_exception(python, usual, interrupted, forget),
    }
}

fn describe_main(python: Python, names: &Object, name: &CStr) -> Result<(), Raised> {
    let text = python.text(name.to_bytes())?;
    names.set(c"__file__", &text)?;
    names.set(c"__cached__", &python.none())?;
    let loaders = python.import(c"_frozen_importlib_external")?;
    let loader = loaders.call_method(c"SourceFileLoader", &[&python.text(b"__main__")?, &text])?;
    names.set(c"__loader__", &loader)
}

fn run_importable(python: Python) -> Result<Object, Raised> {
    let run = python.import(c"runpy")?.attribute(c"_run_module_as_main")?;
    let alter_arguments = python.none();
    run.call(&[&python.text(b"__main__")?, &alter_arguments])
}

fn cannot_open(python: Python, program_name: &CStr, name: &CStr, error: &std::io::Error) -> Ending {
    let shown = python.text(name.to_bytes()).and_then(|text| text.representation());
    let shown = shown.ok().and_then(|text| text.to_string_lossy()).unwrap_or_default();
    let errno = error.raw_os_error().unwrap_or_default();
    // SAFETY: a C string of libc, which nobody changes before it has been copied.
    let reason = unsafe { CStr::from_ptr(libc::strerror(errno)) }.to_string_lossy();
    eprintln!("{}: can't open file {shown}: [Errno {errno}] {reason}", program_name.to_string_lossy());
    Ending::Exit(2)
}

/// Both streams, whatever they have become; errors do not matter yet.
fn flush(python: Python) {
    let error = python.take_error();
    for name in [c"stderr", c"stdout"] {
        if python.sys(name).is_some_and(|stream| stream.call_method(c"flush", &[]).is_err()) {
            python.clear_error();
        }
    }
    python.put_error_back(error);
}

/// The exception nobody caught. `forget` comes after it was reported, but not at an exit: there the interpreter
/// does not come to it.
fn ended_by_exception(python: Python, usual: &Usual, interrupted: bool, forget: impl FnOnce()) -> Ending {
    if python.exit_was_asked_for() {
        return exit_code(python, usual);
    }
    python.print_error();
    forget();
    if interrupted { Ending::Interrupted } else { FAILED }
}

/// The code a `SystemExit` asks for: a number, none, or a text for standard error. What is anything else is left to
/// the interpreter, which does not return.
fn exit_code(python: Python, usual: &Usual) -> Ending {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
    }
    // SAFETY: a stream of libc, which may be flushed at any time.
    unsafe { libc::fflush(stdout) };
    let error = python.take_error();
    let code = error[1].as_ref().map_or(Ok(python.none()), |value| match value.is_exit() {
        true => value.attribute(c"code"),
        false => Ok(value.clone()),
    });
    python.clear_error();
    let stderr = python.sys(c"stderr").filter(|stream| !stream.is_none());
    match (code, stderr) {
        (Ok(code), _) if code.is_none() => Ending::Exit(0),
        (Ok(code), Some(stderr)) if code.is_text() && code.write_to(&stderr).is_ok() => {
            python.end_line_on_stderr();
            FAILED
        }
        (code, _) => {
            if let Some(number) = code.ok().and_then(|code| code.to_number()) {
                return Ending::Exit(number as i32);
            }
            python.clear_error();
            usual.let_garbage_be_collected(python);
            python.put_error_back(error);
            python.print_error();
            FAILED
        }
    }
}
