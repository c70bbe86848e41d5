//! Writes the BPF program: check the architecture, find the number by binary search, give the verdict.
//!
//! All jumps go forward and all comparisons are with constants. So the kernel can work out which numbers
//! are allowed whatever their arguments, and since 5.11 answers those without running the program.

use super::Profile;
use super::rules::{Rule, Test};
use super::table::{Arch, Step, Verdict};
use crate::mutant::{Mutant, lacks};
use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
};
use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, sock_filter};

const NR: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
const ARCH: u32 = std::mem::offset_of!(libc::seccomp_data, arch) as u32;
const ARGS: u32 = std::mem::offset_of!(libc::seccomp_data, args) as u32;

// An argument is loaded by the address of its lower half.
#[cfg(target_endian = "big")]
compile_error!("the seccomp filter is written for little-endian machines");

/// The whole filter.
pub(super) fn program(arch: &Arch, profile: Profile) -> Vec<sock_filter> {
    let mut program = Vec::with_capacity(512);
    program.push(load(ARCH));
    program.push(jump(BPF_JEQ, arch.audit, 1, 0));
    let stranger = if lacks(Mutant::Architecture) { SECCOMP_RET_ALLOW } else { SECCOMP_RET_KILL_PROCESS };
    program.push(answer(stranger));
    program.push(load(NR));
    search(&mut program, &arch.steps(profile));
    program
}

/// A filter to put before the other one, for a single number.
pub(super) fn without(number: u32) -> Vec<sock_filter> {
    vec![load(NR), jump(BPF_JEQ, number, 0, 1), errno(libc::ENOSYS), answer(SECCOMP_RET_ALLOW)]
}

/// A filter to put before the other one: `prctl` makes nobody unreadable.
pub(super) fn readable() -> Vec<sock_filter> {
    vec![
        load(NR),
        jump(BPF_JEQ, libc::SYS_prctl as u32, 0, 5),
        load(ARGS),
        jump(BPF_JEQ, libc::PR_SET_DUMPABLE as u32, 0, 3),
        load(ARGS + 8),
        jump(BPF_JEQ, 1, 1, 0),
        errno(libc::EPERM),
        answer(SECCOMP_RET_ALLOW),
    ]
}

/// Appends a binary search over the steps. Every path through it ends in an answer.
fn search(program: &mut Vec<sock_filter>, steps: &[Step]) {
    let (lower, upper) = steps.split_at(steps.len() / 2);
    let (Some(middle), false) = (upper.first(), lower.is_empty()) else {
        return steps.iter().for_each(|step| verdict(program, step.verdict));
    };
    let at = program.len();
    program.push(jump(BPF_JGE, middle.first, 0, 0));
    search(program, lower);
    let skipped = program.len() - at - 1;
    match u8::try_from(skipped) {
        Ok(near) => program[at].jt = near,
        // A conditional jump reaches 255 instructions, an unconditional one any number.
        Err(_) => {
            program[at].jf = 1;
            program.insert(at + 1, statement(BPF_JMP | BPF_JA, skipped as u32));
        }
    }
    search(program, upper);
}

fn verdict(program: &mut Vec<sock_filter>, verdict: Verdict) {
    program.push(match verdict {
        Verdict::Allow => answer(SECCOMP_RET_ALLOW),
        Verdict::Eperm => errno(libc::EPERM),
        Verdict::Einval => errno(libc::EINVAL),
        Verdict::Enotsup => errno(libc::EOPNOTSUPP),
        Verdict::Enosys => errno(libc::ENOSYS),
        Verdict::Zero => errno(0),
        Verdict::Kill => answer(SECCOMP_RET_KILL_PROCESS),
        Verdict::Args(rule) => return arguments(program, rule),
    });
}

fn arguments(program: &mut Vec<sock_filter>, rule: Rule) {
    for clause in rule.clauses() {
        let start = program.len();
        let mut failures = Vec::new();
        for test in *clause {
            one_test(program, &mut failures, test);
        }
        program.push(answer(SECCOMP_RET_ALLOW));
        for Failure { at, when } in failures {
            let distance = (program.len() - at - 1) as u8;
            if when { program[at].jt = distance } else { program[at].jf = distance }
        }
        debug_assert!(program.len() - start < 64, "a clause is short, its jumps are near");
    }
    program.push(errno(libc::EPERM));
}

/// A jump to patch: with this outcome it leaves the clause.
struct Failure {
    at: usize,
    when: bool,
}

fn one_test(program: &mut Vec<sock_filter>, failures: &mut Vec<Failure>, test: &Test) {
    let (argument, mask) = match *test {
        Test::Among(argument, _) | Test::NotAmong(argument, _) | Test::Clear(argument, _) => (argument, None),
        Test::MaskedAmong(argument, mask, _) => (argument, Some(mask)),
    };
    program.push(load(ARGS + 8 * u32::from(argument)));
    program.extend(mask.map(|mask| statement(BPF_ALU | BPF_AND | BPF_K, mask)));
    match *test {
        Test::Clear(_, bits) => {
            failures.push(Failure { at: program.len(), when: true });
            program.push(jump(BPF_JSET, bits, 0, 0));
        }
        Test::NotAmong(_, values) => {
            for value in values {
                failures.push(Failure { at: program.len(), when: true });
                program.push(jump(BPF_JEQ, *value, 0, 0));
            }
        }
        Test::Among(_, values) | Test::MaskedAmong(_, _, values) => {
            for (index, value) in values.iter().enumerate() {
                let left = (values.len() - 1 - index) as u8;
                if left == 0 {
                    failures.push(Failure { at: program.len(), when: false });
                }
                program.push(jump(BPF_JEQ, *value, left, 0));
            }
        }
    }
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn jump(condition: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | condition | BPF_K) as u16, jt, jf, k }
}

fn errno(number: i32) -> sock_filter {
    answer(SECCOMP_RET_ERRNO | number as u32)
}

fn answer(action: u32) -> sock_filter {
    statement(BPF_RET | BPF_K, action)
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}
