//! What this library is told by whoever starts it, and how it hides that it was told.
//!
//! Settings come in the environment, those of a branch by its order. They, and the variable that loaded the library, are wiped before Python
//! starts, so that no program finds them: neither in its environment nor in the memory `/proc` shows of it.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};

const SETTINGS: &CStr = c"SANDBOXD_ZYGOTE";
/// For an interpreter that is none of ours, and leaves a keeper.
const KEEPER: &CStr = c"SANDBOXD_KEEPER";
/// What only the loader has to know.
const LOADER: [&CStr; 2] = [c"LD_PRELOAD", c"LD_BIND_NOW"];

/// What to do before the first program is known.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Modules to import. One that is not there is reported and left out.
    #[serde(default)]
    pub(crate) preload: Vec<String>,
    /// Python programs that are executed here. What they write goes nowhere.
    #[serde(default)]
    pub(crate) warm_up: Vec<String>,
    /// Variables that are set while modules are imported.
    #[serde(default)]
    pub(crate) load_env: BTreeMap<String, String>,
}

impl Settings {
    /// Takes them out of the environment. `None` when there are none: then this is a Python like any other.
    pub(crate) fn take() -> Option<Result<Settings, String>> {
        let text = take_variable(SETTINGS)?;
        LOADER.iter().for_each(|name| drop(take_variable(name)));
        Some(Settings::parse(&text))
    }

    pub(crate) fn parse(text: &[u8]) -> Result<Settings, String> {
        serde_json::from_slice(text).map_err(|error| format!("`{}`: {error}", SETTINGS.to_string_lossy()))
    }
}

/// Whether this is an interpreter that ends at once, and leaves a keeper unless it says `none`. Asked once.
pub(crate) fn wants_keeper() -> Option<bool> {
    let keeper = take_variable(KEEPER)?;
    LOADER.iter().for_each(|name| drop(take_variable(name)));
    Some(keeper != b"none")
}

/// Variables that are there until this is dropped. Python does not see them, but what it loads does.
pub(crate) struct Lent(Vec<CString>);

impl Lent {
    pub(crate) fn new(variables: &BTreeMap<String, String>) -> Lent {
        let pairs = variables.iter().filter_map(|(name, value)| {
            Some((CString::new(name.as_str()).ok()?, CString::new(value.as_str()).ok()?))
        });
        let lend = |(name, value): (CString, CString)| {
            // SAFETY: two C strings, which libc copies; there is one thread.
            unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
            name
        };
        Lent(pairs.map(lend).collect())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        for name in &self.0 {
            // SAFETY: a C string; there is one thread.
            unsafe { libc::unsetenv(name.as_ptr()) };
        }
    }
}

/// The value of a variable, which is no longer there afterwards.
fn take_variable(name: &CStr) -> Option<Vec<u8>> {
    // SAFETY: this runs before Python, in the only thread, so nobody changes the environment meanwhile.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv gave a C string.
    let copy = unsafe { CStr::from_ptr(value) }.to_bytes().to_vec();
    let whole = name.count_bytes() + 1 + copy.len();
    // SAFETY: as above; the name is a C string.
    unsafe { libc::unsetenv(name.as_ptr()) };
    // SAFETY: `NAME=value` is one string on the initial stack, writable, and the value begins after the `=`.
    // The environment no longer refers to it.
    unsafe { value.cast::<c_char>().sub(name.count_bytes() + 1).write_bytes(0, whole) };
    Some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_nothing_and_what_is_unknown_is_refused() {
        let read = |text| serde_json::from_str::<Settings>(text);
        assert_eq!(read("{}").unwrap(), Settings::default());
        let some = read(r#"{"preload": ["re"], "warm_up": ["1"]}"#).unwrap();
        let wanted =
            Settings { preload: vec!["re".into()], warm_up: vec!["1".into()], ..Settings::default() };
        assert_eq!(some, wanted);
        assert!(read(r#"{"preloads": []}"#).is_err());
    }
}
