//! Children of the zygote against the bare interpreter: `differential.py`, with every Python this host offers.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn a_warm_interpreter_is_like_a_bare_one() {
    let library = build();
    let interpreters = interpreters();
    assert!(!interpreters.is_empty(), "this host has no `python3`; `scripts/setup languages` installs it");
    for python in interpreters {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let ran = Command::new(&python)
            .arg("-B")
            .arg(tests.join("differential.py"))
            .arg(&library)
            .arg(&python)
            .output()
            .expect("differential.py starts");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(
            ran.status.success(),
            "{}: {}\n{said}\n{}",
            python.display(),
            ran.status,
            String::from_utf8_lossy(&ran.stderr)
        );
        println!("{}: {said}", python.display());
    }
}

/// The library as the tests need it, which serves others than the one that is shipped, but is built like it: where
/// the interpreter ends its first thread by unwinding, only code that knows no unwinding stays out of its way.
#[allow(clippy::expect_used)]
fn build() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("try");
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--profile",
            "library",
            "--locked",
            "--package",
            "sandbox-zygote",
            "--features",
            "try",
            "--target-dir",
        ])
        .arg(&target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo starts");
    assert!(built.success(), "the library could not be built");
    target.join("library/libsandbox_zygote.so")
}

/// The interpreter found by name, which may be a script that finds another, and the one of the distribution.
fn interpreters() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["python3", "/usr/bin/python3"]
        .into_iter()
        .filter_map(|name| Command::new(name).args(["-c", "import sys; print(sys.executable)"]).output().ok())
        .filter(|output| output.status.success())
        .map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
        .collect();
    found.sort();
    found.dedup();
    found
}
