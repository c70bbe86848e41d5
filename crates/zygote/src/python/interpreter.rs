//! The interpreter as a whole: starting, running code, forking, errors, the end.

use super::Raw;
use super::object::Object;
use super::{Config, Interface, Status};
use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;

/// The interpreter of this process.
///
/// Holding one means: Python has been found, and this is the thread that started it and has never let go of the
/// interpreter lock. Everything below that calls Python rests on that. It cannot go to another thread.
#[derive(Clone, Copy)]
pub(crate) struct Python {
    pub(super) interface: &'static Interface,
    one_thread: PhantomData<*const ()>,
}

/// An exception is set in the interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raised;

const FILE_INPUT: c_int = 257;

impl Python {
    /// Finds Python in this program and starts it, as its own `main` would with these arguments.
    pub(crate) fn start(argc: c_int, argv: *const *mut c_char) -> Result<Python, String> {
        let interface: &'static Interface = Box::leak(Box::new(Interface::find()?));
        let mut config = Config([0; 8 << 10]);
        // SAFETY: the room for the configuration is large enough and is filled before it is used; arguments are
        // those this process was started with.
        let status = unsafe {
            (interface.PyConfig_InitPythonConfig)(&raw mut config);
            let status = (interface.PyConfig_SetBytesArgv)(&raw mut config, argc as isize, argv);
            checked(status).and_then(|()| checked((interface.Py_InitializeFromConfig)(&raw const config)))
        };
        // SAFETY: it was initialised above, and Python keeps a copy.
        unsafe { (interface.PyConfig_Clear)(&raw mut config) };
        status.map(|()| Python { interface, one_thread: PhantomData })
    }

    /// An object that is owned from now on, or the exception that was raised instead.
    pub(super) fn own(self, raw: Raw) -> Result<Object, Raised> {
        if raw.is_null() { Err(Raised) } else { Ok(Object { python: self, raw }) }
    }

    /// One more reference to an object that lives.
    pub(super) fn share(self, raw: Raw) -> Object {
        // SAFETY: callers pass an object that is alive.
        unsafe { (self.interface.Py_IncRef)(raw) };
        Object { python: self, raw }
    }

    pub(super) fn done(code: c_int) -> Result<(), Raised> {
        if code < 0 { Err(Raised) } else { Ok(()) }
    }

    pub(crate) fn none(self) -> Object {
        self.share(self.interface.none)
    }

