//! Capabilities: none for user code, in all five sets; a handful for PID 1 where it has a uid of its own.

use crate::error::{At, JailError, Step};
use crate::mutant::{Mutant, lacks};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
};

/// What PID 1 of a two-id box needs: to start programs as the user, to end them, and to give this up.
pub const OF_INIT: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETPCAP);

/// Empties the bounding set, so that no program can ever gain what is not in it. Needs SETPCAP.
pub fn empty_bounding_set() -> Result<(), JailError> {
    if lacks(Mutant::Capabilities) {
        return Ok(());
    }
    for bit in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(()) => {}
            // The kernel knows no capability with this number, and so none above it.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(JailError::new(Step::Capabilities, "bounding set", errno)),
        }
    }
    Ok(())
}

/// Leaves exactly `keep` effective and permitted, nothing inheritable or ambient.
pub fn only(keep: CapabilitySet) -> Result<(), JailError> {
    clear_ambient_capability_set().at(Step::Capabilities, "ambient set")?;
    let sets = CapabilitySets { effective: keep, permitted: keep, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).at(Step::Capabilities, "capset")
}

/// Makes uid 0 mean nothing and locks it that way. Needs SETPCAP.
pub fn lock_secure_bits() -> Result<(), JailError> {
    if lacks(Mutant::Capabilities) {
        return Ok(());
    }
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    set_capabilities_secure_bits(bits).at(Step::Capabilities, "secure bits")
}
