//! Objects of Python with Rust's idea of ownership, and the few things that are done with them.

use super::{Config, Interface, Raw, Status};
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_ulong};
use std::marker::PhantomData;

/// The interpreter of this process.
///
/// Holding one means: Python has been found, and this is the thread that started it and has never let go of the
/// interpreter lock. Everything below that calls Python rests on that. It cannot go to another thread.
#[derive(Clone, Copy)]
pub(crate) struct Python {
    interface: &'static Interface,
    one_thread: PhantomData<*const ()>,
}

/// An exception is set in the interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raised;

/// A reference to an object, given back when dropped.
pub(crate) struct Object {
    python: Python,
    raw: Raw,
}

/// Which object it is, for as long as it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity(usize);

const FILE_INPUT: c_int = 257;
const PRINT_RAW: c_int = 1;
const TYPE_SUBCLASS: c_ulong = 1 << 31;
const HAVE_GC: c_ulong = 1 << 14;
const TP_FINALIZE: c_int = 80;
const TP_DEL: c_int = 53;

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference, and nobody uses it afterwards.
        unsafe { (self.python.interface.Py_DecRef)(self.raw) }
    }
}

impl Clone for Object {
    fn clone(&self) -> Object {
        self.python.share(self.raw)
    }
}

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
    fn own(self, raw: Raw) -> Result<Object, Raised> {
        if raw.is_null() { Err(Raised) } else { Ok(Object { python: self, raw }) }
    }

    /// One more reference to an object that lives.
    fn share(self, raw: Raw) -> Object {
        // SAFETY: callers pass an object that is alive.
        unsafe { (self.interface.Py_IncRef)(raw) };
        Object { python: self, raw }
    }

    fn done(code: c_int) -> Result<(), Raised> {
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

    /// Whether a thread of Python beside this one, or another interpreter, is alive.
    pub(crate) fn has_company(self) -> bool {
        let interface = self.interface;
        // SAFETY: both lists are walked while the interpreter lock keeps them as they are.
        unsafe {
            let interpreter = (interface.PyInterpreterState_Head)();
            let thread = (interface.PyInterpreterState_ThreadHead)(interpreter);
            !(interface.PyInterpreterState_Next)(interpreter).is_null()
                || !(interface.PyThreadState_Next)(thread).is_null()
        }
    }

    pub(crate) fn make_pending_calls(self) -> Result<(), Raised> {
        // SAFETY: runs what others asked this thread to run.
        Self::done(unsafe { (self.interface.Py_MakePendingCalls)() })
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
    pub(crate) fn print_ignored_error(self, of: Option<&Object>) {
        // SAFETY: a live object or null, both of which are allowed.
        unsafe {
            (self.interface.PyErr_WriteUnraisable)(of.map_or(std::ptr::null_mut(), |object| object.raw))
        }
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

    /// Writes a line end to `sys.stderr`, or to the stream of C if there is none.
    pub(crate) fn end_line_on_stderr(self) {
        // SAFETY: a format without arguments.
        unsafe { (self.interface.PySys_WriteStderr)(c"\n".as_ptr()) }
    }
}

impl Object {
    fn give_away(self) -> Raw {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }

    pub(crate) fn is_none(&self) -> bool {
        self.raw == self.python.interface.none
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity(self.raw as usize)
    }

    pub(crate) fn attribute(&self, name: &CStr) -> Result<Object, Raised> {
        // SAFETY: a live object and a C string.
        self.python.own(unsafe { (self.python.interface.PyObject_GetAttrString)(self.raw, name.as_ptr()) })
    }

    pub(crate) fn call(&self, arguments: &[&Object]) -> Result<Object, Raised> {
        let interface = self.python.interface;
        // SAFETY: makes a new object.
        let tuple = self.python.own(unsafe { (interface.PyTuple_New)(arguments.len() as isize) })?;
        for (index, argument) in arguments.iter().enumerate() {
            let argument = Object::clone(argument).give_away();
            // SAFETY: the tuple is new, has that place, and takes over the reference.
            Python::done(unsafe { (interface.PyTuple_SetItem)(tuple.raw, index as isize, argument) })?;
        }
        // SAFETY: a live object, a tuple, no keywords.
        self.python.own(unsafe { (interface.PyObject_Call)(self.raw, tuple.raw, std::ptr::null_mut()) })
    }

    pub(crate) fn call_method(&self, name: &CStr, arguments: &[&Object]) -> Result<Object, Raised> {
        self.attribute(name)?.call(arguments)
    }

    pub(crate) fn text(&self) -> Result<Object, Raised> {
        // SAFETY: a live object.
        self.python.own(unsafe { (self.python.interface.PyObject_Str)(self.raw) })
    }

    pub(crate) fn representation(&self) -> Result<Object, Raised> {
        // SAFETY: a live object.
        self.python.own(unsafe { (self.python.interface.PyObject_Repr)(self.raw) })
    }

    /// The characters of a string.
    pub(crate) fn to_string_lossy(&self) -> Option<String> {
        let mut length = 0;
        // SAFETY: a live object and a place for the length. Of anything but a string nothing comes back.
        let bytes = unsafe { (self.python.interface.PyUnicode_AsUTF8AndSize)(self.raw, &raw mut length) };
        if bytes.is_null() {
            self.python.clear_error();
            return None;
        }
        // SAFETY: Python said how long it is, and it lives as long as the object.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize) };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Whether it counts as true. If that raises, it does not.
    pub(crate) fn is_true(&self) -> bool {
        // SAFETY: a live object.
        let answer = unsafe { (self.python.interface.PyObject_IsTrue)(self.raw) };
        if answer < 0 {
            self.python.clear_error();
        }
        answer == 1
    }

    /// Whether it is a `SystemExit`.
    pub(crate) fn is_exit(&self) -> bool {
        // SAFETY: live objects.
        unsafe {
            (self.python.interface.PyObject_IsInstance)(self.raw, *self.python.interface.system_exit) == 1
        }
    }

    /// The number as C has it, -1 if it does not fit. `None` if it is no integer.
    pub(crate) fn to_number(&self) -> Option<c_long> {
        let interface = self.python.interface;
        // SAFETY: live objects; what does not fit sets an exception.
        let number = unsafe {
            ((interface.PyObject_IsInstance)(self.raw, interface.integer) == 1)
                .then(|| (interface.PyLong_AsLong)(self.raw))
        };
        self.python.clear_error();
        number
    }

    /// Writes it to an object that is like a file, as `print` would.
    pub(crate) fn write_to(&self, file: &Object) -> Result<(), Raised> {
        // SAFETY: live objects.
        Python::done(unsafe { (self.python.interface.PyFile_WriteObject)(self.raw, file.raw, PRINT_RAW) })
    }

    pub(crate) fn class(&self) -> Result<Object, Raised> {
        // SAFETY: a live object.
        self.python.own(unsafe { (self.python.interface.PyObject_Type)(self.raw) })
    }

    pub(crate) fn is_class(&self) -> bool {
        // SAFETY: live objects; asks for the class of the object and its bases, and runs no code of a program.
        unsafe {
            let class = (self.python.interface.PyObject_Type)(self.raw);
            let flags = (self.python.interface.PyType_GetFlags)(class);
            (self.python.interface.Py_DecRef)(class);
            flags & TYPE_SUBCLASS != 0
        }
    }

    /// Whether it is a weak reference whose owner wants to hear of the end of what it refers to.
    pub(crate) fn is_observing_reference(&self) -> bool {
        let interface = self.python.interface;
        // SAFETY: live objects; what is asked runs no code of a program.
        let weak = unsafe { (interface.PyObject_IsInstance)(self.raw, interface.weak_reference) == 1 };
        weak && self.attribute(c"__callback__").is_ok_and(|callback| !callback.is_none())
    }

    /// Of a class: whether garbage collection knows its objects.
    pub(crate) fn is_collected_class(&self) -> bool {
        // SAFETY: a class.
        unsafe { (self.python.interface.PyType_GetFlags)(self.raw) & HAVE_GC != 0 }
    }

    /// Of a class: whether something happens when an object of it is destroyed. What cannot be told counts as yes.
    pub(crate) fn has_finalizer(&self) -> bool {
        let interface = self.python.interface;
        [TP_FINALIZE, TP_DEL].into_iter().any(|slot| {
            // SAFETY: a class and the number of a slot that every class has.
            let function = unsafe { (interface.PyType_GetSlot)(self.raw, slot) };
            // SAFETY: asks whether an exception is set: Python 3.9 does not tell of classes written in C.
            let refused = function.is_null() && !unsafe { (interface.PyErr_Occurred)() }.is_null();
            if refused {
                self.python.clear_error();
            }
            refused || !function.is_null()
        })
    }

    /// The dictionary of a module.
    pub(crate) fn namespace(&self) -> Object {
        // SAFETY: callers have a module, which owns a dictionary.
        self.python.share(unsafe { (self.python.interface.PyModule_GetDict)(self.raw) })
    }

    /// Adds to the end of a list.
    pub(crate) fn append(&self, value: &Object) -> Result<(), Raised> {
        // SAFETY: a list and a live object.
        Python::done(unsafe { (self.python.interface.PyList_Append)(self.raw, value.raw) })
    }

    /// Adds to the beginning of a list.
    pub(crate) fn prepend(&self, value: &Object) -> Result<(), Raised> {
        // SAFETY: Python checks that it is a list; the other is a live object.
        Python::done(unsafe { (self.python.interface.PyList_Insert)(self.raw, 0, value.raw) })
    }

    /// What is in a list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Object> + '_ {
        let interface = self.python.interface;
        // SAFETY: callers have a list; its length is asked for before each item.
        let length = move || unsafe { (interface.PyList_Size)(self.raw) };
        (0..).take_while(move |index| *index < length()).map(move |index| {
            // SAFETY: there is such an item, which the list owns until it is shared.
            self.python.share(unsafe { (interface.PyList_GetItem)(self.raw, index) })
        })
    }

    /// What a dictionary has under a name.
    pub(crate) fn get(&self, name: &CStr) -> Option<Object> {
        // SAFETY: a dictionary and a C string; what comes back is owned by the former until it is shared.
        let raw = unsafe { (self.python.interface.PyDict_GetItemString)(self.raw, name.as_ptr()) };
        (!raw.is_null()).then(|| self.python.share(raw))
    }

    pub(crate) fn set(&self, name: &CStr, value: &Object) -> Result<(), Raised> {
        // SAFETY: a dictionary, a C string, a live object.
        Python::done(unsafe {
            (self.python.interface.PyDict_SetItemString)(self.raw, name.as_ptr(), value.raw)
        })
    }

    pub(crate) fn remove(&self, name: &CStr) -> Result<(), Raised> {
        // SAFETY: a dictionary and a C string.
        Python::done(unsafe { (self.python.interface.PyDict_DelItemString)(self.raw, name.as_ptr()) })
    }

    pub(crate) fn set_item(&self, key: &Object, value: &Object) -> Result<(), Raised> {
        // SAFETY: a dictionary and live objects.
        Python::done(unsafe { (self.python.interface.PyDict_SetItem)(self.raw, key.raw, value.raw) })
    }

    /// Takes over everything another dictionary has.
    pub(crate) fn update(&self, other: &Object) -> Result<(), Raised> {
        // SAFETY: two dictionaries.
        Python::done(unsafe { (self.python.interface.PyDict_Update)(self.raw, other.raw) })
    }

    /// A dictionary with the same entries.
    pub(crate) fn copy(&self) -> Result<Object, Raised> {
        // SAFETY: Python checks that it is a dictionary.
        self.python.own(unsafe { (self.python.interface.PyDict_Copy)(self.raw) })
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
