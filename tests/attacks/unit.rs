//! The parts of the attack suite that decide, tried on their own.
#![cfg(test)]
// Of each part, only what decides is used here.
#![allow(dead_code)]

mod case;
mod elsewhere;
mod pattern;
mod record;
mod seen;
mod turns;

use case::{Case, Expect};
use elsewhere::Elsewhere;
use pattern::{Attempt, attempts, complaints, matches};
use seen::{Seen, judge};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;
use turns::{Manner, Turns};

const WHOLE: &str = r#"
[[case]]
id = "FS-01"
severity = "S0"
tries = "reads"
must = "nothing"
[[case.run]]
language = "python"
program = "fs_01_absolute.py"
options = ["--timeout", "5s"]
[case.run.expect]
at_least = 1
attempts = [["*", ["ENOENT"]]]
[case.run.plain]
options = ["--timeout", "9s"]
status = ["failed"]
"#;

#[test]
fn globs() {
    let fit = [
        ("", ""),
        ("*", ""),
        ("*", "anything / at all"),
        ("open *", "open /etc/shadow"),
        ("*shadow", "open /etc/shadow"),
        ("o*e*d*w", "open /etc/shadow"),
        ("*aab", "aaab"),
        ("?", "é"),
        ("fd [0-9]", "fd 7"),
        ("fd [!0-9]", "fd x"),
        ("[]]", "]"),
        ("[a-]", "-"),
        ("[*]", "*"),
        ("[", "["),
        ("a**b", "ab"),
    ];
    for (glob, text) in fit {
        assert!(matches(glob, text), "{glob:?} fits {text:?}");
    }
    let differ = [
        ("", "a"),
        ("a", ""),
        ("?", ""),
        ("?", "ab"),
        ("open", "open /etc/shadow"),
        ("shadow", "open /etc/shadow"),
        ("open *x", "open /etc/shadow"),
        ("fd [0-9]", "fd x"),
        ("fd [!0-9]", "fd 7"),
        ("[*]", "x"),
        ("EPERM", "eperm"),
        ("ok", "ok "),
    ];
    for (glob, text) in differ {
        assert!(!matches(glob, text), "{glob:?} does not fit {text:?}");
    }
}

