//! Keeps code in large pages.
//!
//! A processor that has slept, or served others, has forgotten where pages are, and finds each of them again by several looks
//! at memory. What serves a request is spread over hundreds of small pages, or a few large ones. The kernel keeps code of
//! files in small ones, so it is moved to memory of the process. It only saves time: what goes wrong leaves code where it is.

use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::sync::Once;

/// The size of a large page.
const LARGE: usize = 2 << 20;
/// More than this is not worth it.
const MOST: usize = 64 << 20;

/// Moves this program's own code, and what is only read beside it, as far as they fill large pages, once.
pub fn own_code() {
    static MOVED: Once = Once::new();
    MOVED.call_once(move_own_code);
}

fn move_own_code() {
    let allowed = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let file = file_around(&maps, own_code as *const () as usize);
    let (Some(first), Some(last)) = (file.first(), file.last()) else { return };
    let (start, end) = (first.0.start.next_multiple_of(LARGE), last.0.end / LARGE * LARGE);
    if allowed.contains("[never]") || allowed.is_empty() || end.saturating_sub(start) > MOST {
        return;
    }
    for page in (start..end).step_by(LARGE).map(|at| at..at + LARGE) {
        if moved(&page, is_executed(&file, &page)).is_err() {
            return;
        }
    }
}

/// A place of a file in memory, and whether it is executed.
type Place = (Range<usize>, bool);

/// Places of one file that lie one behind the other around an address, and that nobody writes to.
fn file_around(maps: &str, address: usize) -> Vec<Place> {
    let mut places: Vec<(Place, &str)> = Vec::new();
    for (place, file) in maps.lines().filter_map(place) {
        let follows = |((before, _), its): &(Place, &str)| before.end == place.0.start && *its == file;
        if !places.last().is_some_and(follows) {
            if places.iter().any(|((place, _), _)| place.contains(&address)) {
                break;
            }
            places.clear();
        }
        places.push((place, file));
    }
    let found = places.iter().any(|((place, _), _)| place.contains(&address));
    places.into_iter().filter(|_| found).map(|(place, _)| place).collect()
}

/// A line about a place that is only read or executed, and the file.
fn place(line: &str) -> Option<(Place, &str)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let executed = match fields.next()? {
        "r-xp" => true,
        "r--p" => false,
        _ => return None,
    };
    let file = fields.nth(3).filter(|file| file.starts_with('/'))?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(((number(start)?..number(end)?, executed), file))
}

fn is_executed(file: &[Place], page: &Range<usize>) -> bool {
    file.iter().any(|(place, executed)| *executed && place.start < page.end && page.start < place.end)
}

fn moved(page: &Range<usize>, executed: bool) -> io::Result<()> {
    let (private, changing) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
    let protection = libc::PROT_READ | if executed { libc::PROT_EXEC } else { 0 };
    let done = |answer: c_int| if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: new memory that nobody else knows of. It takes the place of what it is a copy of, which nobody writes to and
    // which looks the same then; what is not needed of it is given back.
    unsafe {
        let room = libc::mmap(std::ptr::null_mut(), 2 * LARGE, changing, private, -1, 0);
        if room == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let before = (room as usize).next_multiple_of(LARGE) - room as usize;
        let copy = room.byte_add(before);
        let moved = done(libc::madvise(copy, LARGE, libc::MADV_HUGEPAGE)).and_then(|()| {
            std::ptr::copy_nonoverlapping(page.start as *const u8, copy.cast(), LARGE);
            done(libc::mprotect(copy, LARGE, protection))?;
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let place = libc::mremap(copy, LARGE, LARGE, flags, page.start as *mut c_void);
            done(if place == libc::MAP_FAILED { -1 } else { 0 })
        });
        let left = match moved {
            Ok(()) => [(0, before), (before + LARGE, LARGE - before)],
            Err(_) => [(0, 2 * LARGE), (0, 0)],
        };
        for (start, length) in left.into_iter().filter(|(_, length)| *length > 0) {
            libc::munmap(room.byte_add(start), length);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00400000-0041f000 r--p 00000000 00:17 1 /usr/bin/python3.11
0041f000-006d2000 r-xp 0001f000 00:17 1 /usr/bin/python3.11
006d2000-00945000 r--p 002d2000 00:17 1 /usr/bin/python3.11
00945000-00946000 r--p 00544000 00:17 1 /usr/bin/python3.11
00946000-00a84000 rw-p 00545000 00:17 1 /usr/bin/python3.11
00a84000-00ac9000 rw-p 00000000 00:00 0
7f0000000000-7f0000200000 r-xp 00000000 00:17 2 /usr/lib/libc.so.6
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0 [vdso]
";

    #[test]
    fn a_file_is_what_lies_together_of_it_and_is_not_written_to() {
        let python = file_around(MAPS, 0x0050_0000);
        assert_eq!(python.first().unwrap().0.start, 0x0040_0000);
        assert_eq!(python.last().unwrap().0.end, 0x0094_6000);
        assert_eq!(file_around(MAPS, 0x7f00_0000_1000).len(), 1);
        for address in [0x0030_0000, 0x0095_0000, 0x7ffd_0000_0000] {
            assert!(file_around(MAPS, address).is_empty(), "{address:x}");
        }
        assert!(is_executed(&python, &(0x0040_0000..0x0060_0000)));
        assert!(!is_executed(&python, &(0x0070_0000..0x0090_0000)));
    }

    #[test]
    fn what_is_moved_looks_the_same_and_may_not_be_written_to() {
        let (private, changing) =
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
        for executed in [false, true] {
            // SAFETY: memory of this test alone, which is read while it is there.
            let (place, looks) = unsafe {
                let place = libc::mmap(std::ptr::null_mut(), 2 * LARGE, changing, private, -1, 0);
                assert_ne!(place, libc::MAP_FAILED);
                let page = (place as usize).next_multiple_of(LARGE);
                let bytes = std::slice::from_raw_parts_mut(page as *mut u8, LARGE);
                bytes.iter_mut().zip(0u32..).for_each(|(byte, number)| *byte = (number % 251) as u8);
                moved(&(page..page + LARGE), executed).unwrap();
                let bytes = std::slice::from_raw_parts(page as *const u8, LARGE);
                (page, bytes.iter().zip(0u32..).all(|(byte, number)| *byte == (number % 251) as u8))
            };
            assert!(looks);
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let line = maps.lines().find(|line| line.starts_with(&format!("{place:x}-"))).unwrap();
            assert!(line.contains(if executed { "r-xp 00000000" } else { "r--p 00000000" }), "{line}");
        }
    }
}
