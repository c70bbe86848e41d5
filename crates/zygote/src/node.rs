//! What Node.js finds in this library when it loads it as a module: `exitAtOnce(code)`.
//!
//! Node-API is the same in every version of it. Its functions are looked up when it asks for the module, because nobody else
//! has them.

use crate::kept;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

type Env = *mut c_void;
type Value = *mut c_void;
type Callback = unsafe extern "C" fn(Env, *mut c_void) -> Value;
type CreateFunction =
    unsafe extern "C" fn(Env, *const c_char, usize, Callback, *mut c_void, *mut Value) -> c_int;
type SetNamedProperty = unsafe extern "C" fn(Env, Value, *const c_char, Value) -> c_int;
type GetCallbackInfo =
    unsafe extern "C" fn(Env, *mut c_void, *mut usize, *mut Value, *mut Value, *mut *mut c_void) -> c_int;
type GetInt32 = unsafe extern "C" fn(Env, Value, *mut i32) -> c_int;

const OK: c_int = 0;
const NAME: &CStr = c"exitAtOnce";

/// What is needed when it is called.
struct Arguments {
    callback_info: GetCallbackInfo,
    int32: GetInt32,
}

static ARGUMENTS: OnceLock<Arguments> = OnceLock::new();

/// Called by Node.js when a program of its loads this library.
///
/// # Safety
///
/// Only Node.js may call it, with what it gives every module.
#[unsafe(no_mangle)]
unsafe extern "C" fn napi_register_module_v1(env: Env, exports: Value) -> Value {
    // SAFETY: these are the names and types of Node-API.
    let found = unsafe {
        (
            function::<CreateFunction>(c"napi_create_function"),
            function::<SetNamedProperty>(c"napi_set_named_property"),
            function::<GetCallbackInfo>(c"napi_get_cb_info"),
            function::<GetInt32>(c"napi_get_value_int32"),
        )
    };
    let (Some(create), Some(set), Some(callback_info), Some(int32)) = found else { return null_mut() };
    let _ = ARGUMENTS.set(Arguments { callback_info, int32 });
    let mut value = null_mut();
    // SAFETY: the name is a C string of that length, and everything else is what Node.js gave us.
    unsafe {
        if create(env, NAME.as_ptr(), NAME.count_bytes(), exit_at_once, null_mut(), &raw mut value) != OK {
            return null_mut();
        }
        set(env, exports, NAME.as_ptr(), value);
    }
    exports
}

/// Ends the process with the code it is given, if it can be ended at once.
unsafe extern "C" fn exit_at_once(env: Env, info: *mut c_void) -> Value {
    let Some(arguments) = ARGUMENTS.get() else { return null_mut() };
    let (mut count, mut given, mut code) = (1, null_mut(), 0);
    // SAFETY: Node.js calls this with what its own functions take; there is room for the one argument that is asked for.
    let understood = unsafe {
        (arguments.callback_info)(env, info, &raw mut count, &raw mut given, null_mut(), null_mut()) == OK
            && (arguments.int32)(env, given, &raw mut code) == OK
    };
    if understood {
        kept::exit_at_once(code);
    }
    null_mut()
}

/// A function of the program that has loaded us.
///
/// # Safety
///
/// It has to have that type.
unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the name is a C string; dlsym only searches.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: a function pointer is as large as the pointer that was found, and not null.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}
