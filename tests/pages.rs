//! What the command says of itself and of this host: help, manual, completions, doctor, demo.
#![cfg(test)]

mod support;

use std::io::Write;
use std::process::{Command, Stdio};
use support::Sandboxd;

#[test]
fn sandbox_run_is_sandboxd_run() {
    for who in Sandboxd::everybody() {
        who.program("sandbox-run", ["-l", "sh", "-c", "echo $1", "--", "word"]).out().exits(0).is_quiet();
        who.program("sandbox-run", ["-l", "sh", "-c", "exit 9"]).out().exits(9);
        who.program("sandbox-run", []).out().is_misuse_of("FILE");
    }
}

#[test]
fn help_names_every_option_and_the_version_is_one_line() {
    let who = Sandboxd::plain();
    let help = who.command(["run", "--help"]).out();
    help.exits(0).is_quiet();
    for option in [
        "--code",
        "--language",
        "--file",
        "--stdin",
        "--env",
        "--check",
        "--artifacts",
        "--mode",
        "--event",
        "--event-file",
        "--context",
        "--timeout",
        "--cpu-time",
        "--memory",
        "--cpus",
        "--pids",
        "--disk",
        "--inodes",
        "--open-files",
        "--output",
        "--network",
        "--profile",
        "--allow-weaker",
        "--unsafe-no-isolation",
        "--json",
        "--quiet",
        "--metrics",
        "124",
        "137",
        "125",
        "Examples",
    ] {
        help.must(help.text().contains(option), option);
    }
    let version = who.command(["--version"]).out();
    version
        .exits(0)
        .must(version.text().starts_with("sandboxd ") && version.text().lines().count() == 1, "one line");
    for command in [
        "run",
        "serve",
        "session",
        "template",
        "key",
        "top",
        "mcp",
        "languages",
        "doctor",
        "demo",
        "config",
        "completions",
        "man",
    ] {
        let top = who.command(["--help"]).out();
        top.exits(0).must(top.text().contains(command), command);
        who.command([command, "--help"]).out().exits(0).is_quiet();
    }
    who.command([]).out().exits(2).never_panics();
    who.command(["fly"]).out().is_misuse_of("fly");
}

#[test]
fn completions_are_scripts() {
    let who = Sandboxd::plain();
    for shell in ["bash", "zsh", "fish"] {
        let out = who.command(["completions", shell]).out();
        out.exits(0).is_quiet().must(out.text().contains("unsafe-no-isolation"), "every option");
        if shell == "bash" {
            let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
            bash.stdin.take().unwrap().write_all(&out.stdout).unwrap();
            assert!(bash.wait().unwrap().success(), "bash does not understand it");
        }
    }
    who.command(["completions", "tcl"]).out().is_misuse_of("tcl");
}

#[test]
fn the_manual_is_a_page() {
    let out = Sandboxd::plain().command(["man"]).out();
    out.exits(0).is_quiet();
    for part in [
        ".TH sandboxd",
        ".SH NAME",
        ".SH ENVIRONMENT",
        "SANDBOXD_CACHE_DIR",
        "SANDBOXD_MAX_MEMORY",
        "unsafe",
        "CONFIG GENERATE",
    ] {
        out.must(out.text().contains(part), part);
    }
    if Command::new("man").arg("--version").output().is_ok() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("sandboxd.1");
        std::fs::write(&page, &out.stdout).unwrap();
        let shown = Command::new("man")
            .args(["--warnings", "-l"])
            .arg(&page)
            .env("MANPAGER", "cat")
            .output()
            .unwrap();
        assert!(
            shown.status.success() && shown.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&shown.stderr)
        );
        assert!(String::from_utf8_lossy(&shown.stdout).contains("ENVIRONMENT"));
    }
}

#[test]
fn doctor_says_that_this_host_can_run_sandboxes() {
    for who in Sandboxd::everybody() {
        let out = who.command(["doctor", "--json"]).out();
        out.exits(0).is_quiet();
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        out.must(
            report["can_run"] == true && report["missing"].as_array().unwrap().is_empty(),
            "a host that can",
        );
        out.must(report["grade"] == u8::from(who.is_root()), "the grade that runs get");
        let people = who.command(["doctor"]).out();
        people.exits(0).is_quiet().must(people.text().contains("seccomp"), "layers by name");
        assert!(
            people.text().lines().all(|line| line.chars().count() <= 120),
            "lines for a terminal: {}",
            people.text()
        );
    }
}

#[test]
fn demo_says_hello_in_every_language() {
    for who in Sandboxd::everybody() {
        let out = who.command(["demo", "--json"]).out();
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&out.exits(0).stdout).unwrap();
        assert_eq!(rows.len(), 16);
        for row in rows {
            out.must(row["ok"] == true && row["said"] == "hello", &row.to_string());
        }
    }
    Sandboxd::plain().command(["demo"]).out().exits(0).is_quiet();
}

#[test]
fn a_reader_that_leaves_is_no_failure_of_ours() {
    let who = Sandboxd::plain();
    for words in [
        ["languages", ""],
        ["languages", "--json"],
        ["doctor", ""],
        ["doctor", "--json"],
        ["config", "generate"],
        ["config", "show --all --json"],
        ["man", ""],
        ["demo", "--json"],
    ] {
        let run = who.command([words[0]]).options(words[1]);
        run.read_by_nobody().out().never_panics().is_quiet();
    }
}
