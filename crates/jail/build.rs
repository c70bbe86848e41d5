//! Turns `policies/seccomp.policy` into tables for `src/seccomp/table.rs`.
//!
//! It checks what a reader of the policy relies on: every name is a system call, every system call is
//! decided once, every decision has a reason. It decides nothing itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const POLICY: &str = "seccomp.policy";
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];
const PLAIN: [(&str, &str); 6] = [
    ("allow", "Verdict::Allow"),
    ("eperm", "Verdict::Eperm"),
    ("einval", "Verdict::Einval"),
    ("enotsup", "Verdict::Enotsup"),
    ("enosys", "Verdict::Enosys"),
    ("zero", "Verdict::Zero"),
];
const RULES: [(&str, &str); 15] = [
    ("clone", "Clone"),
    ("fcntl", "Fcntl"),
    ("ioctl", "Ioctl"),
    ("ioprio", "Ioprio"),
    ("memfd", "Memfd"),
    ("mmap", "Mmap"),
    ("personality", "Personality"),
    ("pid", "Pid"),
    ("prctl", "Prctl"),
    ("priority", "Priority"),
    ("ptrace", "Ptrace"),
    ("seccomp", "Seccomp"),
    ("setsockopt", "Setsockopt"),
    ("socket", "Socket"),
    ("socketpair", "Socketpair"),
];

/// One line of the policy.
struct Decision {
    verdicts: [String; 3],
    reason: String,
}

fn main() {
    if let Err(problem) = generate() {
        println!("cargo::error={problem}");
    }
}

fn generate() -> Result<(), String> {
    let policies = Path::new(&env("CARGO_MANIFEST_DIR")?).join("../../policies");
    let decisions = parse_policy(&read(&policies, POLICY)?)?;
    let mut source = String::new();
    let mut known = Vec::new();
    for architecture in ARCHITECTURES {
        let file = format!("syscalls-{architecture}.txt");
        let numbers = parse_numbers(&file, &read(&policies, &file)?)?;
        source.push_str(&table(architecture, &file, &numbers, &decisions)?);
        known.extend(numbers.into_values());
    }
    if let Some(name) = decisions.keys().find(|name| !known.contains(name)) {
        return Err(format!("{POLICY}: `{name}` is in no syscalls-*.txt"));
    }
    let target = Path::new(&env("OUT_DIR")?).join("seccomp_tables.rs");
    std::fs::write(&target, source).map_err(|error| format!("cannot write {}: {error}", target.display()))
}

/// Rust source of the table of one architecture.
fn table(
    architecture: &str,
    file: &str,
    numbers: &BTreeMap<u32, String>,
    decisions: &BTreeMap<String, Decision>,
) -> Result<String, String> {
    let mut source = format!("#[cfg(any(test, target_arch = {architecture:?}))]\n");
    let constant = architecture.to_uppercase();
    let _ = writeln!(source, "static {constant}_LINES: &[Line] = &[");
    for (nr, name) in numbers {
        let Some(Decision { verdicts: [default, debug, strict], reason }) = decisions.get(name) else {
            return Err(format!("{POLICY}: no line for `{name}`, number {nr} in {file}"));
        };
        let _ = writeln!(
            source,
            "Line {{ nr: {nr}, verdicts: [{default}, {debug}, {strict}], \
             #[cfg(test)] name: {name:?}, #[cfg(test)] reason: {reason:?} }},"
        );
    }
    source.push_str("];\n");
    Ok(source)
}

fn parse_policy(text: &str) -> Result<BTreeMap<String, Decision>, String> {
    let mut decisions = BTreeMap::new();
    for (row, line) in rows(text) {
        let at = |problem: String| format!("{POLICY}:{row}: {problem}");
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let mut verdict = |profile: &str| {
            let word = words.next().ok_or_else(|| at(format!("`{name}` has no verdict for {profile}")))?;
            parse_verdict(word).ok_or_else(|| {
                at(format!(
                    "`{name}`: `{word}` is no verdict; use allow, eperm, einval, enotsup, enosys, zero or args:RULE"
                ))
            })
        };
        let verdicts = [verdict("default")?, verdict("debug")?, verdict("strict")?];
        let reason = words.collect::<Vec<_>>().join(" ");
        if reason.is_empty() {
            return Err(at(format!("`{name}` has no reason")));
        }
        if decisions.insert(name.to_owned(), Decision { verdicts, reason }).is_some() {
            return Err(at(format!("`{name}` has a line already")));
        }
    }
    Ok(decisions)
}

/// The Rust expression for a verdict as the policy writes it.
fn parse_verdict(word: &str) -> Option<String> {
    let find = |list: &[(&str, &'static str)], key: &str| {
        list.iter().find(|(name, _)| *name == key).map(|(_, source)| *source)
    };
    match word.strip_prefix("args:") {
        None => find(&PLAIN, word).map(str::to_owned),
        Some(rule) => find(&RULES, rule).map(|variant| format!("Verdict::Args(Rule::{variant})")),
    }
}

fn parse_numbers(file: &str, text: &str) -> Result<BTreeMap<u32, String>, String> {
    let mut numbers = BTreeMap::new();
    for (row, line) in rows(text) {
        let (nr, name) = line
            .split_once(' ')
            .and_then(|(nr, name)| Some((nr.parse().ok()?, name.to_owned())))
            .ok_or_else(|| format!("{file}:{row}: expected a number and a name"))?;
        if numbers.values().any(|other| *other == name) || numbers.insert(nr, name).is_some() {
            return Err(format!("{file}:{row}: number or name appears twice"));
        }
    }
    Ok(numbers)
}

/// The lines that say something, with their row counted from 1.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn read(folder: &Path, file: &str) -> Result<String, String> {
    let path = folder.join(file);
    println!("cargo::rerun-if-changed={}", path.display());
    std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn env(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("cargo did not set {name}"))
}
