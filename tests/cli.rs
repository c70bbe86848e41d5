//! `sandboxd run` for people and scripts: exit codes, the record, live output, signals.
#![cfg(test)]

mod support;

use rustix::process::Signal;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;
use support::Sandboxd;

#[test]
fn exit_codes_are_the_programs_own() {
    for who in Sandboxd::everybody() {
        for code in [0, 1, 2, 3, 42, 77, 124, 125, 126, 127, 128, 137, 254, 255] {
            let record = who.run("sh", &format!("exit {code}")).json();
            record.exits(code).is(if code == 0 { "success" } else { "failed" });
            record.must(
                record["exit_code"] == code && record["signal"].is_null(),
                "the same code in the record",
            );
            who.run("sh", &format!("exit {code}")).out().exits(code).says("").is_quiet();
        }
    }
}

#[test]
fn exit_codes_of_what_ended_a_program() {
    for who in Sandboxd::everybody() {
        for signal in [1, 2, 3, 6, 8, 9, 11, 13, 14, 15, 10, 12] {
            let record = who.run("sh", &format!("kill -{signal} $$")).json();
            record.exits(128 + signal).is("signalled");
            record.must(
                record["signal"] == signal && record["exit_code"].is_null(),
                "the signal in the record",
            );
        }
        who.run("sh", "sleep 60").options("--timeout 200ms").out().exits(124).complains_of("200ms");
        let much = "kept = []\nwhile True: kept.append(b'x' * (1 << 20))";
        if who.is_root() {
            who.run("python", much).options("--memory 64M").out().exits(137).complains_of("64M");
        }
        let fork = who.run("sh", "while :; do :; done").options("--cpu-time 200ms").out();
        fork.exits(124).complains_of("200ms");
    }
}

/// Every field of the record, as the documents list them.
const FIELDS: [&str; 19] = [
    "execution_id",
    "status",
    "start",
    "exit_code",
    "signal",
    "stdout",
    "stderr",
    "stdout_truncated",
    "stderr_truncated",
    "return_value",
    "return_value_set",
    "metrics",
    "artifacts",
    "artifacts_truncated",
    "isolation",
    "error",
    "language",
    "started_at",
    "finished_at",
];
const METRICS: [&str; 8] = [
    "duration_ms",
    "cpu_time_ms",
    "memory_peak_bytes",
    "io_read_bytes",
    "io_write_bytes",
    "processes_peak",
    "stdout_bytes",
    "stderr_bytes",
];

