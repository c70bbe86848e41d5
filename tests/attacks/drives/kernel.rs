//! Kernel surface: the tables of system calls, what processes look like from outside, hosts that lack something.

mod lacking;
mod layers;
mod status;
mod syscalls;

use super::Drive;
use crate::stage::Stage;

pub(super) const DRIVES: &[(&str, Drive)] = &[
    ("landlock_alone", layers::landlock_alone),
    ("landlock_version", landlock_version),
    ("layers_off", layers::off),
    ("status_of_several", status::of_several),
    ("status_outside", status::outside),
    ("status_while_compiling", status::while_compiling),
    ("syscall_table", syscalls::table),
    ("without_calls", lacking::calls),
    ("without_cgroups", lacking::cgroups),
    ("without_landlock", lacking::landlock),
    ("without_namespaces", lacking::namespaces),
    ("without_overlays", lacking::overlays),
    ("without_proc", lacking::proc),
];

/// The record names the version that a program finds in force.
fn landlock_version(stage: &Stage) -> Result<(), String> {
    const ASK: &str = "import ctypes\nprint(ctypes.CDLL(None).syscall(444, None, 0, 1))";
    let record = stage.person.run("python", ASK).json();
    record.is("success");
    let (inside, told) = (record.stdout().trim(), record["isolation"]["landlock_abi"].to_string());
    if inside == told && told != "0" {
        return Ok(());
    }
    Err(format!("the record says Landlock {told}, the kernel {inside}"))
}
