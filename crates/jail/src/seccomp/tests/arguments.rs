//! The argument rules, case by case, and the law that the program does what the clauses say.

use super::super::rules::{Rule, Test};
use super::super::table::{HERE, Verdict};
use super::{Call, EPERM, Profile, SECCOMP_RET_ALLOW, filters, program, run};
use proptest::prelude::*;

/// Bits the kernel ignores in an argument that is an int.
const GARBAGE: u64 = 0xdead_beef_0000_0000;

fn is_allowed(profile: Profile, nr: i64, args: &[u64]) -> bool {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    match run(&program(&HERE, profile), &Call { arch: HERE.audit, nr: nr as u32, args: all }).action {
        SECCOMP_RET_ALLOW => true,
        EPERM => false,
        other => panic!("{other:#x}"),
    }
}

/// Checks one call with clean arguments and with garbage in each upper half.
#[track_caller]
fn check(nr: i64, args: &[u64], expected: bool) {
    let dirty: Vec<u64> = args.iter().map(|arg| arg | GARBAGE).collect();
    assert_eq!(is_allowed(Profile::Default, nr, args), expected, "{args:x?}");
    assert_eq!(is_allowed(Profile::Default, nr, &dirty), expected, "{dirty:x?}");
}

#[test]
fn clone_makes_threads_and_processes_but_no_namespaces() {
    check(libc::SYS_clone, &[libc::SIGCHLD as u64], true);
    check(libc::SYS_clone, &[0x3d_0f00], true); // pthread_create
    check(libc::SYS_clone, &[(libc::CLONE_VFORK | libc::CLONE_VM | libc::SIGCHLD) as u64], true);
    for bit in (0..32).filter(|bit| 0x7E02_0000_u32 & (1 << bit) != 0) {
        check(libc::SYS_clone, &[1 << bit], false);
        check(libc::SYS_clone, &[1 << bit | libc::SIGCHLD as u64], false);
    }
}

