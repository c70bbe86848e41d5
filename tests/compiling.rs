//! What is compiled or prepared once is not done again, for the same owner, as long as nothing changed.

#![cfg(test)]

mod support;

use rustix::process::Signal;
use std::path::Path;
use std::time::Duration;
use support::{Record, Sandboxd, alone};

const PROGRAM: &str = "#include <stdio.h>\n#include \"word.h\"\nint main(void) { puts(WORD); }\n";

/// Says which steps ran: a compiler leaves its own processes in the count, a finished program is alone.
fn compiles(record: &Record) -> bool {
    record.metric("cpu_time_ms") > 0.0 && record.metric("processes_peak") > 1.0
}

fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    found.sort();
    found
}

/// Compiled programs kept below a home.
fn kept(home: &Path) -> Vec<std::path::PathBuf> {
    entries(&home.join(".cache/sandboxd/compiled")).iter().flat_map(|owner| entries(owner)).collect()
}

#[test]
fn the_same_program_is_compiled_once_and_a_changed_one_again() {
    let Some(root) = Sandboxd::root() else { return };
    let (home, sources) = (root.folder(), root.folder());
    let root = root.living_in(home.path());
    let word = sources.path().join("word.h");
    let run = |text: &str| {
        root.write(&word, format!("#define WORD \"{text}\"\n"));
        let record = root.run("c", PROGRAM).arg("--file", format!("word.h={}", word.display())).json();
        record.is("success").says(&format!("{text}\n"));
        record
    };
    assert!(compiles(&run("one")), "the first run compiles");
    assert_eq!(kept(home.path()).len(), 1);
    let again = run("one");
    again.must(!compiles(&again), "no compiler the second time");
    assert_eq!(kept(home.path()).len(), 1);
    // Only a header changed, which is not named in the compiler's command.
    assert!(compiles(&run("two")), "a changed header is compiled");
    assert_eq!(kept(home.path()).len(), 2);
    assert!(!compiles(&run("one")), "the first program is still kept");
}

#[test]
fn a_kept_program_is_what_runs() {
    let who = Sandboxd::plain();
    let home = who.folder();
    let who = who.living_in(home.path());
    let hello = || who.run("c", "#include <stdio.h>\nint main(void) { puts(\"compiled\"); }\n").json();
    hello().is("success").says("compiled\n");
    let kept = kept(home.path());
    assert_eq!(kept.len(), 1, "{kept:?}");
    // Nothing but a look into the cache could make it say this.
    who.write(&kept[0].join("main"), "#!/bin/sh\necho kept\n");
    hello().is("success").says("kept\n");
}

#[test]
fn what_failed_to_compile_is_not_kept_and_fails_again() {
    let who = Sandboxd::plain();
    let home = who.folder();
    let who = who.living_in(home.path());
    for _ in 0..2 {
        let record = who.run("c", "int main(void) { return undeclared; }").json();
        record.is("failed").must(record["error"]["step"] == "compile", "an error of the compile step");
    }
    assert_eq!(kept(home.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn owners_do_not_share_compiled_programs() {
    let Some(root) = Sandboxd::root() else { return };
    let plain = Sandboxd::plain();
    let home = root.folder();
    let cache = home.path().join("cache");
    std::fs::create_dir(&cache).unwrap();
    let code = "#include <stdio.h>\nint main(void) { puts(\"mine\"); }\n";
    let hello = |who: &Sandboxd| who.run("c", code).env("SANDBOXD_CACHE_DIR", &cache).out();
    hello(&root).exits(0).says("mine\n");
    // Somebody else's directory is not written to, and what is in it is not read.
    std::fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let before = entries(&cache.join("compiled"));
    let out = hello(&plain);
    out.never_panics().must(out.code == 0 || out.code == 125, "a refusal, or a cache elsewhere");
    assert_eq!(entries(&cache.join("compiled")), before);
    // A directory others can write to could hold a surprise.
    std::fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    hello(&root).exits(125).complains_of("cache directory");
}

#[test]
fn a_program_cannot_change_what_is_kept_of_it() {
    let who = Sandboxd::plain();
    let home = who.folder();
    let who = who.living_in(home.path());
    let code = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(\"honest\"); fflush(stdout);\n\
        return system(\"printf '#!/bin/sh\\necho changed\\n' > /build/x && cp /build/x /build/main.new && mv /build/main.new /build/main\"); }\n";
    for _ in 0..3 {
        who.run("c", code).json().is("success").says("honest\n");
    }
}

const GO: &str = "package main\nimport \"fmt\"\nfunc main() { fmt.Println(\"hello\") }\n";

#[test]
fn preparing_a_toolchain_can_be_interrupted_and_begun_again() {
    let _alone = alone();
    let who = Sandboxd::plain();
    let home = who.folder();
    let who = who.living_in(home.path());
    let go = || who.run("go", GO).options("--timeout 60s");
    let first = go().start();
    first.until_it_runs("go");
    let second = go().start();
    second.until_it_complains("preparing");
    // Nothing tells that it has begun to wait; too early would only be a weaker test.
    std::thread::sleep(Duration::from_millis(300));
    // The one that waits for the other, then the one that works.
    for running in [second, first] {
        let asked = std::time::Instant::now();
        running.signal(Signal::TERM);
        let out = running.out(Duration::from_secs(60));
        out.says("").never_panics().must(out.code == 130 || out.code == -15, "an end by the signal");
        out.must(asked.elapsed() < Duration::from_secs(4), "an end soon after the signal");
    }
    // Two that want the same at once both get it.
    let both = [go().start(), go().start()];
    for running in both {
        running.out(Duration::from_secs(90)).exits(0).says("hello\n");
    }
    let prepared = entries(&home.path().join(".cache/sandboxd/prepared"));
    let drafts: Vec<_> =
        prepared.iter().filter(|path| path.extension().is_some_and(|e| e == "draft")).collect();
    assert!(drafts.is_empty(), "{drafts:?}");
    let again = go().out();
    again.exits(0).says("hello\n").is_quiet();
}
