//! Descriptors of a child: exactly the ones that are meant, at exactly the numbers that are meant.

use crate::error::{At, JailError, Step};
use crate::mutant::{Mutant, lacks};
use crate::sys;
use rustix::fd::{AsFd, IntoRawFd, OwnedFd};

/// Makes `keep[i]` descriptor number `i`, then those of `until_exec`, and closes every other one.
///
/// For a child that never returns to its parent's code: what is left in memory of other descriptors must not
/// be used or dropped. Sources are first moved out of the way of all targets, so that no target overwrites a
/// source that is still needed. Returns those of `until_exec`, which close themselves at exec.
pub fn exactly(keep: Vec<OwnedFd>, until_exec: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, JailError> {
    let kept = keep.len() as i32;
    let all = kept + until_exec.len() as i32;
    let sources: Vec<OwnedFd> = keep.into_iter().chain(until_exec).collect();
    let moved = sources
        .iter()
        .map(|fd| sys::duplicate_above(fd.as_fd(), all))
        .collect::<Result<Vec<_>, _>>()
        .at(Step::Descriptors, "duplicate")?;
    for (number, fd) in (0..).zip(&moved) {
        sys::copy_fd(fd.as_fd(), number, number >= kept).at(Step::Descriptors, "place")?;
    }
    // Each of the originals, and of their copies out of the way, has been replaced by now or is closed with the rest:
    // one call for all of them.
    for fd in sources.into_iter().chain(moved) {
        let _ = fd.into_raw_fd();
    }
    sys::close_from(all as u32).at(Step::Descriptors, "close the rest")?;
    Ok((kept..all).filter_map(sys::inherited).collect())
}

/// Makes these descriptors 0, 1 and 2 of this process, and closes every other one. They stay what they are for
/// a parent that shares its memory with us, but not its descriptors.
pub fn only(streams: &[OwnedFd; 3]) -> Result<(), JailError> {
    // Out of the way of all targets first.
    let moved = streams.each_ref().map(|fd| sys::duplicate_above(fd.as_fd(), 3));
    for (number, fd) in (0..).zip(moved) {
        let fd = fd.at(Step::Descriptors, "duplicate")?;
        sys::copy_fd(fd.as_fd(), number, false).at(Step::Descriptors, "place")?;
    }
    if lacks(Mutant::Descriptors) {
        sys::keep_all_at_exec();
        return Ok(());
    }
    sys::close_from(3).at(Step::Descriptors, "close the rest")
}
