//! A session keyring of the box's own, so that keys of the host or of other boxes cannot be found by it.

use crate::error::{At, JailError, Step};

/// Joins a fresh, empty session keyring. A kernel without keyrings has nothing to hide.
pub fn fresh() -> Result<(), JailError> {
    match crate::sys::new_session_keyring() {
        Err(rustix::io::Errno::NOSYS) => Ok(()),
        other => other.at(Step::Keyring, "session keyring"),
    }
}
