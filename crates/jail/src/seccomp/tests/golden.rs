//! Compares what the program answers for every number with the committed tables in `policies/golden`.
//!
//! `UPDATE_GOLDEN=1 cargo test -p sandboxd-jail golden` rewrites them. Two answers are listed where the
//! arguments decide: for all arguments 0 and for all -1.

use super::super::bpf::program;
use super::super::table::{AARCH64, Arch, Verdict, X86_64};
use super::{Call, Profile, run};
use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS};
use std::fmt::Write as _;
use std::path::Path;

#[test]
fn golden_x86_64() {
    for profile in Profile::ALL {
        compare(&X86_64, profile, profile.name());
    }
}

#[test]
fn golden_aarch64() {
    for profile in Profile::ALL {
        compare(&AARCH64, profile, &format!("{profile}-aarch64"));
    }
}

fn compare(arch: &Arch, profile: Profile, file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../policies/golden/{file}.txt"));
    let actual = table(arch, profile);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &actual).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (old, new) in golden.lines().zip(actual.lines()) {
        assert_eq!(old, new, "{file}: golden left, program right; UPDATE_GOLDEN=1 accepts the change");
    }
    assert_eq!(golden.len(), actual.len(), "{file}: one table is longer; UPDATE_GOLDEN=1 accepts the change");
}

fn table(arch: &Arch, profile: Profile) -> String {
    let program = program(arch, profile);
    let answer = |nr: u32| answers(arch, profile, &program, nr);
    let mut table =
        format!("# Profile {profile}: number, name, verdict, reason. Written by the test `golden`.\n");
    table.push_str("# args:RULE(zeros=A,ones=B): A when all arguments are 0, B when all are -1.\n");
    let mut nr = 0;
    while nr < 1024 {
        if let Some(line) = arch.line(nr) {
            let _ = writeln!(table, "{nr} {} {} {}", line.name, answer(nr), line.reason);
            nr += 1;
            continue;
        }
        let last = (nr..1024).take_while(|nr| arch.line(*nr).is_none()).last().unwrap_or(nr);
        let verdict = answer(nr);
        assert!((nr..=last).all(|nr| answer(nr) == verdict), "unknown numbers have one verdict");
        let _ = writeln!(table, "{nr}..{last} - {verdict} no such system call when the policy was written");
        nr = last + 1;
    }
    table
}

/// What the program answers, as one word.
fn answers(arch: &Arch, profile: Profile, program: &[libc::sock_filter], nr: u32) -> String {
    let [zeros, ones] =
        [0, u64::MAX].map(|value| run(program, &Call { arch: arch.audit, nr, args: [value; 6] }));
    let verdict = arch.line(nr).map(|line| line.verdict(profile));
    assert_eq!(matches!(verdict, Some(Verdict::Args(_))), zeros.read_arguments, "{nr}");
    match verdict {
        Some(Verdict::Args(rule)) => {
            let rule = format!("{rule:?}").to_lowercase();
            format!("args:{rule}(zeros={},ones={})", word(zeros.action), word(ones.action))
        }
        _ => {
            assert_eq!(zeros.action, ones.action, "{nr}");
            word(zeros.action).to_owned()
        }
    }
}

fn word(action: u32) -> &'static str {
    match (action & 0xffff_0000, (action & 0xffff) as i32) {
        (SECCOMP_RET_ALLOW, 0) => "allow",
        (SECCOMP_RET_KILL_PROCESS, 0) => "kill",
        (SECCOMP_RET_ERRNO, libc::EPERM) => "eperm",
        (SECCOMP_RET_ERRNO, libc::EINVAL) => "einval",
        (SECCOMP_RET_ERRNO, libc::EOPNOTSUPP) => "enotsup",
        (SECCOMP_RET_ERRNO, libc::ENOSYS) => "enosys",
        (SECCOMP_RET_ERRNO, 0) => "zero",
        _ => panic!("unexpected action {action:#x}"),
    }
}
