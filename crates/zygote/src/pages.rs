//! Pages that every program writes to, whichever it is.
//!
//! A copy shares the memory of the interpreter until it writes, and its first write to a page is a fault in the middle of its
//! program. What it rehearses before it waits does not come to all of them: nothing is run to its very end there. So a fork
//! of the interpreter once goes all the way with a short program, and tells which pages it had to make its own. Copies do
//! that before they wait.
//!
//! It only saves time. Whatever goes wrong with it leaves no pages to be made anybody's.

use crate::child;
use crate::start::World;
use std::ffi::c_void;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

const PAGE: usize = 4096;
/// How long that fork may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// More pages than this are no short program's.
const MOST: usize = 256;

/// Addresses of pages.
#[derive(Default)]
pub(crate) struct Pages(Vec<usize>);

impl Pages {
    /// Has a fork try. This process has one thread, and is about to be forked anyway.
    pub(crate) fn tried(world: &World) -> Pages {
        Pages::told(world).unwrap_or_default()
    }

    fn told(world: &World) -> Option<Pages> {
        let proof = jail::SingleThreaded::prove()?;
        let (mut from, mut to) = std::io::pipe().ok()?;
        let Some(pid) = jail::sys::fork(&proof).ok()? else {
            drop(from);
            let pages: Vec<usize> = child::go_all_the_way(world, own_pages).unwrap_or_default();
            let bytes: Vec<u8> = pages.into_iter().take(MOST).flat_map(usize::to_ne_bytes).collect();
            let told = to.write_all(&bytes);
            jail::sys::exit_now(i32::from(told.is_err()))
        };
        drop(to);
        let mut ready = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor that outlives the call.
        let said = unsafe { libc::poll(&raw mut ready, 1, PATIENCE.as_millis() as i32) } == 1;
        let mut bytes = Vec::new();
        let read = said && from.read_to_end(&mut bytes).is_ok();
        let mut status = 0;
        // SAFETY: our own child, which nobody else waits for; it ends because it has said all or is killed.
        unsafe {
            libc::kill(pid.as_raw_nonzero().get(), libc::SIGKILL);
            libc::waitpid(pid.as_raw_nonzero().get(), &raw mut status, 0);
        }
        let number = |bytes: &[u8]| bytes.try_into().map(usize::from_ne_bytes).ok();
        read.then(|| Pages(bytes.chunks_exact(size_of::<usize>()).filter_map(number).collect()))
    }

    /// Makes them this process's own. Those that are not there any more stay away; kernels before 5.14 do nothing.
    pub(crate) fn make_own(&self) {
        let mut pages = self.0.iter().copied().peekable();
        while let Some(start) = pages.next() {
            let mut end = start + PAGE;
            while pages.next_if_eq(&end).is_some() {
                end += PAGE;
            }
            // SAFETY: what is there stays as it is; only whose it is changes.
            unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_POPULATE_WRITE) };
        }
    }
}

/// Pages of its private memory that nobody shares with this process, in their order.
fn own_pages() -> Option<Vec<usize>> {
    const PRESENT: u64 = 1 << 63;
    const OF_A_FILE: u64 = 1 << 61;
    const OWN: u64 = 1 << 56;
    let map = std::fs::File::open("/proc/self/pagemap").ok()?;
    let mut own = Vec::new();
    for line in std::fs::read_to_string("/proc/self/maps").ok()?.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        if fields.next()? != "rw-p" {
            continue;
        }
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        let mut words = vec![0; (end - start) / PAGE * size_of::<u64>()];
        map.read_exact_at(&mut words, (start / PAGE * size_of::<u64>()) as u64).ok()?;
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let is_own = |word: u64| word & PRESENT != 0 && word & OF_A_FILE == 0 && word & OWN != 0;
        let words = words.chunks_exact(size_of::<u64>()).map(word);
        own.extend((start..end).step_by(PAGE).zip(words).filter(|(_, word)| is_own(*word)).map(|(at, _)| at));
    }
    Some(own)
}