#[test]
fn sockets_by_family_type_and_protocol() {
    for family in 0..=46 {
        for kind in 0..16 {
            for protocol in [0, 1, 6, 12, 17, 58, 115, 132, 136, 255, 256, 262] {
                let expected = match family {
                    1 => true,
                    2 | 10 => matches!(kind, 1 | 2) && matches!(protocol, 0 | 6 | 17),
                    16 => protocol == 0,
                    _ => false,
                };
                let flags = (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u64;
                check(libc::SYS_socket, &[family, kind, protocol], expected);
                check(libc::SYS_socket, &[family, kind | flags, protocol], expected);
                assert!(!is_allowed(Profile::Strict, libc::SYS_socket, &[family, kind, protocol]));
            }
        }
        check(libc::SYS_socketpair, &[family, 1, 0], family == 1);
        assert_eq!(is_allowed(Profile::Strict, libc::SYS_socketpair, &[family, 1, 0]), family == 1);
    }
}

#[test]
fn ioctl_refuses_the_terminal_takeovers() {
    for command in 0x5400..0x5500 {
        check(libc::SYS_ioctl, &[0, command], !matches!(command, 0x5412 | 0x541C | 0x541D | 0x5423));
    }
    for command in [0, u64::from(u32::MAX), 0x8000_5412, 0x5412_0000] {
        check(libc::SYS_ioctl, &[0, command], true);
    }
}

#[test]
fn personality_is_reset_or_asked_only() {
    for (persona, expected) in
        [(0, true), (0xffff_ffff, true), (8, false), (0x4_0000, false), (0x40_0000, false)]
    {
        check(libc::SYS_personality, &[persona], expected);
    }
}

#[test]
fn prctl_refuses_two_options() {
    for option in 0..128 {
        check(libc::SYS_prctl, &[option], !matches!(option, 35 | 62));
    }
}

#[test]
fn pid_1_is_no_target() {
    let calls = [
        libc::SYS_prlimit64,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setaffinity,
    ];
    for nr in calls {
        for (pid, expected) in [(0, true), (1, false), (2, true), (0xffff_ffff, true)] {
            check(nr, &[pid], expected);
        }
    }
    for which in 0..4 {
        for who in 0..4 {
            check(libc::SYS_setpriority, &[which, who], which == 0 && who != 1);
            check(libc::SYS_ioprio_set, &[which, who], which == 1 && who != 1);
        }
    }
    for pid in 0..3 {
        let debug = |nr, args: &[u64]| is_allowed(Profile::Debug, nr, args);
        assert_eq!(debug(libc::SYS_ptrace, &[libc::PTRACE_ATTACH as u64, pid | GARBAGE]), pid != 1);
        assert_eq!(debug(libc::SYS_process_vm_readv, &[pid | GARBAGE]), pid != 1);
        assert_eq!(debug(libc::SYS_process_vm_writev, &[pid]), pid != 1);
        check(libc::SYS_ptrace, &[libc::PTRACE_ATTACH as u64, pid], false);
        check(libc::SYS_process_vm_readv, &[pid], false);
    }
}

#[test]
fn single_flags_and_options() {
    for flags in 0..64 {
        check(libc::SYS_seccomp, &[1, flags], flags & 8 == 0);
        check(libc::SYS_memfd_create, &[0, flags], flags & 4 == 0);
    }
    check(libc::SYS_mmap, &[0, 4096, 3, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64], true);
    check(libc::SYS_mmap, &[0, 4096, 3, (libc::MAP_PRIVATE | libc::MAP_HUGETLB) as u64], false);
    for command in (0..64).chain(1020..1050) {
        check(libc::SYS_fcntl, &[0, command], !matches!(command, 1024 | 1026 | 1040));
    }
    for (level, option, expected) in [(6, 31, false), (6, 1, true), (1, 31, true), (41, 31, true)] {
        check(libc::SYS_setsockopt, &[0, level, option], expected);
    }
}

/// What the clauses say, without BPF.
fn says(rule: Rule, args: &[u64; 6]) -> bool {
    let holds = |test: &Test| {
        let low = |argument: u8| args[usize::from(argument)] as u32;
        match *test {
            Test::Among(argument, values) => values.contains(&low(argument)),
            Test::NotAmong(argument, values) => !values.contains(&low(argument)),
            Test::MaskedAmong(argument, mask, values) => values.contains(&(low(argument) & mask)),
            Test::Clear(argument, bits) => low(argument) & bits == 0,
        }
    };
    rule.clauses().iter().any(|clause| clause.iter().all(holds))
}

/// Small numbers and single bits meet the rules far more often than random ones.
fn argument() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..64_u64,
        1020..1050_u64,
        0x5400..0x5430_u64,
        (0..64).prop_map(|bit| 1_u64 << bit),
        any::<u64>()
    ]
}

proptest! {
    #[test]
    fn the_program_does_what_the_clauses_say(args in prop::array::uniform6(argument())) {
        for (arch, profile, program) in filters() {
            for line in (0..1024).filter_map(|nr| arch.line(nr)) {
                if let Verdict::Args(rule) = line.verdict(profile) {
                    let action = run(&program, &Call { arch: arch.audit, nr: line.nr(), args }).action;
                    let expected = if says(rule, &args) { SECCOMP_RET_ALLOW } else { EPERM };
                    prop_assert_eq!(action, expected, "{} {:x?}", line.name, args);
                }
            }
        }
    }
}

#[test]
fn a_copy_that_nobody_counts_stays_readable() {
    let filter = super::super::Filter::stays_readable();
    let answer = |nr: i64, args: [u64; 2]| {
        let args = [args[0], args[1], 0, 0, 0, 0];
        run(filter.instructions(), &Call { arch: HERE.audit, nr: nr as u32, args }).action
    };
    let dumpable = libc::PR_SET_DUMPABLE as u64;
    assert_eq!(answer(libc::SYS_prctl, [dumpable, 0]), EPERM);
    assert_eq!(answer(libc::SYS_prctl, [dumpable | GARBAGE, GARBAGE]), EPERM);
    assert_eq!(answer(libc::SYS_prctl, [dumpable, 2]), EPERM);
    assert_eq!(answer(libc::SYS_prctl, [dumpable, 1]), SECCOMP_RET_ALLOW);
    assert_eq!(answer(libc::SYS_prctl, [libc::PR_SET_NAME as u64, 0]), SECCOMP_RET_ALLOW);
    assert_eq!(answer(libc::SYS_read, [dumpable, 0]), SECCOMP_RET_ALLOW);
}
