//! Installs the filters for real, each in a child process, and looks at what the kernel answers.

use super::{Filter, Profile};
use libc::{EINVAL, ENOSYS, EPERM, c_long};

/// What a call must return.
#[derive(Clone, Copy)]
enum Answer {
    /// Exactly this value, no error.
    Value(c_long),
    /// No error.
    Success,
    /// This errno.
    Error(i32),
    /// An errno other than EPERM and ENOSYS: the call reached the kernel.
    Reached,
}
use Answer::{Error, Reached, Success, Value};

type Check = (&'static str, c_long, [c_long; 4], Answer);

const EVERYWHERE: &[Check] = &[
    ("getuid", libc::SYS_getuid, [0; 4], Success),
    (
        "fork-like clone is judged by flags",
        libc::SYS_clone,
        [libc::CLONE_NEWUSER as c_long, 0, 0, 0],
        Error(EPERM),
    ),
    ("clone3", libc::SYS_clone3, [0; 4], Error(ENOSYS)),
    ("unshare user", libc::SYS_unshare, [libc::CLONE_NEWUSER as c_long, 0, 0, 0], Error(EPERM)),
    ("unshare nothing", libc::SYS_unshare, [0; 4], Error(EPERM)),
    ("setns", libc::SYS_setns, [0; 4], Error(EPERM)),
    ("mount", libc::SYS_mount, [0; 4], Error(EPERM)),
    ("io_uring_setup", libc::SYS_io_uring_setup, [1, 0, 0, 0], Error(EPERM)),
    ("bpf", libc::SYS_bpf, [0; 4], Error(EPERM)),
    ("userfaultfd", libc::SYS_userfaultfd, [1, 0, 0, 0], Error(EPERM)),
    ("perf_event_open", libc::SYS_perf_event_open, [0; 4], Error(EPERM)),
    ("keyctl", libc::SYS_keyctl, [0; 4], Error(EPERM)),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, [0; 4], Error(EPERM)),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, [0; 4], Error(EPERM)),
    ("memfd_secret", libc::SYS_memfd_secret, [0; 4], Error(EPERM)),
    ("number 1023", 1023, [0; 4], Error(ENOSYS)),
    ("number -1", -1, [0; 4], Error(ENOSYS)),
    ("splice", libc::SYS_splice, [0; 4], Error(EINVAL)),
    ("sync", libc::SYS_sync, [0; 4], Value(0)),
    ("syncfs of no descriptor", libc::SYS_syncfs, [-1, 0, 0, 0], Value(0)),
    (
        "AF_ALG",
        libc::SYS_socket,
        [libc::AF_ALG as c_long, libc::SOCK_SEQPACKET as c_long, 0, 0],
        Error(EPERM),
    ),
    (
        "AF_VSOCK",
        libc::SYS_socket,
        [libc::AF_VSOCK as c_long, libc::SOCK_STREAM as c_long, 0, 0],
        Error(EPERM),
    ),
    ("raw", libc::SYS_socket, [libc::AF_INET as c_long, libc::SOCK_RAW as c_long, 1, 0], Error(EPERM)),
    ("TIOCSTI", libc::SYS_ioctl, [-1, 0x5412, 0, 0], Error(EPERM)),
    ("TIOCSTI under garbage", libc::SYS_ioctl, [-1, 0x7fff_0000_5412, 0, 0], Error(EPERM)),
    ("TCGETS of no descriptor", libc::SYS_ioctl, [-1, 0x5401, 0, 0], Reached),
    ("personality query", libc::SYS_personality, [0xffff_ffff, 0, 0, 0], Success),
    ("personality without randomisation", libc::SYS_personality, [0x4_0000, 0, 0, 0], Error(EPERM)),
    ("PR_SET_MM", libc::SYS_prctl, [libc::PR_SET_MM as c_long, 0, 0, 0], Error(EPERM)),
    ("PR_GET_SECCOMP", libc::SYS_prctl, [libc::PR_GET_SECCOMP as c_long, 0, 0, 0], Value(2)),
    ("prlimit64 of pid 1", libc::SYS_prlimit64, [1, libc::RLIMIT_CORE as c_long, 0, 0], Error(EPERM)),
    ("prlimit64 of itself", libc::SYS_prlimit64, [0, libc::RLIMIT_CORE as c_long, 0, 0], Value(0)),
    ("setpriority of pid 1", libc::SYS_setpriority, [0, 1, 0, 0], Error(EPERM)),
    ("setpriority of the user", libc::SYS_setpriority, [2, 0, 0, 0], Error(EPERM)),
    ("setpriority of itself", libc::SYS_setpriority, [0, 0, 10, 0], Value(0)),
    ("second filter with a listener", libc::SYS_seccomp, [1, 8, 0, 0], Error(EPERM)),
    ("second filter from nowhere", libc::SYS_seccomp, [1, 0, 0, 0], Reached),
    ("memfd_create", libc::SYS_memfd_create, [NAME, 0, 0, 0], Success),
    ("memfd_create in huge pages", libc::SYS_memfd_create, [NAME, 4, 0, 0], Error(EPERM)),
];

const SOCKETS: &[Check] = &[
    ("AF_UNIX", libc::SYS_socket, [libc::AF_UNIX as c_long, libc::SOCK_STREAM as c_long, 0, 0], Success),
    ("TCP", libc::SYS_socket, [libc::AF_INET as c_long, libc::SOCK_STREAM as c_long, 6, 0], Success),
    (
        "netlink route",
        libc::SYS_socket,
        [libc::AF_NETLINK as c_long, libc::SOCK_RAW as c_long, 0, 0],
        Success,
    ),
    ("inotify_init1", libc::SYS_inotify_init1, [0; 4], Success),
    ("shmget", libc::SYS_shmget, [1, 0, 0, 0], Reached),
];

