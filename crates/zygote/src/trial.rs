//! Serves the tests: children with no isolation at all, forked as the engine forks them.
//!
//! A message on standard input names a working directory and brings four descriptors: the three streams of a child
//! and a pipe for the report. The answer is how many nanoseconds the fork took. The report is the child's process
//! id, and when it has ended its status as `waitpid` gives it, 4 bytes each. A message that is JSON says what a branch
//! shall load, which the first descriptor is the socket of.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::RawFd;
use std::time::Instant;

const SOCKET: RawFd = 0;

pub(crate) fn serve(interpreter: executor::Interpreter) -> Result<(), String> {
    // SAFETY: ignoring is no handler. Nobody waits for those that are forked here.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    while let Some((directory, [input, output, errors, report])) = receive()? {
        let before = Instant::now();
        // SAFETY: clone_args is plain integers, for which all zeroes is a valid value.
        let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
        arguments.exit_signal = libc::SIGCHLD as u64;
        let size = size_of::<libc::clone_args>();
        // SAFETY: without CLONE_VM the child gets a copy of this address space; there is one thread.
        match unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size) } {
            -1 => return Err(format!("clone3: {}", std::io::Error::last_os_error())),
            0 if directory.to_bytes().starts_with(b"{") => {
                // SAFETY: system calls with integers; everything but the socket and the standard streams is let go of.
                unsafe {
                    libc::dup2(input, SOCKET);
                    libc::close_range(3, u32::MAX, 0);
                }
                (interpreter.branch)(&directory.to_string_lossy())
            }
            0 => first_process(interpreter.live, &directory, [input, output, errors], report),
            _ => {}
        }
        let took = (before.elapsed().as_nanos() as u64).to_ne_bytes();
        // SAFETY: sends and closes what this process owns.
        unsafe {
            libc::send(SOCKET, took.as_ptr().cast(), took.len(), libc::MSG_NOSIGNAL);
            for fd in [input, output, errors, report] {
                libc::close(fd);
            }
        }
    }
    Ok(())
}

/// In the place of PID 1 of a sandbox: has another name, no environment, and waits for its only child.
fn first_process(child: fn() -> !, directory: &CStr, streams: [RawFd; 3], report: RawFd) -> ! {
    // SAFETY: system calls with integers and with pointers to values that outlive them, in a process that has one
    // thread and owns all these descriptors.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"sandbox-init".as_ptr());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::clearenv();
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        match libc::fork() {
            0 => {
                libc::setsid();
                for (place, stream) in streams.into_iter().enumerate() {
                    libc::dup2(stream, place as RawFd);
                }
                libc::close_range(3, u32::MAX, 0);
                libc::chdir(directory.as_ptr());
                let kept = jail::SingleThreaded::prove().map(|proof| jail::sys::leave_keeper(&proof));
                if !matches!(kept, Some(Ok(_))) {
                    libc::abort();
                }
                child()
            }
            pid => {
                tell(report, pid);
                for fd in [0, 1, 2].into_iter().chain(streams) {
                    libc::close(fd);
                }
                let mut status = 0;
                libc::waitpid(pid, &raw mut status, 0);
                tell(report, status);
                // The one who keeps the child's memory.
                let left = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
                for pid in left.split_whitespace().filter_map(|pid| pid.parse().ok()) {
                    libc::kill(pid, libc::SIGKILL);
                }
                libc::_exit(0)
            }
        }
    }
}

fn tell(report: RawFd, number: c_int) {
    // SAFETY: four bytes of a local value.
    unsafe { libc::write(report, (&raw const number).cast(), size_of::<c_int>()) };
}

/// The next message: a directory and four descriptors. `None` when the tests have hung up.
fn receive() -> Result<Option<(std::ffi::CString, [RawFd; 4])>, String> {
    let mut bytes = [0u8; 4096];
    let mut control = [0u64; 16];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast::<c_void>(), iov_len: bytes.len() };
    // SAFETY: a msghdr is plain integers and pointers, for which all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message points at buffers that outlive the call, with their sizes.
    let length = unsafe { libc::recvmsg(SOCKET, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if length <= 0 {
        return Ok(None);
    }
    // SAFETY: the kernel has filled the message; the header, if there is one, lies in `control`.
    let fds = unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const message);
        if first.is_null() || (*first).cmsg_len < libc::CMSG_LEN(16) as usize {
            return Err("a message without four descriptors".into());
        }
        libc::CMSG_DATA(first).cast::<[RawFd; 4]>().read_unaligned()
    };
    let directory = std::ffi::CString::new(&bytes[..length as usize]).map_err(|error| error.to_string())?;
    Ok(Some((directory, fds)))
}
