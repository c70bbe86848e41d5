//! Puts what the zygote holds into large pages.
//!
//! A fork copies page tables and an exit walks them, so both take less time if there are fewer pages. What a child
//! writes to is copied in small pages nevertheless.

use std::ffi::c_void;

/// The size of a large page.
const LARGE: usize = 2 << 20;

/// Call it when everything is loaded that will be. Kernels older than 6.1 leave it as it is, which is only slower. What
/// others share with us would be theirs and ours apart afterwards, so it is left as it is, too.
pub(crate) fn use_large_pages(shared: &[(usize, usize)]) {
    const MADV_COLLAPSE: i32 = 25;
    for (start, end) in private_memory() {
        let (first, last) = (start.next_multiple_of(LARGE), end / LARGE * LARGE);
        let own = |at: &usize| !shared.iter().any(|(start, end)| *start < at + LARGE && *at < *end);
        for at in (first..last).step_by(LARGE).filter(own) {
            // SAFETY: only advises the kernel how to keep memory that stays what it is.
            unsafe { libc::madvise(at as *mut c_void, LARGE, MADV_COLLAPSE) };
        }
        // SAFETY: as above.
        unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_NOHUGEPAGE) };
    }
}

/// The places of this process that are its own and writable, with no file behind them.
pub(crate) fn private_memory() -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let place = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let own = fields.next()? == "rw-p" && matches!(fields.nth(3), None | Some("[heap]"));
        let number = |text| usize::from_str_radix(text, 16).ok();
        own.then_some((number(start)?, number(end)?))
    };
    maps.lines().filter_map(place).collect()
}