    /// Text as file names and arguments are: whatever is not UTF-8 survives.
    pub(crate) fn text(self, bytes: &[u8]) -> Result<Object, Raised> {
        // SAFETY: Python copies so many bytes.
        self.own(unsafe {
            (self.interface.PyUnicode_DecodeFSDefaultAndSize)(bytes.as_ptr().cast(), bytes.len() as isize)
        })
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<Object, Raised> {
        // SAFETY: Python copies so many bytes.
        self.own(unsafe {
            (self.interface.PyBytes_FromStringAndSize)(bytes.as_ptr().cast(), bytes.len() as isize)
        })
    }

    pub(crate) fn list(self) -> Result<Object, Raised> {
        // SAFETY: makes a new object.
        self.own(unsafe { (self.interface.PyList_New)(0) })
    }

    pub(crate) fn dict(self) -> Result<Object, Raised> {
        // SAFETY: makes a new object.
        self.own(unsafe { (self.interface.PyDict_New)() })
    }

    /// Names for code to run with: the built-in functions and nothing else.
    pub(crate) fn globals(self) -> Result<Object, Raised> {
        let globals = self.dict()?;
        globals.set(c"__builtins__", &self.import(c"builtins")?)?;
        Ok(globals)
    }

    /// A new module that is not in `sys.modules`.
    pub(crate) fn module(self, name: &CStr) -> Result<Object, Raised> {
        // SAFETY: the name is a C string.
        self.own(unsafe { (self.interface.PyModule_New)(name.as_ptr()) })
    }

    pub(crate) fn import(self, name: &CStr) -> Result<Object, Raised> {
        // SAFETY: the name is a C string.
        self.own(unsafe { (self.interface.PyImport_ImportModule)(name.as_ptr()) })
    }

    /// `sys.modules`, whatever a program has made of that name.
    pub(crate) fn modules(self) -> Object {
        // SAFETY: the interpreter owns it and is there.
        self.share(unsafe { (self.interface.PyImport_GetModuleDict)() })
    }

    /// What makes modules of the files at `path`, or `None` if that is neither a directory nor an archive.
    pub(crate) fn importer(self, path: &Object) -> Result<Object, Raised> {
        // SAFETY: the argument is a live object.
        self.own(unsafe { (self.interface.PyImport_GetImporter)(path.raw) })
    }

    /// An attribute of `sys`.
    pub(crate) fn sys(self, name: &CStr) -> Option<Object> {
        // SAFETY: the name is a C string; what comes back is owned by `sys` until it is shared.
        let raw = unsafe { (self.interface.PySys_GetObject)(name.as_ptr()) };
        (!raw.is_null()).then(|| self.share(raw))
    }

    pub(crate) fn set_sys(self, name: &CStr, value: &Object) -> Result<(), Raised> {
        // SAFETY: a C string and a live object.
        Self::done(unsafe { (self.interface.PySys_SetObject)(name.as_ptr(), value.raw) })
    }

    pub(crate) fn compile(self, source: &CStr, name: &CStr) -> Result<Object, Raised> {
        // SAFETY: two C strings.
        self.own(unsafe { (self.interface.Py_CompileString)(source.as_ptr(), name.as_ptr(), FILE_INPUT) })
    }

    /// Executes compiled code with these globals.
    pub(crate) fn execute(self, code: &Object, globals: &Object) -> Result<Object, Raised> {
        // SAFETY: the first is of `compile`, the second a dictionary.
        self.own(unsafe { (self.interface.PyEval_EvalCode)(code.raw, globals.raw, globals.raw) })
    }

    /// Reads a file to its end and executes it with these globals. `name` is for tracebacks. Nothing of ours is
    /// below its frame.
    pub(crate) fn execute_file(
        self,
        file: SourceFile,
        name: &CStr,
        globals: &Object,
    ) -> Result<Object, Raised> {
        const CLOSE: c_int = 1;
        // SAFETY: an open stream, which Python closes; a C string; a dictionary; no flags, which means the usual.
        self.own(unsafe {
            (self.interface.PyRun_FileExFlags)(
                file.0,
                name.as_ptr(),
                FILE_INPUT,
                globals.raw,
                globals.raw,
                CLOSE,
                std::ptr::null_mut(),
            )
        })
    }

    pub(crate) fn before_fork(self) {
        // SAFETY: takes the locks of the interpreter, which the child will set free.
        unsafe { (self.interface.PyOS_BeforeFork)() }
    }

    /// In the child, which has one thread.
    pub(crate) fn after_fork(self) {
        // SAFETY: `before_fork` was called in the parent by the thread that this process is a copy of.
        unsafe { (self.interface.PyOS_AfterFork_Child)() }
    }

    pub(crate) fn has_other_interpreters(self) -> bool {
        // SAFETY: the list is walked while the interpreter lock keeps it as it is.
        unsafe {
            let first = (self.interface.PyInterpreterState_Head)();
            !(self.interface.PyInterpreterState_Next)(first).is_null()
        }
    }

    /// Whether a thread of Python beside this one is alive.
    pub(crate) fn has_other_threads(self) -> bool {
        let interface = self.interface;
        // SAFETY: the list is walked while the interpreter lock keeps it as it is.
        unsafe {
            let first = (interface.PyInterpreterState_ThreadHead)((interface.PyInterpreterState_Head)());
            !(interface.PyThreadState_Next)(first).is_null()
        }
    }

    /// Collects garbage, unless that is switched off.
    pub(crate) fn collect(self) {
        // SAFETY: may be called at any time.
        unsafe { (self.interface.PyGC_Collect)() };
    }

    /// Takes the whole interpreter down. No object may be used after it.
    pub(crate) fn finalize(self) -> Result<(), Raised> {
        // SAFETY: this is the thread that started it.
        Self::done(unsafe { (self.interface.Py_FinalizeEx)() })
    }

    pub(crate) fn exit_was_asked_for(self) -> bool {
        // SAFETY: asks about the exception that is set; the variable holds a class.
        unsafe { (self.interface.PyErr_ExceptionMatches)(*self.interface.system_exit) != 0 }
    }

    /// Exactly that, and not a class derived from it: the interpreter does not care for those.
    pub(crate) fn was_interrupted(self) -> bool {
        // SAFETY: both are classes that are only compared.
        unsafe { (self.interface.PyErr_Occurred)() == *self.interface.keyboard_interrupt }
    }

    pub(crate) fn clear_error(self) {
        // SAFETY: may be called at any time.
        unsafe { (self.interface.PyErr_Clear)() }
    }

    /// Has the interpreter report the exception by `sys.excepthook`.
    pub(crate) fn print_error(self) {
        // SAFETY: callers have seen an exception raised.
        unsafe { (self.interface.PyErr_Print)() }
    }

    /// Reports an exception that nobody can be told of.
    pub(crate) fn print_ignored_error(self, of: &Object) {
        // SAFETY: a live object.
        unsafe { (self.interface.PyErr_WriteUnraisable)(of.raw) }
    }

    /// Class, value and traceback of the exception, which is no longer set. Each may be missing.
    pub(crate) fn take_error(self) -> [Option<Object>; 3] {
        let mut raw = [std::ptr::null_mut(); 3];
        let [class, value, traceback] = &mut raw;
        // SAFETY: three places for references that are ours afterwards.
        unsafe { (self.interface.PyErr_Fetch)(class, value, traceback) };
        raw.map(|raw| self.own(raw).ok())
    }

    /// Sets what [`Python::take_error`] took.
    pub(crate) fn put_error_back(self, error: [Option<Object>; 3]) {
        let [class, value, traceback] =
            error.map(|object| object.map_or(std::ptr::null_mut(), |object| object.give_away()));
        // SAFETY: takes over three references or nulls.
        unsafe { (self.interface.PyErr_Restore)(class, value, traceback) }
    }

    /// Writes a line end to `sys.stderr`.
    pub(crate) fn end_line_on_stderr(self) {
        // SAFETY: a format without arguments.
        unsafe { (self.interface.PySys_WriteStderr)(c"\n".as_ptr()) }
    }

    /// The exception in one line, for people who set up a host. It is no longer set afterwards.
    pub(crate) fn describe_error(self) -> String {
        let mut raw = self.take_error().map(|object| object.map_or(std::ptr::null_mut(), Object::give_away));
        let [class, value, traceback] = &mut raw;
        // SAFETY: three references of ours, or nulls, that are replaced by others.
        unsafe { (self.interface.PyErr_NormalizeException)(class, value, traceback) };
        let [class, value, _traceback] = raw.map(|raw| self.own(raw).ok());
        let class = class.and_then(|class| class.attribute(c"__name__").ok()?.to_string_lossy());
        let value = value.and_then(|value| value.text().ok()?.to_string_lossy());
        self.clear_error();
        format!("{}: {}", class.unwrap_or_default(), value.unwrap_or_default())
    }
}

/// A file that is open for Python to read.
pub(crate) struct SourceFile(*mut libc::FILE);

impl SourceFile {
    /// Opens it as Python does.
    pub(crate) fn open(path: &CStr) -> Result<SourceFile, std::io::Error> {
        // SAFETY: two C strings.
        let stream = unsafe { libc::fopen(path.as_ptr(), c"rbe".as_ptr()) };
        if stream.is_null() { Err(std::io::Error::last_os_error()) } else { Ok(SourceFile(stream)) }
    }

    /// One that is open already.
    pub(crate) fn of(file: std::fs::File) -> Option<SourceFile> {
        // SAFETY: an open descriptor, which is the stream's from now on, and a C string.
        let stream = unsafe { libc::fdopen(std::os::fd::IntoRawFd::into_raw_fd(file), c"rb".as_ptr()) };
        (!stream.is_null()).then_some(SourceFile(stream))
    }

    /// Something short, from a pipe.
    pub(crate) fn of_text(text: &[u8]) -> Option<SourceFile> {
        let (reader, mut writer) = std::io::pipe().ok()?;
        std::io::Write::write_all(&mut writer, text).ok()?;
        SourceFile::of(std::os::fd::OwnedFd::from(reader).into())
    }
}

fn checked(status: Status) -> Result<(), String> {
    if status.kind == 0 {
        return Ok(());
    }
    let words = [status.function, status.message].map(|text| match text.is_null() {
        true => CString::default(),
        // SAFETY: Python says what went wrong in constant C strings.
        false => unsafe { CStr::from_ptr(text) }.to_owned(),
    });
    Err(format!(
        "Python did not start: {} {} (code {})",
        words[0].to_string_lossy(),
        words[1].to_string_lossy(),
        status.code
    ))
}
