//! Verdicts that depend on arguments.
//!
//! A rule is a list of clauses, a clause a list of tests: the call is allowed when all tests of one clause
//! hold, else it is refused with EPERM. Only numbers can be tested, a filter cannot follow pointers. Every
//! argument here is an int or a 32-bit set of flags to the kernel, which ignores the upper half of the
//! register, so the tests do too: a comparison of 64 bits would let garbage above hide the value below.

use Test::{Among, Clear, MaskedAmong, NotAmong};

/// An argument rule, named in the policy as `args:name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Clone,
    Fcntl,
    Ioctl,
    Ioprio,
    Memfd,
    Mmap,
    Personality,
    Pid,
    Prctl,
    Priority,
    Ptrace,
    Seccomp,
    Setsockopt,
    Socket,
    Socketpair,
}

/// A test of the lower 32 bits of one argument, counted from 0.
#[derive(Clone, Copy, Debug)]
pub(super) enum Test {
    /// Is one of these.
    Among(u8, &'static [u32]),
    /// Is none of these.
    NotAmong(u8, &'static [u32]),
    /// Under the mask, is one of these.
    MaskedAmong(u8, u32, &'static [u32]),
    /// Has none of these bits.
    Clear(u8, u32),
}

/// All CLONE_NEW* that clone accepts. CLONE_NEWTIME is part of its exit signal there.
const NEW_NAMESPACES: u32 = 0x7E02_0000;
const SOCKET_TYPE: u32 = 0xf;
const NEW_LISTENER: u32 = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32;
const F_SETLEASE: u32 = libc::F_SETLEASE as u32;
const F_NOTIFY: u32 = libc::F_NOTIFY as u32;
const F_SETDELEG: u32 = 1040;
const TERMINAL_TAKEOVER: &[u32] =
    &[libc::TIOCSTI as u32, libc::TIOCLINUX as u32, libc::TIOCSETD as u32, libc::TIOCCONS as u32];
const UNIX: u32 = libc::AF_UNIX as u32;
const INTERNET: &[u32] = &[libc::AF_INET as u32, libc::AF_INET6 as u32];
const NETLINK: u32 = libc::AF_NETLINK as u32;
const STREAM_OR_DATAGRAM: &[u32] = &[libc::SOCK_STREAM as u32, libc::SOCK_DGRAM as u32];
/// Not by type alone: SMC, SCTP, MPTCP and L2TP are protocols of a stream or datagram internet socket.
const TCP_OR_UDP: &[u32] = &[0, libc::IPPROTO_TCP as u32, libc::IPPROTO_UDP as u32];
const PID_1: &[u32] = &[1];
const PRIO_PROCESS: u32 = 0;
const IOPRIO_WHO_PROCESS: u32 = 1;

// The numbers these rules keep out or rely on, as the kernel has them.
const _: () = {
    assert!(libc::AF_ALG == 38 && libc::AF_VSOCK == 40);
    assert!(libc::AF_UNIX == 1 && libc::AF_INET == 2 && libc::AF_INET6 == 10 && libc::AF_NETLINK == 16);
    assert!(libc::TIOCSTI == 0x5412 && libc::TIOCLINUX == 0x541C);
    assert!(libc::TIOCCONS == 0x541D && libc::TIOCSETD == 0x5423);
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    assert!(namespaces as u32 == NEW_NAMESPACES);
};

impl Rule {
    /// The clauses of which one must hold.
    pub(super) fn clauses(self) -> &'static [&'static [Test]] {
        match self {
            Rule::Clone => &[&[Clear(0, NEW_NAMESPACES)]],
            Rule::Fcntl => &[&[NotAmong(1, &[F_SETLEASE, F_NOTIFY, F_SETDELEG])]],
            Rule::Ioctl => &[&[NotAmong(1, TERMINAL_TAKEOVER)]],
            Rule::Ioprio => &[&[Among(0, &[IOPRIO_WHO_PROCESS]), NotAmong(1, PID_1)]],
            Rule::Memfd => &[&[Clear(1, libc::MFD_HUGETLB)]],
            Rule::Mmap => &[&[Clear(3, libc::MAP_HUGETLB as u32)]],
            Rule::Personality => &[&[Among(0, &[0, u32::MAX])]],
            Rule::Pid => &[&[NotAmong(0, PID_1)]],
            Rule::Prctl => &[&[NotAmong(0, &[libc::PR_SET_MM as u32, libc::PR_SCHED_CORE as u32])]],
            Rule::Priority => &[&[Among(0, &[PRIO_PROCESS]), NotAmong(1, PID_1)]],
            Rule::Ptrace => &[&[NotAmong(1, PID_1)]],
            Rule::Seccomp => &[&[Clear(1, NEW_LISTENER)]],
            Rule::Setsockopt => {
                &[&[NotAmong(1, &[libc::SOL_TCP as u32])], &[NotAmong(2, &[libc::TCP_ULP as u32])]]
            }
            Rule::Socket => &[
                &[Among(0, &[UNIX])],
                &[Among(0, INTERNET), MaskedAmong(1, SOCKET_TYPE, STREAM_OR_DATAGRAM), Among(2, TCP_OR_UDP)],
                &[Among(0, &[NETLINK]), Among(2, &[libc::NETLINK_ROUTE as u32])],
            ],
            Rule::Socketpair => &[&[Among(0, &[UNIX])]],
        }
    }
}