#[test]
fn many_stars_take_no_time() {
    let began = std::time::Instant::now();
    assert!(!matches(&("a*".repeat(30) + "b"), &"a".repeat(3000)));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn attempts_are_lines_of_three_parts() {
    let (good, bad) =
        attempts("hello\nattempt\topen\tENOENT\nattempt\tno answer\nattempt\ta\tb\tc\nattempt\t\tx\n");
    assert_eq!(good, [Attempt { name: "open".into(), answer: "ENOENT".into() }]);
    assert_eq!(bad, ["attempt\tno answer", "attempt\ta\tb\tc", "attempt\t\tx"]);
}

/// What is wrong with attempts, given as `name=answer`, by rules, given as `pattern=answer|answer`.
fn wrong(rules: &[&str], tried: &[&str]) -> Vec<String> {
    let halves = |text: &&str| {
        let (left, right) = text.split_once('=').unwrap();
        (left.to_owned(), right.to_owned())
    };
    let rules: Vec<_> = rules
        .iter()
        .map(halves)
        .map(|(pattern, answers)| (pattern, answers.split('|').map(str::to_owned).collect()))
        .collect();
    let tried: Vec<_> = tried.iter().map(halves).map(|(name, answer)| Attempt { name, answer }).collect();
    complaints(&rules, &tried)
}

#[test]
fn the_first_pattern_that_fits_decides() {
    assert_eq!(
        wrong(&["open /etc/passwd=ok", "*=ENOENT|EACCES"], &["open /etc/passwd=ok", "x=EACCES"]),
        [""; 0]
    );
    let later = wrong(&["open *=ENOENT", "*=ok"], &["open /etc/shadow=ok", "x=ok"]);
    assert_eq!(later, ["`open /etc/shadow` answered `ok`, not ENOENT"]);
}

#[test]
fn answers_names_and_patterns_have_to_meet() {
    assert_eq!(wrong(&["*=ENOENT|E?ERM"], &["a=EPERM", "b=ok"]), ["`b` answered `ok`, not ENOENT or E?ERM"]);
    assert_eq!(wrong(&["a=ok"], &["a=ok", "b=ok"]), ["`b` answered `ok`, and no pattern fits it"]);
    assert_eq!(wrong(&["a=ok", "b=ok"], &["a=ok"]), ["nothing was tried that fits `b`"]);
    assert_eq!(wrong(&[], &["a=ok"]).len(), 1);
    assert_eq!(wrong(&["*=ok"], &[]).len(), 1);
}

#[test]
fn a_case_is_read_for_both_users() {
    let cases = Case::load("filesystem.toml", WHOLE).unwrap();
    let case = &cases[0];
    assert_eq!((cases.len(), case.section.as_str(), case.facts.id.as_str()), (1, "Filesystem", "FS-01"));
    assert_eq!(case.root[0].options, ["--timeout", "5s"]);
    assert_eq!(case.plain[0].options, ["--timeout", "9s"]);
    assert_eq!(case.root[0].expect.statuses(), ["success"]);
    assert_eq!(case.plain[0].expect.statuses(), ["failed"]);
    assert_eq!(case.plain[0].expect.at_least, Some(1));
    assert_eq!(case.root[0].needed(), ["fs_01_absolute.py", "attack.py"]);
}

/// What is said of the file after these words are put in place of others.
fn refused(from: &str, to: &str) -> String {
    assert!(WHOLE.contains(from), "`{from}` is not there");
    Case::load("filesystem.toml", &WHOLE.replacen(from, to, 1)).unwrap_err()
}

#[test]
fn unknown_keys_are_errors_that_name_file_case_and_key() {
    let places = [
        ("severity =", "colour = \"red\"\nseverity ="),
        ("language =", "colour = \"red\"\nlanguage ="),
        ("at_least =", "colour = \"red\"\nat_least ="),
        ("options = [\"--timeout\", \"9s\"]", "colour = \"red\""),
    ];
    for (from, to) in places {
        let said = refused(from, to);
        for part in ["filesystem.toml", "FS-01", "`colour`"] {
            assert!(said.contains(part), "no {part} in: {said}");
        }
    }
    assert!(refused("[[case]]", "colour = 1\n[[case]]").contains("`colour`"));
}

#[test]
fn what_could_not_fail_or_not_run_is_refused() {
    let none = "at_least = 1\nattempts = [[\"*\", [\"ENOENT\"]]]";
    let kinds = [
        (none, "", "nothing that could fail"),
        (none, "ends_within = 5.0", "nothing that could fail"),
        (none, "stdout_lacks = [\"x\"]", "nothing that could fail"),
        ("at_least = 1", "", "belong together"),
        ("at_least = 1", "at_least = 0", "does nothing"),
        ("attempts = [[\"*\", [\"ENOENT\"]]]", "", "belong together"),
        ("severity = \"S0\"", "severity = \"S9\"", "severity `S9`"),
        ("program =", "code = \"1\"\nprogram =", "either"),
        ("language = \"python\"", "", "language"),
        ("must = \"nothing\"", "", "must"),
        ("must = \"nothing\"", "must = \"x\"\nroot_only = \"a\"\nplain_only = \"b\"", "nobody"),
        ("at_least = 1", "at_least = \"many\"", "invalid type"),
    ];
    for (from, to, words) in kinds {
        let said = refused(from, to);
        assert!(said.contains(words), "no `{words}` in: {said}");
    }
}

#[test]
fn a_missing_program_or_drive_is_an_error() {
    let case = |text: &str| Case::load("filesystem.toml", text).unwrap().remove(0);
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/attacks/programs");
    let missing = case(&WHOLE.replace("fs_01_absolute.py", "no_such.py"));
    assert!(missing.check(&programs, |_| true).unwrap_err().contains("no_such.py"));
    let driven = case(&WHOLE.replace("language =", "drive = \"nobody\"\nlanguage ="));
    assert!(driven.check(&programs, |_| false).unwrap_err().contains("nobody"));
    assert_eq!(driven.check(&programs, |_| true), Ok(()));
}

#[test]
fn every_case_can_be_read_and_is_there_once() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/attacks");
    let cases = Case::load_all(&here.join("cases")).unwrap();
    assert!(cases.len() > 80, "only {} cases", cases.len());
    for case in &cases {
        assert_eq!(case.check(&here.join("programs"), |_| true), Ok(()));
    }
}

