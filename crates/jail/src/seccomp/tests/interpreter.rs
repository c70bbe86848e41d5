//! Runs a filter as the kernel would, and panics on a program the kernel would refuse.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
};

/// What a filter sees of a system call.
pub(super) struct Call {
    pub(super) arch: u32,
    pub(super) nr: u32,
    pub(super) args: [u64; 6],
}

/// How a run ended.
pub(super) struct Outcome {
    pub(super) action: u32,
    pub(super) executed: usize,
    pub(super) read_arguments: bool,
}

const LOAD: u32 = BPF_LD | BPF_W | BPF_ABS;
const AND: u32 = BPF_ALU | BPF_AND | BPF_K;
const ALWAYS: u32 = BPF_JMP | BPF_JA;
const EQUAL: u32 = BPF_JMP | BPF_JEQ | BPF_K;
const AT_LEAST: u32 = BPF_JMP | BPF_JGE | BPF_K;
const ANY_BIT: u32 = BPF_JMP | BPF_JSET | BPF_K;
const RETURN: u32 = BPF_RET | BPF_K;

pub(super) fn run(program: &[libc::sock_filter], call: &Call) -> Outcome {
    let mut accumulator = 0;
    let mut at = 0;
    let mut executed = 0;
    let mut read_arguments = false;
    loop {
        let instruction = program.get(at).unwrap_or_else(|| panic!("no instruction {at}"));
        let k = instruction.k;
        let branch = |taken: bool| usize::from(if taken { instruction.jt } else { instruction.jf });
        at += 1;
        executed += 1;
        match u32::from(instruction.code) {
            LOAD => {
                read_arguments |= k >= 16;
                accumulator = load(call, k);
            }
            AND => accumulator &= k,
            ALWAYS => at += k as usize,
            EQUAL => at += branch(accumulator == k),
            AT_LEAST => at += branch(accumulator >= k),
            ANY_BIT => at += branch(accumulator & k != 0),
            RETURN => return Outcome { action: k, executed, read_arguments },
            code => panic!("instruction {} has code {code:#x}", at - 1),
        }
    }
}

fn load(call: &Call, offset: u32) -> u32 {
    match offset {
        0 => call.nr,
        4 => call.arch,
        16..64 if offset.is_multiple_of(8) => call.args[(offset as usize - 16) / 8] as u32,
        _ => panic!("load of offset {offset}"),
    }
}
