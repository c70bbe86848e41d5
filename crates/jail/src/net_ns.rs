//! The network of a box: loopback and nothing else.

use crate::error::{At, JailError, Step};

/// Brings up `lo` in the network namespace this process just made.
pub fn loopback() -> Result<(), JailError> {
    crate::sys::loopback_up().at(Step::Network, "lo")
}
