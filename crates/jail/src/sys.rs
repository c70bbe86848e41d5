//! The few system calls that rustix lacks, each behind a safe function.

mod shared;

pub use shared::{Note, Others, Tally, leave_keeper};

use crate::SingleThreaded;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Signal};
use rustix::thread::CpuSet;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The constant in libc is an int, which this value does not fit.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result < 0 { Err(last_errno()) } else { Ok(result) }
}

fn last_errno() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// What a file of the kernel's says. It has no size, and reading it in small pieces takes longer than what it says is
/// worth.
pub fn read_kernel_file(path: impl AsRef<Path>) -> std::io::Result<String> {
    let mut text = String::with_capacity(4096);
    std::fs::File::open(path)?.take(u64::MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Forked {
    /// The new process, with a token of its own.
    Child(SingleThreaded),
    /// The old process, with the new one's id and a descriptor for it.
    Parent(Pid, OwnedFd),
}

/// Forks into new namespaces (`flags` of `clone3`), and straight into a v2 cgroup when one is given.
pub fn fork_into(
    _proof: &SingleThreaded,
    flags: u64,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Forked, Errno> {
    let mut pidfd: RawFd = -1;
    // SAFETY: clone_args is plain integers, for which all zeroes is a valid value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = flags | libc::CLONE_PIDFD as u64;
    args.pidfd = std::ptr::from_mut(&mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(fd) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = fd.as_raw_fd() as u64;
    }
    // SAFETY: without CLONE_VM the child gets a copy of this address space and returns on its own copy of
    // this stack. The token proves that no other thread can hold a lock the child would wait for. `args`
    // and `pidfd` outlive the call.
    let pid =
        check(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) })?;
    match Pid::from_raw(pid as i32) {
        None => Ok(Forked::Child(SingleThreaded::of_fork())),
        // SAFETY: the kernel stored a fresh descriptor that nobody else knows of.
        Some(pid) => Ok(Forked::Parent(pid, unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// Sends a process that was just forked to another processor, if we may use more than the one we are on. Left to
/// itself it would wait there until we do, although the others are idle.
pub fn run_elsewhere(pid: Pid, mut processors: CpuSet) {
    processors.unset(rustix::thread::sched_getcpu());
    if processors.count() > 0 {
        // It would only be slower.
        let _ = rustix::thread::sched_setaffinity(Some(pid), &processors);
    }
}

/// Takes [`run_elsewhere`] back, in the process that was sent.
pub fn run_anywhere(processors: &Option<CpuSet>) {
    if let Some(processors) = processors {
        let _ = rustix::thread::sched_setaffinity(None, processors);
    }
}

/// Forks the ordinary way, so that the C library knows of it. `None` in the new process.
pub fn fork(_proof: &SingleThreaded) -> Result<Option<Pid>, Errno> {
    // SAFETY: the token proves that no other thread can hold a lock the child would wait for.
    let pid = check(libc::c_long::from(unsafe { libc::fork() }))?;
    Ok(Pid::from_raw(pid as i32))
}

/// A child that runs `work` in our memory and on our time: we go on when it has replaced itself by a program, or
/// has come to the end of `work` and so to its own end.
///
/// That saves the copy of our address space, which the program would throw away at once. Descriptors, signal
/// actions, ids and everything else of the kernel are the child's own; memory is not, so what `work` leaves
/// allocated when it executes a program stays allocated here.
pub fn lend_to_child(_proof: &SingleThreaded, work: &mut dyn FnMut()) -> Result<Pid, Errno> {
    extern "C" fn child(work: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer below, which is valid while our caller is suspended, and that is all our life.
        let work = unsafe { &mut *work.cast::<&mut dyn FnMut()>() };
        work();
        exit_now(127)
    }
    let mut stack = vec![0u128; CHILD_STACK / 16];
    let mut work = work;
    // SAFETY: the child gets the high end of a stack of its own, aligned to 16 bytes, which outlives it: with
    // CLONE_VFORK the kernel lets us go on only when the child no longer uses our memory. The token proves that no
    // thread but us uses it meanwhile.
    let pid = check(libc::c_long::from(unsafe {
        libc::clone(
            child,
            stack.as_mut_ptr_range().end.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw mut work).cast(),
        )
    }))?;
    Pid::from_raw(pid as i32).ok_or(Errno::INVAL)
}

/// Enough for the ladder of a program, whose deepest step formats an error.
const CHILD_STACK: usize = 256 << 10;

/// A program with its arguments, laid out as the kernel wants them.
#[derive(Debug)]
pub struct Image<'a> {
    path: &'a std::ffi::CStr,
    argv: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
}

impl<'a> Image<'a> {
    /// Lays them out.
    pub fn new(
        path: &'a std::ffi::CStr,
        argv: &'a [std::ffi::CString],
        env: &'a [std::ffi::CString],
    ) -> Image<'a> {
        Image { path, argv: pointers(argv), env: pointers(env) }
    }

    /// Replaces this process by it. Returns only on failure.
    pub fn execute(&self) -> Errno {
        // SAFETY: both arrays end in a null pointer and point at strings that outlive this value; the path is a C
        // string.
        unsafe { libc::execve(self.path.as_ptr(), self.argv.as_ptr(), self.env.as_ptr()) };
        last_errno()
    }
}

fn pointers(strings: &[std::ffi::CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Ends this process at once, running no destructor and flushing nothing.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes any number and does not return.
    unsafe { libc::_exit(code) }
}

/// Closes every descriptor from `first` on.
pub fn close_from(first: u32) -> Result<(), Errno> {
    // SAFETY: close_range touches no memory. Descriptors it closes that some value of this process still
    // owns would be closed twice; callers are children about to exec, which run no destructor.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_UNSHARE) })
        .map(drop)
}

/// Lets every descriptor survive exec: what [`close_from`] is there to prevent.
pub(crate) fn keep_all_at_exec() {
    for fd in 3..256 {
        // SAFETY: fcntl with these integer arguments touches no memory; a number that is not open answers EBADF.
        unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
    }
}

/// Makes `to` a copy of `from`.
pub fn copy_fd(from: BorrowedFd<'_>, to: RawFd, close_on_exec: bool) -> Result<(), Errno> {
    let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: dup3 touches no memory. Whatever was open as `to` is replaced; callers are children about to
    // exec that own nothing at that number.
    check(libc::c_long::from(unsafe { libc::dup3(from.as_raw_fd(), to, flags) })).map(drop)
}

/// Duplicates `fd` to a number that is at least `lowest`, with close-on-exec.
pub fn duplicate_above(fd: BorrowedFd<'_>, lowest: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: fcntl with these integer arguments touches no memory.
    let fd =
        check(libc::c_long::from(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) }))?;
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Takes ownership of a descriptor that this process inherited at a known number.
///
/// `None` when nothing is open there.
pub fn inherited(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: fcntl(F_GETFD) touches no memory and only asks whether the number is open.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: it is open, and by contract the caller asks once for each number it was started with.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Joins a fresh, empty session keyring.
pub fn new_session_keyring() -> Result<(), Errno> {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for an anonymous keyring; no memory is touched.
    check(unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>()) })
        .map(drop)
}

/// A descriptor that becomes readable when a child changes state. Blocks SIGCHLD for this process.
pub fn child_signals() -> Result<OwnedFd, Errno> {
    // SAFETY: a sigset_t is filled by sigemptyset before use; the pointers are valid for each call.
    let fd = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        check(libc::c_long::from(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())))?;
        check(libc::c_long::from(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)))?
    };
    // SAFETY: signalfd returned a fresh descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Signals whose action is not the default one, a bit each; all of them until somebody has looked.
