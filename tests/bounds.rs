//! Wishes outside of what is allowed are refused by name, before anything runs.
#![cfg(test)]

mod support;

use std::path::Path;
use support::{Out, Run, Sandboxd};

/// A program that leaves a mark on the host if it is run at all.
fn marking(who: &Sandboxd, mark: &Path) -> Run {
    who.run("python", &format!("open({:?}, 'w')\nprint('ran')", mark.display().to_string()))
        .options("--unsafe-no-isolation --quiet")
}

/// Refused: one line that names the field, one with what to do, and nothing was run.
fn refused(field: &str, choose: impl Fn(Run) -> Run) {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let mark = folder.path().join("mark");
        let out = choose(marking(&who, &mark)).out();
        out.exits(2).says("").complains_of(field);
        assert!(!mark.exists(), "it was run: {field}");
    }
}

#[test]
fn limits_out_of_range_are_refused_by_name() {
    for (name, value) in [
        ("timeout", "0"),
        ("timeout", "2h"),
        ("cpu-time", "0ms"),
        ("cpu-time", "10000h"),
        ("memory", "1M"),
        ("memory", "100000G"),
        ("cpus", "0"),
        ("cpus", "10000"),
        ("pids", "0"),
        ("pids", "1000000"),
        ("disk", "1"),
        ("disk", "100000G"),
        ("inodes", "1"),
        ("inodes", "100000000"),
        ("open-files", "1"),
        ("open-files", "100000000"),
        ("output", "0"),
        ("output", "1G"),
    ] {
        refused(name, |run| run.arg(&format!("--{name}"), value));
    }
    refused("disk", |run| run.options("--memory 64M --disk 65M"));
}

#[test]
fn numbers_that_are_none_are_refused() {
    for (name, value) in [
        ("--timeout", "soon"),
        ("--timeout", "-1s"),
        ("--timeout", "1y"),
        ("--timeout", "NaN"),
        ("--timeout", "99999999999999999999999h"),
        ("--memory", "lots"),
        ("--memory", "64X"),
        ("--memory", ""),
        ("--cpus", "half"),
        ("--pids", "1.5"),
        ("--pids", "-1"),
        ("--inodes", "18446744073709551616"),
        ("--output", "1e3"),
    ] {
        let word = format!("{name}={value}");
        Sandboxd::plain().run("python", "print(1)").flag(&word).out().is_misuse_of(name);
    }
}

#[test]
fn operators_bound_what_can_be_asked_for() {
    for (variable, most, name, wish) in [
        ("SANDBOXD_MAX_TIMEOUT", "5s", "timeout", "6s"),
        ("SANDBOXD_MAX_MEMORY", "128M", "memory", "129M"),
        ("SANDBOXD_MAX_CPUS", "0.5", "cpus", "0.6"),
        ("SANDBOXD_MAX_PIDS", "10", "pids", "11"),
        ("SANDBOXD_MAX_DISK", "8M", "disk", "9M"),
        ("SANDBOXD_MAX_OUTPUT", "1M", "output", "2M"),
    ] {
        refused(name, |run| run.env(variable, most).arg(&format!("--{name}"), wish));
        let word = format!("--{name}");
        let allowed = Sandboxd::plain().run("python", "print(1)").env(variable, most).arg(&word, most).out();
        allowed.exits(0).says("1\n");
        for nonsense in ["lots", "-1", ""] {
            refused(variable, |run| run.env(variable, nonsense));
        }
    }
}

#[test]
fn operators_lower_what_nobody_asked_for() {
    let who = Sandboxd::caller();
    let run = |variable: &str, most: &str, code: &str| who.run("python", code).env(variable, most).json();
    run("SANDBOXD_MAX_TIMEOUT", "300ms", "import time\ntime.sleep(60)").is("timed_out").ends_within(10);
    run("SANDBOXD_MAX_DISK", "2M", "open('x', 'wb').write(b'x' * (3 << 20))").is("disk_limit");
    let printed = run("SANDBOXD_MAX_OUTPUT", "1K", "print('x' * 5000)");
    printed.is("success").must(printed.stdout().len() == 1024, "a kilobyte of output");
    let forked = run(
        "SANDBOXD_MAX_PIDS",
        "4",
        "import os, time\nfor _ in range(9):\n    if os.fork() == 0: time.sleep(9)",
    );
    forked.must(forked.out.code != 0, "no fifth process");
    if who.is_root() {
        run("SANDBOXD_MAX_MEMORY", "64M", "x = b'x' * (200 << 20)").is("out_of_memory");
    }
}

#[test]
fn arguments_and_environment_have_a_size() {
    let who = Sandboxd::plain();
    // The kernel takes no single word above 128 kB, so there are many.
    let word = "w".repeat(120_000);
    let many = |n: usize| {
        who.run("python", "import sys\nprint(len(sys.argv), sum(map(len, sys.argv[1:])))")
            .words(vec![word.clone(); n])
    };
    many(8).out().exits(0).says("9 960000\n");
    many(9).out().exits(2).complains_of("args");
    let mut run = who.run("python", "import os\nprint(len(os.environ['V7']))");
    for n in 0..8 {
        run = run.arg("--env", format!("V{n}={word}"));
    }
    run.out().exits(0).says("120000\n");
}

#[test]
fn input_files_have_a_number() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    for n in 0..10_001 {
        std::fs::write(folder.path().join(n.to_string()), "").unwrap();
    }
    let run = || -> Out {
        who.run("python", "import os\nprint(len(os.listdir('d')))")
            .arg("--file", format!("d={}", folder.path().display()))
            .out()
    };
    run().exits(2).complains_of("file");
    for n in 0..3 {
        std::fs::remove_file(folder.path().join(n.to_string())).unwrap();
    }
    run().exits(0).says("9998\n");
}

#[test]
fn input_files_have_a_size() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    let file = |name: &str, size: u64| {
        let path = who.write(&folder.path().join(name), "");
        std::fs::File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
        path
    };
    let (half, whole) = (file("half", 60 << 20), file("whole", 101 << 20));
    let code = "import os\nprint(os.path.getsize('half'))";
    let run = || who.run("python", code).arg("--file", &half);
    run().out().exits(0).says(&format!("{}\n", 60 << 20));
    run().arg("--file", format!("other={}", half.display())).out().exits(2).complains_of("file");
    run().arg("--file", &whole).out().exits(2).complains_of("whole");
    // Input is not put anywhere, so it may be as large as it likes.
    run().arg("--stdin", format!("@{}", whole.display())).out().exits(0);
    // What does not fit into its storage is a wrong request, not a failure of ours.
    run().options("--disk 8M").out().exits(2).complains_of("disk");
}

#[test]
fn endless_files_are_refused_in_time_and_endless_input_ends_with_its_program() {
    let who = Sandboxd::plain();
    let run = |code: &str, option: &str| who.run("python", code).flag(option).out();
    run("print(1)", "--file=zero=/dev/zero").exits(2).ends_within(20).complains_of("/dev/zero");
    run("print(1)", "--stdin=@/dev/zero").exits(0).ends_within(20).says("1\n");
    let reads = "import os\nwhile True: os.read(0, 1 << 20)";
    let read = who.run("python", reads).flag("--stdin=@/dev/zero").options("--timeout 1s").json();
    read.is("timed_out").out.ends_within(20);
    who.run_file(Path::new("/dev/zero"))
        .options("-l python")
        .out()
        .exits(2)
        .ends_within(20)
        .complains_of("/dev/zero");
}
