//! The part of CPython's C interface that is used here, found in the running program.
//!
//! The library is not linked with any Python: it is loaded into one, and looks up what it needs by name. Only
//! documented functions that CPython 3.9 to 3.14 have are used, so one build serves them all.

mod interpreter;
mod object;

pub(crate) use interpreter::{Python, Raised, SourceFile};
pub(crate) use object::{Identity, Object};

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};

/// A `PyObject *`.
pub(super) type Raw = *mut c_void;

/// A `PyStatus`.
#[repr(C)]
pub(super) struct Status {
    pub(super) kind: c_int,
    pub(super) function: *const c_char,
    pub(super) message: *const c_char,
    pub(super) code: c_int,
}

/// Room for a `PyConfig`, which is a tenth of this in every version so far. It is only ever touched by Python.
#[repr(C, align(16))]
pub(super) struct Config(pub(super) [u8; 8 << 10]);

macro_rules! interface {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions and variables of Python, under the names they have there.
        #[allow(non_snake_case)]
        pub(super) struct Interface {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// `None`.
            pub(super) none: Raw,
            /// The class of integers.
            pub(super) integer: Raw,
            /// The class of weak references.
            pub(super) weak_reference: Raw,
            /// The class of strings.
            pub(super) text: Raw,
            /// The class of modules.
            pub(super) module: Raw,
            pub(super) system_exit: *const Raw,
            pub(super) keyboard_interrupt: *const Raw,
        }

        impl Interface {
            /// Looks everything up. Fails with the first name that is not there.
            pub(super) fn find() -> Result<Interface, String> {
                Ok(Interface {
                    // SAFETY: the types are those of Python's headers, unchanged from 3.9 to 3.14.
                    $($name: unsafe {
                        std::mem::transmute::<Raw, unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            symbol(concat!(stringify!($name), "\0"))?)
                    },)*
                    none: symbol("_Py_NoneStruct\0")?,
                    integer: symbol("PyLong_Type\0")?,
                    weak_reference: symbol("_PyWeakref_RefType\0")?,
                    text: symbol("PyUnicode_Type\0")?,
                    module: symbol("PyModule_Type\0")?,
                    system_exit: symbol("PyExc_SystemExit\0")?.cast(),
                    keyboard_interrupt: symbol("PyExc_KeyboardInterrupt\0")?.cast(),
                })
            }
        }
    };
}

interface! {
    PyConfig_InitPythonConfig: fn(*mut Config);
    PyConfig_SetBytesArgv: fn(*mut Config, isize, *const *mut c_char) -> Status;
    PyConfig_Clear: fn(*mut Config);
    Py_InitializeFromConfig: fn(*const Config) -> Status;
    Py_FinalizeEx: fn() -> c_int;
    PyOS_BeforeFork: fn();
    PyOS_AfterFork_Child: fn();
    PyInterpreterState_Head: fn() -> Raw;
    PyInterpreterState_Next: fn(Raw) -> Raw;
    PyInterpreterState_ThreadHead: fn(Raw) -> Raw;
    PyThreadState_Next: fn(Raw) -> Raw;
    PyGC_Collect: fn() -> isize;
    Py_CompileString: fn(*const c_char, *const c_char, c_int) -> Raw;
    PyEval_EvalCode: fn(Raw, Raw, Raw) -> Raw;
    PyRun_FileExFlags: fn(*mut libc::FILE, *const c_char, c_int, Raw, Raw, c_int, Raw) -> Raw;
    PyImport_ImportModule: fn(*const c_char) -> Raw;
    PyImport_GetImporter: fn(Raw) -> Raw;
    PyImport_GetModuleDict: fn() -> Raw;
    PyModule_New: fn(*const c_char) -> Raw;
    PyModule_GetDict: fn(Raw) -> Raw;
    PySys_GetObject: fn(*const c_char) -> Raw;
    PySys_SetObject: fn(*const c_char, Raw) -> c_int;
    PySys_WriteStderr: fn(*const c_char);
    PyErr_WriteUnraisable: fn(Raw);
    PyErr_Occurred: fn() -> Raw;
    PyErr_ExceptionMatches: fn(Raw) -> c_int;
    PyErr_Fetch: fn(*mut Raw, *mut Raw, *mut Raw);
    PyErr_Restore: fn(Raw, Raw, Raw);
    PyErr_NormalizeException: fn(*mut Raw, *mut Raw, *mut Raw);
    PyErr_Clear: fn();
    PyErr_Print: fn();
    Py_IncRef: fn(Raw);
    Py_DecRef: fn(Raw);
    PyObject_GetAttrString: fn(Raw, *const c_char) -> Raw;
    PyObject_Call: fn(Raw, Raw, Raw) -> Raw;
    PyObject_Type: fn(Raw) -> Raw;
    PyObject_Str: fn(Raw) -> Raw;
    PyObject_Repr: fn(Raw) -> Raw;
    PyObject_IsTrue: fn(Raw) -> c_int;
    PyObject_IsInstance: fn(Raw, Raw) -> c_int;
    PyType_GetFlags: fn(Raw) -> c_ulong;
    PyType_GetSlot: fn(Raw, c_int) -> Raw;
    PyFile_WriteObject: fn(Raw, Raw, c_int) -> c_int;
    PyTuple_New: fn(isize) -> Raw;
    PyTuple_SetItem: fn(Raw, isize, Raw) -> c_int;
    PyList_New: fn(isize) -> Raw;
    PyList_Append: fn(Raw, Raw) -> c_int;
    PyList_Insert: fn(Raw, isize, Raw) -> c_int;
    PyList_Size: fn(Raw) -> isize;
    PyList_GetItem: fn(Raw, isize) -> Raw;
    PyDict_New: fn() -> Raw;
    PyDict_Copy: fn(Raw) -> Raw;
    PyDict_Update: fn(Raw, Raw) -> c_int;
    PyDict_GetItemString: fn(Raw, *const c_char) -> Raw;
    PyDict_SetItemString: fn(Raw, *const c_char, Raw) -> c_int;
    PyDict_DelItemString: fn(Raw, *const c_char) -> c_int;
    PyDict_GetItem: fn(Raw, Raw) -> Raw;
    PyDict_Clear: fn(Raw);
    PyDict_Next: fn(Raw, *mut isize, *mut Raw, *mut Raw) -> c_int;
    PyDict_SetItem: fn(Raw, Raw, Raw) -> c_int;
    PyWeakref_NewRef: fn(Raw, Raw) -> Raw;
    PyUnicode_DecodeFSDefaultAndSize: fn(*const c_char, isize) -> Raw;
    PyUnicode_AsUTF8AndSize: fn(Raw, *mut isize) -> *const c_char;
    PyBytes_FromStringAndSize: fn(*const c_char, isize) -> Raw;
    PyLong_AsLong: fn(Raw) -> c_long;
}

/// The address of something that this process has under that name.
fn symbol(name: &'static str) -> Result<Raw, String> {
    let c_name = CStr::from_bytes_with_nul(name.as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the name is a C string; dlsym only searches.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c_name.as_ptr()) };
    if address.is_null() {
        return Err(format!(
            "this program is not a Python that can be used: it has no `{}`",
            name.trim_end_matches('\0')
        ));
    }
    Ok(address)
}