static CHANGED_SIGNALS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Finds out which signals have another action than the default one, while there is time: then [`reset_signals`] need
/// not touch the others. Where `/proc` does not tell, it touches all.
pub fn look_at_signals(_proof: &SingleThreaded) {
    let status = read_kernel_file("/proc/self/status").unwrap_or_default();
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    if let (Some(ignored), Some(caught)) = (set("SigIgn:"), set("SigCgt:")) {
        CHANGED_SIGNALS.store(ignored | caught, Relaxed);
    }
}

/// The most this process may ask for of a resource. Where the kernel does not tell that is an error, for which rustix has
/// no word.
pub fn most_of(resource: Resource) -> Result<u64, Errno> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let nothing_new = std::ptr::null::<libc::rlimit64>();
    // SAFETY: the kernel writes one limit to a place that is large enough, and reads none.
    check(unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource as u32, nothing_new, &raw mut limit) })?;
    Ok(limit.rlim_max)
}

/// Puts every signal back to its default action and unblocks all of them.
pub fn reset_signals() {
    /// Handler, flags, restorer and mask, as the kernel knows them; all zero is the default action.
    const DEFAULT: [u64; 4] = [0; 4];
    let changed = CHANGED_SIGNALS.load(Relaxed);
    for signal in (1..=64).filter(|signal| changed & (1 << (signal - 1)) != 0) {
        // By the bare call, because libc keeps two numbers to itself and would leave them as inherited.
        // SAFETY: the kernel reads one action from a place that is large enough; numbers that allow no action
        // answer EINVAL, which changes nothing.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                std::ptr::null_mut::<u64>(),
                8usize,
            )
        };
    }
    // SAFETY: the set is initialised before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Lets the signals by which people end a program wait, or no longer.