#[test]
fn expectations_are_compared_one_by_one() {
    let expect: Expect = toml::from_str(
        "status = ['failed']\nexit_code = 3\nends_within = 1.0\nstdout_contains = ['yes']\nstdout_lacks = ['no']\n\
         stderr_contains = ['oops']\nmetrics = { cpu_time_ms = [1, 2.5] }\nartifacts = ['b', 'a']\n\
         stdout_truncated = false\nerror_contains = ['code 3']",
    )
    .unwrap();
    let seen = |change: fn(&mut Seen)| {
        let mut seen = Seen {
            status: "failed".into(),
            exit_code: Some(3),
            stdout: b"yes".to_vec(),
            stderr: b"oops".to_vec(),
            record: Some(json!({
                "stdout_truncated": false,
                "error": { "message": "exit code 3" },
                "metrics": { "cpu_time_ms": 2 },
                "artifacts": [{ "path": "a" }, { "path": "b" }],
            })),
            took: Duration::from_millis(900),
            ..Seen::default()
        };
        change(&mut seen);
        judge(&expect, &seen)
    };
    assert_eq!(seen(|_| ()), [""; 0]);
    let changes: [fn(&mut Seen); 10] = [
        |seen| seen.status = "success".into(),
        |seen| seen.exit_code = None,
        |seen| seen.took = Duration::from_millis(1100),
        |seen| seen.stdout = b"ye".to_vec(),
        |seen| seen.stdout = b"yes no".to_vec(),
        |seen| seen.stderr = Vec::new(),
        |seen| seen.record.as_mut().unwrap()["metrics"]["cpu_time_ms"] = 3.into(),
        |seen| seen.record.as_mut().unwrap()["artifacts"] = json!([{ "path": "a" }]),
        |seen| seen.record.as_mut().unwrap()["stdout_truncated"] = true.into(),
        |seen| seen.stdout = b"yes\nattempt\tx\tok\n".to_vec(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert_eq!(seen(change).len(), 1, "change {number}: {:?}", seen(change));
    }
}

#[test]
fn too_few_attempts_are_too_few() {
    let expect: Expect = toml::from_str("at_least = 2\nattempts = [['*', ['ok']]]").unwrap();
    let with = |stdout: &str| {
        judge(&expect, &Seen { status: "success".into(), stdout: stdout.into(), ..Seen::default() })
    };
    assert_eq!(with("attempt\ta\tok\nattempt\tb\tok\n"), [""; 0]);
    assert_eq!(with("attempt\ta\tok\n"), ["1 attempts, not at least 2"]);
}

fn good_record() -> Value {
    json!({
        "execution_id": "exec_01a1e12bdd4e71e4b3482b24360f7dde",
        "status": "success", "exit_code": 0, "signal": null,
        "stdout": "1\n", "stderr": "", "stdout_truncated": false, "stderr_truncated": false,
        "metrics": {
            "duration_ms": 1.5, "cpu_time_ms": 1, "memory_peak_bytes": 3, "io_read_bytes": 0,
            "io_write_bytes": 0, "stdout_bytes": 2, "stderr_bytes": 0,
        },
        "artifacts": [],
        "isolation": { "grade": 1, "degraded": [] },
        "error": null,
        "started_at": "2026-01-01T00:00:00.5Z", "finished_at": "2026-01-01T00:00:01Z",
    })
}

fn read(code: i32, record: &Value) -> (Seen, Vec<String>) {
    record::read(code, format!("{record}\n").as_bytes(), b"", Duration::ZERO)
}

#[test]
fn a_record_has_to_agree_with_itself() {
    let (seen, wrong) = read(0, &good_record());
    assert_eq!((seen.status.as_str(), seen.stdout.as_slice(), wrong), ("success", &b"1\n"[..], Vec::new()));
    assert_eq!(read(1, &good_record()).1.len(), 1, "another exit code");
    let changes: [(&str, Value); 14] = [
        ("/execution_id", "exec_1".into()),
        ("/status", "done".into()),
        ("/status", "failed".into()),
        ("/exit_code", 1.into()),
        ("/stdout", "1\n2\n".into()),
        ("/stdout_truncated", true.into()),
        ("/stderr_truncated", Value::Null),
        ("/metrics/duration_ms", (-1).into()),
        ("/metrics/memory_peak_bytes", Value::Null),
        ("/artifacts", Value::Null),
        ("/isolation/grade", 0.into()),
        ("/isolation/degraded", Value::Null),
        ("/error", json!({ "message": "x" })),
        ("/finished_at", "2025-01-01T00:00:01Z".into()),
    ];
    for (place, value) in changes {
        let mut record = good_record();
        *record.pointer_mut(place).unwrap() = value;
        assert!(!read(0, &record).1.is_empty(), "{place}: {record}");
    }
}

#[test]
fn exact_bytes_are_read() {
    let mut record = good_record();
    record["stdout"] = "\u{fffd}".into();
    record["stdout_base64"] = "//4=".into();
    let (seen, wrong) = read(0, &record);
    assert_eq!((seen.stdout, wrong), (vec![0xff, 0xfe], Vec::new()));
}

#[test]
fn without_a_record_there_is_a_complaint() {
    let read = |code, stdout: &[u8], stderr: &[u8]| {
        let (seen, wrong) = record::read(code, stdout, stderr, Duration::ZERO);
        (seen.status, wrong.len())
    };
    assert_eq!(read(2, b"", b"error: no\nhint: yes\n"), ("refused".into(), 0));
    assert_eq!(read(125, b"", b"error: no\n"), ("unavailable".into(), 0));
    assert_eq!(read(-9, b"", b""), ("nothing".into(), 1));
    assert_eq!(read(2, b"", b"error: x\nthread 'main' panicked at x\n"), ("refused".into(), 1));
    assert_eq!(read(0, b"{}\n{}\n", b"").0, "malformed");
    assert_eq!(read(0, b"hello\n", b"").0, "malformed");
}

#[test]
fn an_answer_is_a_record_or_a_problem_in_words() {
    let read = |status, body: &Value| {
        let (seen, wrong) = record::read_answer(status, body.to_string().as_bytes(), Duration::ZERO);
        (seen.status, wrong.len())
    };
    assert_eq!(read(200, &good_record()), ("success".into(), 0));
    let mut record = good_record();
    record["exit_code"] = 1.into();
    assert_eq!(read(200, &record), ("success".into(), 1));
    assert!(read(200, &json!({})).1 > 0);
    let problem = |status: u16| json!({ "status": status, "code": "x", "detail": "no" });
    assert_eq!(read(422, &problem(422)), ("refused".into(), 0));
    assert_eq!(read(503, &problem(503)), ("unavailable".into(), 0));
    assert_eq!(read(500, &problem(500)), ("nothing".into(), 1));
    assert_eq!(read(422, &problem(400)), ("refused".into(), 1));
    assert_eq!(read(422, &json!("no")), ("refused".into(), 1));
}

#[test]
fn what_is_proven_elsewhere_is_there() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = Elsewhere::load(&repository.join("tests/attacks/elsewhere.toml"), &repository).unwrap();
    assert!(!all.is_empty());
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.toml");
    let of = |tests: &str| {
        let text =
            format!("[[case]]\nid = 'X'\nseverity = 'S0'\ntries = 'x'\nmust = 'x'\nproven_by = {tests}\n");
        std::fs::write(&page, text).unwrap();
        Elsewhere::load(&page, &repository)
    };
    assert!(of("['tests/rest/files.rs::files_go_in_and_out_and_never_outside']").is_ok());
    for wrong in ["[]", "['tests/rest.rs']", "['tests/rest.rs::nobody']", "['tests/none.rs::x']"] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn who_strains_or_harms_goes_on_alone_and_who_asks_for_time_with_its_like() {
    let changed = |what: &str, more: &str| {
        let text = WHOLE.replace(what, &format!("{what}{more}"));
        Case::load("filesystem.toml", &text).unwrap()[0].manner()
    };
    assert_eq!(changed("at_least = 1\n", ""), Manner::Beside);
    assert_eq!(
        changed("at_least = 1\n", "metrics = { memory_peak_bytes = [1, 2], cpu_time_ms = [1, 2] }\n"),
        Manner::Beside
    );
    assert_eq!(changed("at_least = 1\n", "metrics = { duration_ms = [1, 2] }\n"), Manner::Timed);
    assert_eq!(changed("at_least = 1\n", "ends_within = 1.0\n"), Manner::Timed);
    assert_eq!(changed("[case.run.plain]\n", "ends_within = 1.0\n"), Manner::Timed);
    assert_eq!(changed("must = \"nothing\"\n", "loud = true\n"), Manner::Alone);
    assert_eq!(changed("must = \"nothing\"\n", "alone = \"why\"\n"), Manner::Alone);
    assert_eq!(changed("must = \"nothing\"\n", "must_notice = [\"*\"]\n"), Manner::Alone);
}

#[test]
fn one_who_is_alone_waits_for_all_and_all_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let turns = Turns::at(folder.path());
    let (said, heard) = mpsc::channel();
    let take = |name: &'static str, manner: Manner| {
        let (path, said) = (folder.path().to_owned(), said.clone());
        std::thread::spawn(move || {
            let turn = Turns::at(&path).take(manner).unwrap();
            said.send(name).unwrap();
            turn
        })
    };
    let nobody_comes = || heard.recv_timeout(Duration::from_millis(200)).is_err();
    let next = || heard.recv_timeout(Duration::from_secs(20)).unwrap();
    let (first, second) = (turns.take(Manner::Beside).unwrap(), turns.take(Manner::Beside).unwrap());
    let alone = take("alone", Manner::Alone);
    drop(first);
    assert!(nobody_comes(), "one is still there");
    let late = take("late", Manner::Beside);
    assert!(nobody_comes(), "nobody overtakes the one who waits");
    drop(second);
    assert_eq!(next(), "alone");
    assert!(nobody_comes(), "it is alone");
    drop(alone.join().unwrap());
    assert_eq!(next(), "late");
    drop(late.join().unwrap());
    // Those who ask for time meet each other, and nobody else.
    let timed = take("timed", Manner::Timed);
    assert_eq!(next(), "timed");
    let like = take("like", Manner::Timed);
    assert_eq!(next(), "like");
    let other = take("other", Manner::Beside);
    drop(timed.join().unwrap());
    assert!(nobody_comes(), "one is still asking");
    drop(like.join().unwrap());
    assert_eq!(next(), "other");
    let timed = take("timed", Manner::Timed);
    assert!(nobody_comes(), "the other is still there");
    drop(other.join().unwrap());
    assert_eq!(next(), "timed");
    drop(timed.join().unwrap());
}
