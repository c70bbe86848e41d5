//! Every language does what its page in `runtimes/` promises: as root, as a plain user, and without isolation.

#![cfg(test)]

mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use support::catalogue::{Check, Language, languages};
use support::{Sandboxd, alone, in_parallel};

/// Walks programs and says how many of each language did what they promise.
fn walk(title: &str, programs: &[(&Sandboxd, &Language, &Check)], more: &str) {
    let good = Mutex::new(BTreeMap::<&str, usize>::new());
    let failures = in_parallel(programs, |(who, language, check)| {
        check.walk(who, &language.name, more)?;
        *good.lock().unwrap().entry(&language.name).or_default() += 1;
        Ok(())
    });
    let good = good.into_inner().unwrap();
    let counts: Vec<String> = good.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let total: usize = good.values().sum();
    let _ =
        writeln!(std::io::stderr(), "{title}: {total} of {} programs: {}", programs.len(), counts.join(", "));
    assert!(failures.is_empty(), "{} failed\n\n{}", failures.len(), failures.join("\n\n"));
}

/// A compiler that no longer works must not hide behind what it compiled yesterday.
fn forget_compiled(who: &Sandboxd) {
    let _ = std::fs::remove_dir_all(who.home().join(".cache/sandboxd/compiled"));
}

#[test]
fn every_program_of_every_page_runs_as_root_and_as_plain_user() {
    let _alone = alone();
    let (everybody, languages) = (Sandboxd::everybody(), languages());
    everybody.iter().for_each(forget_compiled);
    for who in &everybody {
        let programs: Vec<_> =
            languages.iter().flat_map(|l| l.checks.iter().map(move |check| (who, l, check))).collect();
        walk(&format!("as {}", who.name()), &programs, "");
    }
}

/// Programs that wait do for every program of their page what a program started for it does.
#[test]
fn programs_that_wait_keep_every_promise_too() {
    let _alone = alone();
    let languages: Vec<Language> = languages().into_iter().filter(Language::can_wait).collect();
    assert!(!languages.is_empty());
    for who in Sandboxd::everybody() {
        for language in &languages {
            let record = who.run(&language.name, &language.check("hello").code).flag("--warm").json();
            record.must(record["start"] == "miss", "a program that waited");
        }
        let who = &who;
        let programs: Vec<_> =
            languages.iter().flat_map(|l| l.checks.iter().map(move |check| (who, l, check))).collect();
        walk(&format!("as {} by programs that wait", who.name()), &programs, "--warm");
    }
}

#[test]
fn every_language_runs_without_isolation() {
    let _alone = alone();
    let languages = languages();
    for who in Sandboxd::everybody() {
        forget_compiled(&who);
        let programs: Vec<_> = languages
            .iter()
            .flat_map(|l| ["hello", "stdin", "exit code"].map(|name| (&who, l, l.check(name))))
            .collect();
        // Nothing is prepared: Go compiles what it needs of its standard library each time.
        let options = "--unsafe-no-isolation --timeout 2m";
        walk(&format!("as {} without isolation", who.name()), &programs, options);
    }
}

#[test]
fn every_language_is_available_and_has_a_version() {
    for who in Sandboxd::everybody() {
        let out = who.command(["languages", "--json"]).out();
        out.exits(0).is_quiet();
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&out.stdout).unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        let wanted = languages();
        assert_eq!(names, wanted.iter().map(|language| language.name.as_str()).collect::<Vec<_>>());
        for row in &rows {
            assert_eq!(row["available"], true, "{row}");
            assert!(row["reason"].is_null(), "{row}");
            assert!(
                row["version"].as_str().is_some_and(|v| v.contains(|c: char| c.is_ascii_digit())),
                "{row}"
            );
        }
        let table = who.command(["languages"]).out();
        table.exits(0);
        for name in &names {
            table.must(table.text().contains(name), name);
        }
    }
}

#[test]
fn every_name_of_a_language_resolves_in_any_case() {
    let _alone = alone();
    let who = Sandboxd::plain();
    let languages = languages();
    let names: Vec<(&Language, String)> = languages
        .iter()
        .flat_map(|l| l.aliases.iter().cloned().chain([l.name.to_uppercase()]).map(move |name| (l, name)))
        .collect();
    let failures = in_parallel(&names, |(language, name)| {
        let record = who.run(name, &language.check("hello").code).json();
        record
            .is("success")
            .says("hello\n")
            .must(record["language"] == language.name.as_str(), &language.name);
        Ok(())
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn checking_a_program_finds_its_errors_and_does_not_run_it() {
    let _alone = alone();
    let who = Sandboxd::plain();
    let languages = languages();
    let failures = in_parallel(&languages, |language| {
        if language.variants.iter().all(|variant| variant.syntax.is_empty()) {
            who.run(&language.name, "").flag("--check").out().exits(2).complains_of("check");
            return Ok(());
        }
        let hello = who.run(&language.name, &language.check("hello").code).flag("--check").json();
        hello.is("success").exits(0).must(!hello.stdout().contains("hello\n"), "no run");
        let broken = who.run(&language.name, &language.broken().code).flag("--check").json();
        broken.is("failed").must(broken.out.code != 0, "an exit code that is not 0");
        Ok(())
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