pub fn hold_endings(hold: bool) {
    let how = if hold { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is initialised before it is read, and these numbers are valid.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(how, &raw const set, std::ptr::null_mut());
    }
}

/// Ignores SIGPIPE, so that a vanished reader is an error instead of death.
pub fn ignore_broken_pipes() {
    // SAFETY: SIG_IGN is a valid action for SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    CHANGED_SIGNALS.fetch_or(1 << (libc::SIGPIPE - 1), Relaxed);
}

/// Sends a signal to every process this one may signal, except itself and PID 1.
///
/// For PID 1 of a pid namespace that is everybody else in the box, whatever they do meanwhile. It refuses
/// to be called by anybody else.
pub fn signal_everybody_else(_proof: &SingleThreaded, signal: Signal) -> Result<(), Errno> {
    if rustix::process::getpid() != Pid::INIT {
        return Err(Errno::PERM);
    }
    // SAFETY: kill touches no memory. The check above keeps it inside our own pid namespace.
    match check(libc::c_long::from(unsafe { libc::kill(-1, signal.as_raw()) })) {
        Err(Errno::SRCH) => Ok(()),
        other => other.map(drop),
    }
}

/// Sets the ids used for file access only, so that files are made and judged as the user's.
pub fn set_file_ids(id: u32) {
    // SAFETY: both calls take plain integers, never fail loudly and touch no memory.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, id);
        libc::syscall(libc::SYS_setfsuid, id);
    }
}

/// Does something with files as this user, where one is given, and is itself again afterwards. The kernel forgets on the
/// way that we may be looked at, and who we die with.
pub fn with_file_ids<T>(id: Option<u32>, work: impl FnOnce() -> T) -> T {
    let Some(id) = id else { return work() };
    set_file_ids(id);
    let done = work();
    set_file_ids(rustix::process::geteuid().as_raw());
    done
}

/// Read-only, no set-id programs, no devices and so on, for one mount (`attr_set` of mount_setattr).
pub fn set_mount_flags(mount: BorrowedFd<'_>, flags: u64) -> Result<(), Errno> {
    // SAFETY: mount_attr is plain integers, for which all zeroes is a valid value.
    let mut attr: libc::mount_attr = unsafe { std::mem::zeroed() };
    attr.attr_set = flags;
    // SAFETY: the path is an empty C string, as AT_EMPTY_PATH asks; `attr` outlives the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// How nice a process is, and how long it goes on at most before others have their turn: the shorter, the sooner it has
/// its own when it wants one. Zero is as usual; kernels before 6.12 know nothing else.
pub fn set_scheduling(pid: Option<Pid>, nice: i32, turn: Duration) -> Result<(), Errno> {
    // SAFETY: sched_attr is plain integers, for which all zeroes is a valid value: that of ordinary scheduling.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    attr.size = size_of::<libc::sched_attr>() as u32;
    attr.sched_flags = libc::SCHED_FLAG_KEEP_POLICY as u64;
    attr.sched_nice = nice;
    attr.sched_runtime = turn.as_nanos() as u64;
    let pid = pid.map_or(0, Pid::as_raw_pid);
    // SAFETY: `attr` outlives the call.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, pid, &raw const attr, 0) }).map(drop)
}

/// Locks one byte of a file for as long as this description of it stays open. `false`: somebody has it.
pub fn lock_byte(file: BorrowedFd<'_>, offset: i64) -> Result<bool, Errno> {
    // SAFETY: flock is plain integers, for which all zeroes is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = offset;
    lock.l_len = 1;
    // SAFETY: `lock` outlives the call, which only reads it.
    match check(libc::c_long::from(unsafe {
        libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock)
    })) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Unlocks a byte locked by [`lock_byte`].
pub fn unlock_byte(file: BorrowedFd<'_>, offset: i64) -> Result<(), Errno> {
    // SAFETY: as in `lock_byte`.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_UNLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = offset;
    lock.l_len = 1;
    // SAFETY: as in `lock_byte`.
    check(libc::c_long::from(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }))
        .map(drop)
}

