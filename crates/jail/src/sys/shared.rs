//! Memory that processes have together: all of it, with a keeper, or one page, as a note or a tally.

use super::last_errno;
use crate::SingleThreaded;
use crate::spec::MOST_SEATS;
use rustix::io::Errno;
use rustix::process::Pid;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Starts a process that shares our memory, holds no descriptor, and sleeps until it is killed. It is a child of ours
/// of which no signal tells and for which nobody waits who does not ask for such children.
///
/// When we end, our memory stays, so that nobody who waits for our end has to wait until the kernel has taken it down.
pub fn leave_keeper(_proof: &SingleThreaded) -> Result<Pid, Errno> {
    let pid = keeper(libc::CLONE_VM);
    if pid < 0 {
        return Err(Errno::from_raw_os_error(-pid as i32));
    }
    Pid::from_raw(pid as i32).ok_or(Errno::INVAL)
}

#[cfg(target_arch = "x86_64")]
fn keeper(flags: libc::c_int) -> isize {
    let result;
    // SAFETY: the new process uses our memory, but neither our stack nor any other place of it: it stays in these
    // lines, which only call the kernel, with integers. For us the call changes two registers, which are named.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 3f",
            "xor edi, edi",
            "mov esi, 0xffffffff",
            "xor edx, edx",
            "mov eax, {close_range}",
            "syscall",
            "2:",
            "mov eax, {pause}",
            "syscall",
            "jmp 2b",
            "3:",
            close_range = const libc::SYS_close_range,
            pause = const libc::SYS_pause,
            inlateout("rax") libc::SYS_clone as isize => result,
            in("rdi") flags as usize,
            in("rsi") 0,
            in("rdx") 0,
            in("r10") 0,
            in("r8") 0,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
fn keeper(flags: libc::c_int) -> isize {
    let result;
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 3f",
            "mov x0, #0",
            "mov w1, #-1",
            "mov x2, #0",
            "mov x8, {close_range}",
            "svc #0",
            "2:",
            "mov x0, #0",
            "mov x1, #0",
            "mov x2, #0",
            "mov x3, #0",
            "mov x8, {ppoll}",
            "svc #0",
            "b 2b",
            "3:",
            close_range = const libc::SYS_close_range,
            ppoll = const libc::SYS_ppoll,
            inlateout("x0") flags as isize => result,
            in("x1") 0,
            in("x2") 0,
            in("x3") 0,
            in("x4") 0,
            in("x8") libc::SYS_clone,
            options(nostack),
        );
    }
    result
}

/// A place in memory that this process shares with the processes it forks, until they execute something.
#[derive(Debug)]
pub struct Note(*mut [u8; Note::ROOM]);

// SAFETY: it is only ever used by processes of one thread, one after the other.
unsafe impl Send for Note {}
// SAFETY: as above.
unsafe impl Sync for Note {}

impl Note {
    const ROOM: usize = 4096;

    /// An empty one.
    pub fn new(_proof: &SingleThreaded) -> Result<Note, Errno> {
        shared(Note::ROOM).map(|place| Note(place.cast()))
    }

    /// Writes this, as far as there is room.
    pub fn write(&self, bytes: &[u8]) {
        let length = bytes.len().min(Note::ROOM - 2);
        // SAFETY: the mapping is that long and stays. Whoever reads it does so when the writer has ended.
        unsafe {
            let place = self.0.cast::<u8>();
            place.cast::<u16>().write(length as u16);
            place.add(2).copy_from_nonoverlapping(bytes.as_ptr(), length);
        }
    }

    /// What was written, if anything was.
    pub fn read(&self) -> Option<Vec<u8>> {
        // SAFETY: as above.
        let bytes = unsafe { *self.0 };
        let length = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        bytes.get(2..2 + length).filter(|bytes| !bytes.is_empty()).map(<[u8]>::to_vec)
    }
}

/// A number for each seat of a box, that all of them see.
#[derive(Debug)]
pub struct Tally {
    all: *const [AtomicU64; MOST_SEATS],
    own: usize,
}

impl Tally {
    /// One that the processes will share that are forked from now on, the number of the first seat at hand.
    pub fn new(_proof: &SingleThreaded) -> Result<Tally, Errno> {
        shared(size_of::<[AtomicU64; MOST_SEATS]>()).map(|place| Tally { all: place.cast(), own: 0 })
    }

    /// The same, with the number of this seat at hand.
    pub fn of(&self, seat: usize) -> Tally {
        Tally { all: self.all, own: seat.min(MOST_SEATS - 1) }
    }

    fn all(&self) -> &[AtomicU64; MOST_SEATS] {
        // SAFETY: the mapping is that large, aligned to a page, zero at first, which is a valid number, and stays.
        unsafe { &*self.all }
    }

    /// Changes the own number.
    pub fn set(&self, number: u64) {
        self.all()[self.own].store(number, Relaxed);
    }

    /// Those of all others, as they are at one moment.
    pub fn others(&self) -> Others {
        let others = self.all().iter().enumerate().filter(|(seat, _)| *seat != self.own);
        others.map(|(_, number)| number.load(Relaxed)).fold(Others::default(), |all, number| Others {
            together: all.together.saturating_add(number),
            most: all.most.max(number),
        })
    }
}

/// What the other seats of a box have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Others {
    /// All of them.
    pub together: u64,
    /// The one with the most.
    pub most: u64,
}

/// Memory, all zeroes, that this process shares with those it forks. It is never given back.
fn shared(length: usize) -> Result<*mut libc::c_void, Errno> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever there is room.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    if place == libc::MAP_FAILED { Err(last_errno()) } else { Ok(place) }
}
