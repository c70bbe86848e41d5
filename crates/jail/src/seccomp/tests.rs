//! The shape of the program, and what it answers. `kernel` asks the real kernel, the rest an interpreter.

mod arguments;
mod golden;
mod interpreter;
mod kernel;

use super::bpf::program;
use super::table::{AARCH64, Arch, Verdict, X86_64};
use super::{Filter, Profile};
use interpreter::{Call, run};
use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS};

const I386: u32 = 0x4000_0003;
const ARM: u32 = 0x4000_0028;
const X32: u32 = 0x4000_0000;
const EPERM: u32 = SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ENOSYS: u32 = SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// Every filter there is, with the architecture it is for.
fn filters() -> impl Iterator<Item = (&'static Arch, Profile, Vec<libc::sock_filter>)> {
    let both = [&X86_64, &AARCH64].into_iter();
    both.flat_map(|arch| Profile::ALL.map(|profile| (arch, profile, program(arch, profile))))
}

#[test]
fn a_call_of_another_architecture_ends_the_process() {
    for (arch, profile, program) in filters() {
        for audit in [I386, ARM, X86_64.audit, AARCH64.audit, 0, u32::MAX] {
            // uname on one, read on the other.
            let harmless = Call { arch: audit, nr: 63, args: [0; 6] };
            let expected = if audit == arch.audit { SECCOMP_RET_ALLOW } else { SECCOMP_RET_KILL_PROCESS };
            assert_eq!(run(&program, &harmless).action, expected, "{profile} {audit:#x}");
        }
    }
}

#[test]
fn an_x32_number_ends_the_process() {
    for profile in Profile::ALL {
        let program = program(&X86_64, profile);
        for nr in (0..1024).map(|nr| nr | X32).chain([0x7fff_ffff]) {
            let action = run(&program, &Call { arch: X86_64.audit, nr, args: [0; 6] }).action;
            assert_eq!(action, SECCOMP_RET_KILL_PROCESS, "{profile} {nr:#x}");
        }
    }
}

#[test]
fn numbers_no_kernel_has_are_enosys() {
    for (arch, profile, program) in filters() {
        for nr in (472..1024).chain([0x3fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX]) {
            let action = run(&program, &Call { arch: arch.audit, nr, args: [0; 6] }).action;
            assert_eq!(action, ENOSYS, "{profile} {nr:#x}");
        }
    }
}

#[test]
fn programs_are_short_and_answer_soon() {
    for (arch, profile, program) in filters() {
        let mut longest = 0;
        for nr in 0..1024 {
            for args in [[0; 6], [1; 6], [2; 6], [10; 6], [16; 6], [u64::MAX; 6], [10, 2, 99, 0, 0, 0]] {
                longest = longest.max(run(&program, &Call { arch: arch.audit, nr, args }).executed);
            }
        }
        println!("{profile} {:#x}: {} instructions, at most {longest} run", arch.audit, program.len());
        assert!(program.len() < 4096, "{profile}: the kernel takes no more than 4096");
        assert!(longest < 40, "{profile}: {longest} instructions for one call");
    }
}

#[test]
fn debug_widens_and_strict_narrows() {
    let mut debugged = Vec::new();
    for line in (0..1024).filter_map(|nr| X86_64.line(nr)) {
        let [default, debug, strict] = Profile::ALL.map(|profile| line.verdict(profile));
        if default != debug {
            assert_eq!(default, Verdict::Eperm, "{}", line.name);
            debugged.push(line.name);
        }
        assert!(default == strict || strict == Verdict::Eperm, "{}", line.name);
    }
    assert_eq!(debugged, ["ptrace", "process_vm_readv", "process_vm_writev"]);
}

#[test]
fn numbers_agree_with_libc() {
    for (name, nr) in [
        ("read", libc::SYS_read),
        ("clone", libc::SYS_clone),
        ("clone3", libc::SYS_clone3),
        ("prlimit64", libc::SYS_prlimit64),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("mseal", libc::SYS_mseal),
    ] {
        assert_eq!(super::table::HERE.line(nr as u32).map(|line| line.name), Some(name));
    }
}

#[test]
fn a_profile_has_one_name_for_people_and_on_the_wire() {
    for profile in Profile::ALL {
        let wire = format!("\"{profile}\"");
        assert_eq!(serde_json::to_string(&profile).unwrap(), wire);
        assert_eq!(serde_json::from_str::<Profile>(&wire).unwrap(), profile);
    }
    assert!(serde_json::from_str::<Profile>("\"Strict\"").is_err(), "names are lower case");
}

#[test]
fn bytes_are_the_program() {
    let filter = Filter::new(Profile::Default);
    let bytes = filter.as_bytes();
    assert_eq!(bytes.len(), filter.instructions().len() * 8);
    assert_eq!(bytes[..8], [0x20, 0, 0, 0, 4, 0, 0, 0], "the first instruction loads the architecture");
    assert_eq!(bytes, Filter::new(Profile::Default).as_bytes());
    assert_ne!(bytes, Filter::new(Profile::Strict).as_bytes());
}

/// What receipts quote is the hash of the filter that is installed. `UPDATE_GOLDEN=1` writes it anew.
#[test]
fn fingerprints_are_of_these_filters() {
    use sha2::{Digest, Sha256};
    let architectures = [("x86_64", &super::table::X86_64), ("aarch64", &super::table::AARCH64)];
    let mut lines = String::new();
    for (name, table) in architectures {
        for profile in Profile::ALL {
            let filter = Filter { program: super::bpf::program(table, profile) };
            let hash: String =
                Sha256::digest(filter.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            lines += &format!("{name} {profile} {hash}\n");
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/golden/fingerprints.txt");
        std::fs::write(path, &lines).unwrap();
    } else {
        assert_eq!(super::FINGERPRINTS, lines);
        assert_eq!(Profile::Default.sha256().len(), 64);
    }
}