/// Brings up the loopback interface of this network namespace.
pub fn loopback_up() -> Result<(), Errno> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: ifreq is plain data, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq; `request` is one and outlives the call.
    check(libc::c_long::from(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request)
    }))
    .map(drop)
}

/// A child that has ended and was not waited for yet, and the resident memory of the largest process it was or has
/// waited for. It stays to be waited for.
pub fn ended_child() -> Option<(Pid, u64)> {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: both are plain integers, for which all zeroes is a valid value, and outlive the call. `si_pid` is what the
    // kernel fills in for a child, and stays zero where there is none.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        let mut usage: libc::rusage = std::mem::zeroed();
        let (to, used) = (&raw mut found, &raw mut usage);
        check(libc::syscall(libc::SYS_waitid, libc::P_ALL, 0, to, flags, used)).ok()?;
        Pid::from_raw(found.si_pid()).map(|pid| (pid, usage.ru_maxrss as u64 * 1024))
    }
}

/// What this process and all children it has waited for have used.
pub fn usage_of_children() -> ChildUsage {
    // SAFETY: rusage is plain integers; getrusage fills it and cannot fail with these arguments.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let micros = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    ChildUsage {
        cpu_micros: micros(usage.ru_utime) + micros(usage.ru_stime),
        largest_rss_bytes: usage.ru_maxrss as u64 * 1024,
    }
}

/// See [`usage_of_children`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildUsage {
    /// CPU time of all of them together.
    pub cpu_micros: u64,
    /// Resident memory of the largest of them.
    pub largest_rss_bytes: u64,
}

/// The Landlock interface version of this kernel; 0 when it has none, or it is switched off. Any other answer is
/// somebody who keeps us from it.
pub fn landlock_abi() -> Result<u32, Errno> {
    const VERSION: libc::c_long = 1;
    // SAFETY: with the version flag the kernel wants a null pointer and size 0, and touches no memory.
    let answer = check(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0usize, VERSION)
    });
    match answer {
        Ok(version) => Ok(version as u32),
        Err(Errno::NOSYS | Errno::OPNOTSUPP) => Ok(0),
        Err(errno) => Err(errno),
    }
}

/// Makes a network namespace with nothing in it but a loopback interface that is down.
pub fn own_network() -> Result<(), Errno> {
    // SAFETY: unshare with this flag concerns only what this process sees of the network, no memory or
    // descriptor.
    check(libc::c_long::from(unsafe { libc::unshare(libc::CLONE_NEWNET) })).map(drop)
}

/// Makes a cgroup namespace whose root is the cgroup this process is in.
pub fn own_cgroup_view() -> Result<(), Errno> {
    // SAFETY: unshare with this flag concerns only what this process sees of cgroups, no memory or descriptor.
    check(libc::c_long::from(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) })).map(drop)
}

/// Wipes the environment this process was started with, so that nothing forked from it can find it.
pub fn forget_environment(_proof: &SingleThreaded) {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    // SAFETY: `environ` is libc's list of writable C strings on the initial stack, ended by a null pointer. The
    // token proves that no other thread reads it, and the list is emptied before anybody could read what is
    // wiped.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let variable = *at;
            std::ptr::write_bytes(variable, 0, libc::strlen(variable));
            at = at.add(1);
        }
        if !environ.is_null() {
            *environ = std::ptr::null_mut();
        }
    }
}
