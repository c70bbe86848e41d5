//! An interpreter that is no copy of another one, and still has a keeper: somebody who shares its memory and sleeps, so that
//! whoever waits for its end need not wait until the kernel has taken that memory down.
//!
//! It leaves the keeper behind before its `main`, while it has one thread, and behind the walls it stands behind already. It
//! is also spared what libraries do at the end of a process, which is to free memory, unless its program has loaded some.

use crate::finish;
use std::ffi::c_int;
use std::sync::OnceLock;

/// What had been loaded when it began.
static LIBRARIES: OnceLock<u64> = OnceLock::new();

type Exit = unsafe extern "C" fn(c_int) -> !;

/// Leaves the keeper behind, if it shall have one. What has none says why, where whoever waits for it hears it, and ends.
pub(crate) fn begin(keeper: bool) {
    match if keeper { jail::job::part_before_main() } else { Ok(()) } {
        Ok(()) => drop(LIBRARIES.set(finish::libraries())),
        Err(error) => {
            let said = jail::job::encode(&error);
            // SAFETY: writes from a value that outlives the call. Nobody is left to tell when it fails.
            unsafe { libc::write(1, said.as_ptr().cast(), said.len()) };
            jail::sys::exit_now(127)
        }
    }
}

/// Called by the program in place of the function of libc, when it is over.
///
/// # Safety
///
/// As for libc's.
// The tests of this crate are a program themselves, whose end is none of our business.
#[cfg(not(test))]
#[unsafe(no_mangle)]
unsafe extern "C" fn exit(code: c_int) -> ! {
    match LIBRARIES.get() {
        Some(before) => finish::exit(code, *before),
        None => ordinary_exit(code),
    }
}

/// Ends this process unless somebody else may have something to do at its end.
#[cfg(not(test))]
pub(crate) fn exit_at_once(code: c_int) {
    if let Some(before) = LIBRARIES.get()
        && *before == finish::libraries()
    {
        finish::exit(code, *before);
    }
}

/// What libc does at the end of a process.
pub(crate) fn ordinary_exit(code: c_int) -> ! {
    // SAFETY: the name is a C string; dlsym only searches.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"exit".as_ptr()) };
    if next.is_null() {
        std::process::abort();
    }
    // SAFETY: libc's function of that name has this type. It is for the thread that ends the program, which is ours.
    unsafe { std::mem::transmute::<*mut std::ffi::c_void, Exit>(next)(code) }
}