fn keys(value: &serde_json::Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_record_has_exactly_the_documented_fields() {
    for who in Sandboxd::everybody() {
        for (code, options) in [
            ("echo hi", ""),
            ("exit 3", ""),
            ("sleep 9", "--timeout 100ms"),
            ("echo hi", "--unsafe-no-isolation"),
        ] {
            let record = who.run("sh", code).options(options).json();
            assert_eq!(keys(&record), BTreeSet::from(FIELDS));
            assert_eq!(keys(&record["metrics"]), BTreeSet::from(METRICS));
            record.out.is_quiet();
            record.must(
                record["error"].is_null() == (record["status"] == "success"),
                "a reason unless it is a success",
            );
            record.must(record["execution_id"].as_str().unwrap().starts_with("exec_"), "an id");
            record.must(record["started_at"].as_str() < record["finished_at"].as_str(), "times in order");
        }
        let binary = who.run("sh", "printf '\\377'; printf '\\377' >&2").json();
        let more: BTreeSet<&str> = &keys(&binary) - &BTreeSet::from(FIELDS);
        assert_eq!(more, BTreeSet::from(["stdout_base64", "stderr_base64"]));
    }
}

#[test]
fn no_isolation_is_named_in_the_record_and_on_the_terminal() {
    for who in Sandboxd::everybody() {
        let record = who.run("sh", "id -u").flag("--unsafe-no-isolation").json();
        record.is("success").must(
            record["isolation"]["backend"] == "process" && record["isolation"]["grade"] == 0,
            "its grade",
        );
        let out = who.run("sh", "echo hi").flag("--unsafe-no-isolation").out();
        out.exits(0).says("hi\n").must(out.complaint().contains("NO ISOLATION"), "a warning");
        who.run("sh", "echo hi")
            .options("--unsafe-no-isolation --quiet")
            .out()
            .exits(0)
            .says("hi\n")
            .is_quiet();
    }
}

#[test]
fn quiet_prints_only_what_the_program_prints() {
    let who = Sandboxd::plain();
    who.run("sh", "echo hi; sleep 9")
        .options("--quiet --timeout 200ms")
        .out()
        .exits(124)
        .says("hi\n")
        .is_quiet();
    let out = who.run("sh", "echo hi; echo no >&2").flag("-q").out();
    out.exits(0).says("hi\n").must(out.complaint() == "no\n", "its own complaint");
    who.run("sh", "echo hi").options("--quiet --json").out().is_misuse_of("--json");
    let out = who.run("sh", "echo hi").flag("--metrics").out();
    out.exits(0).says("hi\n").must(out.complaint().contains("wall time"), "metrics on stderr");
}

#[test]
fn output_is_live() {
    for who in Sandboxd::everybody() {
        let mut running = who
            .run("sh", "echo complaint >&2; echo first; sleep 60; echo last")
            .options("--timeout 30s")
            .start();
        running.until_it_says("first\n");
        assert!(running.is_running(), "the first line came only at the end");
        running.signal(Signal::TERM);
        let out = running.out(Duration::from_secs(20));
        out.says("first\n").must(out.complaint().starts_with("complaint\n"), "its complaint");
    }
}

#[test]
fn order_of_each_stream_is_kept() {
    let code = "import os\nfor n in range(2000): os.write(1 + n % 2, b'%d\\n' % n)";
    for who in Sandboxd::everybody() {
        let out = who.run("python", code).out();
        let lines = |first: usize| (first..2000).step_by(2).map(|n| format!("{n}\n")).collect::<String>();
        out.exits(0).says(&lines(0)).must(out.complaint() == lines(1), "odd numbers in order");
    }
}

#[test]
fn what_was_written_first_comes_first() {
    // Both streams into one pipe, as in a terminal, with pauses no gathering can bridge.
    let caller = Sandboxd::caller();
    let binary = caller.binary("sandboxd");
    let script = format!(
        "{} run -l sh -c 'for n in 1 2 3 4 5 6; do echo $n; sleep 0.1; echo -$n >&2; sleep 0.1; done' 2>&1",
        binary.display()
    );
    let out = Command::new("sh").args(["-c", &script]).env("HOME", caller.home()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "1\n-1\n2\n-2\n3\n-3\n4\n-4\n5\n-5\n6\n-6\n");
}

#[test]
fn signals_end_the_program_and_say_so() {
    for who in Sandboxd::everybody() {
        for signal in [Signal::INT, Signal::TERM] {
            let running = who.run("sh", "trap '' INT TERM; echo ready; while :; do sleep 1; done").start();
            running.until_it_says("ready");
            running.signal(signal);
            let out = running.out(Duration::from_secs(60));
            out.exits(130).says("ready\n").ends_within(20).never_panics();
        }
        let running = who.run("sh", "echo ready >&2; sleep 60").flag("--json").start();
        running.until_it_runs("sleep");
        running.signal(Signal::INT);
        let out = running.out(Duration::from_secs(60));
        let record: serde_json::Value = serde_json::from_slice(&out.exits(130).stdout).unwrap();
        assert_eq!(record["status"], "cancelled");
    }
}

#[test]
fn a_signal_at_any_moment_ends_it() {
    for who in Sandboxd::everybody() {
        for delay in (0..40).map(Duration::from_millis) {
            let running = who.run("sh", "sleep 60").options("--quiet --timeout 10s").start();
            // No moment to wait for: each of them has to do.
            std::thread::sleep(delay);
            running.signal(Signal::TERM);
            let out = running.out(Duration::from_secs(60));
            // Before it could say what to do with the signal, the signal does what it does to everybody.
            out.must(out.code == 130 || out.code == -15, &format!("an end by the signal after {delay:?}"))
                .ends_within(9);
        }
    }
}

#[test]
fn a_reader_that_leaves_ends_the_program() {
    for who in Sandboxd::everybody() {
        let endless = || who.run("sh", "while :; do echo y; sleep 0.01; done").options("--timeout 30s");
        endless().read_by_nobody().out().exits(130).ends_within(10).never_panics();
        who.run("sh", "echo y").flag("--json").read_by_nobody().out().ends_within(10).never_panics();
    }
}