const NO_SOCKETS: &[Check] = &[
    ("AF_UNIX", libc::SYS_socket, [libc::AF_UNIX as c_long, libc::SOCK_STREAM as c_long, 0, 0], Error(EPERM)),
    ("connect", libc::SYS_connect, [0; 4], Error(EPERM)),
    ("inotify_init1", libc::SYS_inotify_init1, [0; 4], Error(EPERM)),
    ("shmget", libc::SYS_shmget, [1, 0, 0, 0], Error(EPERM)),
    ("mq_unlink", libc::SYS_mq_unlink, [NAME, 0, 0, 0], Error(EPERM)),
];

const NO_PTRACE: &[Check] = &[
    ("ptrace", libc::SYS_ptrace, [libc::PTRACE_ATTACH as c_long, 0x7fff_ffff, 0, 0], Error(EPERM)),
    ("process_vm_readv", libc::SYS_process_vm_readv, [0x7fff_ffff, 0, 0, 0], Error(EPERM)),
];

const PTRACE: &[Check] = &[
    ("ptrace of nobody", libc::SYS_ptrace, [libc::PTRACE_ATTACH as c_long, 0x7fff_ffff, 0, 0], Reached),
    ("ptrace of pid 1", libc::SYS_ptrace, [libc::PTRACE_ATTACH as c_long, 1, 0, 0], Error(EPERM)),
    ("process_vm_readv of nobody", libc::SYS_process_vm_readv, [0x7fff_ffff, 0, 0, 0], Success),
];

/// Stands for the address of a C string, which a constant cannot hold.
const NAME: c_long = c_long::MIN;

#[test]
fn default_profile() {
    expect(Profile::Default, &[EVERYWHERE, SOCKETS, NO_PTRACE]);
}

#[test]
fn debug_profile() {
    expect(Profile::Debug, &[EVERYWHERE, SOCKETS, PTRACE]);
}

#[test]
fn strict_profile() {
    expect(Profile::Strict, &[EVERYWHERE, NO_SOCKETS, NO_PTRACE]);
}

#[test]
fn without_no_new_privs_nothing_is_installed() {
    let filter = Filter::new(Profile::Default);
    let status = in_child(|| {
        // SAFETY: setresuid is a plain system call; as nobody, a filter needs no_new_privs.
        unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        match filter.install() {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => 0,
            _ => 1,
        }
    });
    assert_eq!(status, 0);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn x32_and_ia32_calls_end_the_process() {
    let filter = Filter::new(Profile::Default);
    let x32 = in_child(|| {
        confine(&filter);
        // SAFETY: getpid takes no arguments, in x32 as in any other convention.
        unsafe { libc::syscall(libc::SYS_getpid | 0x4000_0000) };
        0
    });
    assert_eq!(libc::WTERMSIG(x32), libc::SIGSYS);
    let ia32 = in_child(|| {
        confine(&filter);
        // SAFETY: number 20 is getpid for ia32, without arguments; only eax changes.
        unsafe { std::arch::asm!("int 0x80", inlateout("eax") 20 => _) };
        0
    });
    // A kernel without ia32 emulation answers the interrupt with SIGSEGV by itself.
    assert!(matches!(libc::WTERMSIG(ia32), libc::SIGSYS | libc::SIGSEGV), "status {ia32:#x}");
}

#[track_caller]
fn expect(profile: Profile, groups: &[&[Check]]) {
    let filter = Filter::new(profile);
    let checks = groups.concat();
    let status = in_child(|| {
        confine(&filter);
        match checks.iter().position(|check| !holds(check)) {
            None => 0,
            Some(index) => index as i32 + 1,
        }
    });
    assert!(libc::WIFEXITED(status), "{profile}: status {status:#x}");
    if let Some(index) = (libc::WEXITSTATUS(status) as usize).checked_sub(1) {
        panic!("{profile}: `{}` was answered otherwise", checks[index].0);
    }
}

fn holds((_, nr, args, expected): &Check) -> bool {
    let name = c"sandboxd".as_ptr() as c_long;
    let [a, b, c, d] = args.map(|arg| if arg == NAME { name } else { arg });
    let none: c_long = 0;
    // SAFETY: no check lets the kernel write: pointers are null, or the name, which lives for ever.
    let result = unsafe { libc::syscall(*nr, a, b, c, d, none, none) };
    let errno = std::io::Error::last_os_error().raw_os_error();
    match *expected {
        Value(value) => result == value,
        Success => result >= 0,
        Error(number) => result == -1 && errno == Some(number),
        Reached => result == -1 && errno != Some(EPERM) && errno != Some(ENOSYS),
    }
}

/// Ends the child with 255 when it cannot be confined.
fn confine(filter: &Filter) {
    // SAFETY: prctl with this option takes numbers only.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if set != 0 || filter.install().is_err() {
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(255) };
    }
}

/// Runs `body` in a forked child and returns its wait status.
fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `body` only, which makes system calls and allocates nothing, and then ends
    // without unwinding or exit handlers, so locks held by other test threads do not matter.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(body());
        }
        assert!(pid > 0, "fork failed");
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        status
    }
}
