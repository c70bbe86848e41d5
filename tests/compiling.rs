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

/// A program that says how many of these classes the compiler that made it took from an archive.
const SHARED: &str = r#"
import java.nio.file.*;

public class Main {
    public static void main(String[] args) throws Exception {
        int shared = 0, loaded = 0;
        for (String line : Files.readAllLines(Path.of("/tmp/loaded"))) {
            if (!line.contains(" com.sun.tools.javac.")) continue;
            loaded++;
            if (line.contains("source: shared objects file")) shared++;
        }
        System.out.println(loaded > 100 && shared > loaded * 9 / 10 ? "shared" : shared + " of " + loaded);
    }
}
"#;

/// The one prepared directory below a home.
fn prepared(home: &Path) -> std::path::PathBuf {
    let mut found = entries(&home.join(".cache/sandboxd/prepared"));
    found.retain(|path| path.is_dir());
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn java_saying(word: &str) -> String {
    format!("class Main {{ public static void main(String[] args) {{ System.out.println(\"{word}\"); }} }}\n")
}

#[test]
fn javac_takes_its_classes_from_the_prepared_archive() {
    for who in Sandboxd::everybody() {
        let home = who.folder();
        let who = who.living_in(home.path());
        let first = who.run("java", &java_saying("first")).out();
        first.exits(0).says("first\n").must(first.complaint().contains("preparing Java"), "a preparation");
        let options = prepared(home.path()).join("javac");
        let written = std::fs::read_to_string(&options).unwrap();
        // Nothing but a compiler with these options leaves this file.
        who.write(&options, format!("{written}-Xlog:class+load:file=/tmp/loaded\n"));
        who.run("java", SHARED).out().exits(0).says("shared\n").is_quiet();
        // With options of the caller's own it is not used.
        let own = who.run("java", SHARED).arg("--env", "JAVA_TOOL_OPTIONS=-Dunused=1").out();
        own.exits(1).must(own.complaint().contains("NoSuchFileException: /tmp/loaded"), "no such compiler");
    }
}

#[test]
fn java_does_without_an_archive_it_cannot_use() {
    let who = Sandboxd::plain();
    let home = who.folder();
    let who = who.living_in(home.path());
    who.run("java", &java_saying("first")).out().exits(0).says("first\n");
    let folder = prepared(home.path());
    let archive = folder.join("javac.jsa");
    let good = std::fs::read(&archive).unwrap();
    let works = |word: &str| {
        who.run("java", &java_saying(word)).out().exits(0).says(&format!("{word}\n")).is_quiet();
        let hello = who.run("java", &java_saying(word)).flag("--check").out();
        hello.exits(0).says("").is_quiet();
        let wrong = who.run("java", &format!("class {word} {{ int n = \"text\"; }}")).out();
        wrong.exits(1).says("").must(wrong.complaint().contains("1 error"), "an error");
        wrong.must(!wrong.complaint().contains('['), "no log of the JVM");
    };
    works("good");
    who.write(&archive, &good[..good.len() / 2]);
    works("half");
    // Of another JVM: the name of the one that made it is near the beginning.
    let mut other = good.clone();
    other[16..4096].fill(b'x');
    who.write(&archive, &other);
    works("other");
    who.write(&archive, "");
    works("empty");
    std::fs::remove_file(&archive).unwrap();
    works("missing");
    std::fs::remove_file(folder.join("javac")).unwrap();
    works("nothing");
}

#[test]
fn java_works_where_it_cannot_be_prepared() {
    for who in Sandboxd::everybody() {
        let home = who.folder();
        // Enough to compile a small program, not to prepare.
        let who = who.living_in(home.path()).with("SANDBOXD_MAX_MEMORY", "72M");
        for word in ["first", "second"] {
            who.run("java", &java_saying(word)).flag("--quiet").out().exits(0).says(&format!("{word}\n"));
        }
        assert_eq!(entries(&prepared(home.path())), Vec::<std::path::PathBuf>::new());
    }
}
