//! How a program gets in: from a file, from text, from standard input; what comes with it; what is refused.
#![cfg(test)]

mod support;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use support::{Sandboxd, install};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn standard_streams_can_be_opened_by_name() {
    let code = "open('/dev/stderr', 'w').write('told')\nprint(open('/dev/stdin').read())";
    for who in Sandboxd::everybody() {
        for how in ["", "--warm"] {
            let record = who.run("python", code).arg("--stdin", "asked").options(how).json();
            record.is("success").says("asked\n");
            record.must(record.stderr() == "told", "stderr `told`");
        }
    }
}

#[test]
fn input_is_passed_on_as_it_comes_and_as_it_is_read() {
    let echo =
        "import sys\nfor line in sys.stdin:\n    print('heard', line.strip(), flush=True)\nprint('end')";
    for who in Sandboxd::everybody() {
        for how in ["", "--warm"] {
            let mut talk = who.run("python", echo).options("--stdin - --timeout 20s").options(how).start();
            for word in ["one", "two"] {
                talk.types(format!("{word}\n").as_bytes());
                talk.until_it_says(&format!("heard {word}\n"));
            }
            talk.type_in(b"three\n".to_vec());
            talk.out(PATIENCE).exits(0).says("heard one\nheard two\nheard three\nend\n");
            // Who has read enough does not wait for the rest, and nobody has to have typed anything.
            let mut one = who.run("python", "print(input())").options("--stdin -").options(how).start();
            one.types(b"first\nsecond");
            one.until_it_says("first\n");
            one.until_it_ends(PATIENCE);
            let mut none = who.run("python", "print('none')").options("--stdin -").options(how).start();
            none.until_it_ends(PATIENCE);
        }
    }
}

#[test]
fn input_may_be_larger_than_anybodys_memory() {
    let code = "import sys\nn = 0\nwhile piece := sys.stdin.buffer.read(1 << 16): n += len(piece)\nprint(n)";
    let who = Sandboxd::plain();
    let folder = who.folder();
    let path = who.write(&folder.path().join("much"), "");
    std::fs::File::options().write(true).open(&path).unwrap().set_len(300_000_000).unwrap();
    let input = format!("@{}", path.display());
    for how in ["", "--warm"] {
        let run = who.run("python", code).arg("--stdin", &input).options("--memory 64M --timeout 60s");
        run.options(how).json().is("success").says("300000000\n");
    }
}

#[test]
fn a_file_tells_its_language_by_ending_or_first_line() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    for (name, content, language) in [
        ("a.py", "print('hello')", "python"),
        ("b.js", "console.log('hello')", "javascript"),
        ("c.lua", "print('hello')", "lua"),
        ("d", "#!/usr/bin/env python3\nprint('hello')", "python"),
        ("e", "#!/bin/sh\necho hello", "sh"),
        ("f.cgi", "#!/usr/bin/perl -w\nprint \"hello\\n\"", "perl"),
        ("-x.py", "print('hello')", "python"),
        ("a b'$(x).py", "print('hello')", "python"),
        ("ünï.rb", "puts 'hello'", "ruby"),
    ] {
        let path = who.write(&folder.path().join(name), content);
        let record = who.run_file(&path).json();
        record.is("success").says("hello\n").must(record["language"] == language, language);
    }
    let path = who.write(&folder.path().join("notes.txt"), "nothing to run");
    who.run_file(&path).out().exits(2).complains_of("notes.txt");
    who.run_file(&path).options("--language sh").out().exits(127);
}

#[test]
fn code_comes_from_standard_input_too() {
    for who in Sandboxd::everybody() {
        who.command(["run", "-"]).typed("print('from stdin')").out().exits(0).says("from stdin\n");
        who.command(["run", "-"]).typed("#!/bin/sh\necho $0").out().exits(0).says("main.sh\n");
        who.command(["run", "-l", "sh", "-"])
            .typed("cat")
            .options("--stdin typed")
            .out()
            .exits(0)
            .says("typed");
        who.command(["run", "-"]).typed("print(1)").options("--stdin -").out().exits(2).complains_of("stdin");
        who.command(["run", "-"]).typed("").out().exits(0).says("");
    }
}

#[test]
fn input_comes_from_text_file_or_terminal() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let all: Vec<u8> = (0..=255).collect::<Vec<u8>>().repeat(1000);
        let path = who.write(&folder.path().join("input"), &all);
        let cat = || who.run("sh", "cat").flag("--quiet");
        cat().arg("--stdin", "a\nb").out().exits(0).says("a\nb");
        cat().arg("--stdin", "").out().exits(0).says("");
        cat().arg("--stdin", "-n --x").out().exits(0).says("-n --x");
        let out = cat().arg("--stdin", format!("@{}", path.display())).out();
        out.exits(0).must(out.stdout == all, "every byte");
        let out = cat().arg("--stdin", "-").typed(all.clone()).out();
        out.exits(0).must(out.stdout == all, "every byte");
        // Without being asked for, nothing of ours is passed on.
        cat().typed("secret").out().exits(0).says("");
    }
}

#[test]
fn arguments_arrive_exactly() {
    let words = [
        "", " ", "a b", "-x", "--", "--json", "*", "$HOME", "`id`", "$(id)", "';\"", "\\", "a\nb", "\t",
        "é✓", "{source}", "{build}", "@x", "=", "%s",
    ];
    let code = "import sys, json\nprint(json.dumps(sys.argv[1:]))";
    for who in Sandboxd::everybody() {
        let record = who.run("python", code).flag("--json").words(words).out();
        let record: serde_json::Value = serde_json::from_slice(&record.exits(0).stdout).unwrap();
        let arrived: Vec<String> = serde_json::from_str(record["stdout"].as_str().unwrap()).unwrap();
        assert_eq!(arrived, words);
    }
}

#[test]
fn variables_arrive_exactly() {
    let who = Sandboxd::plain();
    let code = "import os, json\nprint(json.dumps([os.environ['A'], os.environ['B'], os.environ['HOME'], os.environ['E']]))";
    let run = who
        .run("python", code)
        .arg("--env", "A=x=y")
        .arg("--env", "B=a\nb $HOME")
        .arg("-e", "HOME=/tmp")
        .arg("-e", "E=");
    run.out().exits(0).says("[\"x=y\", \"a\\nb $HOME\", \"/tmp\", \"\"]\n");
    who.run("python", "").arg("--env", "NOVALUE").out().exits(2).complains_of("NOVALUE");
    who.run("python", "").arg("--env", "=x").out().exits(2).complains_of("env");
}

#[test]
fn files_come_along() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let below = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(below("tree/deep/er")).unwrap();
        who.write(&below("tree/deep/er/data.txt"), "deep");
        who.write(&below("tree/tool"), "#!/bin/sh\necho tool\n");
        std::fs::set_permissions(below("tree/tool"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", below("tree/link")).unwrap();
        let single = who.write(&below("a=b.txt"), "single");
        let code = "cat tree/deep/er/data.txt other/name.txt; ./tree/tool; ls tree; [ -L tree/link ] || echo no link";
        let run = who
            .run("sh", code)
            .arg("--file", below("tree"))
            .arg("--file", format!("other/name.txt={}", single.display()));
        run.out().exits(0).says("deepsingletool\ndeep\ntool\nno link\n");
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    let file = who.write(&folder.path().join("f"), "x");
    for name in ["../f", "/f", "a/../../f", ".", "..", "a//b", "", "./f", "a/", "main.py", "a\nb/../c"] {
        let out = who.run("python", "print(1)").arg("--file", format!("{name}={}", file.display())).out();
        // Either it is a name below the workspace after all, or it is refused by name.
        if out.code != 0 {
            out.exits(2).says("").complains_of("file");
        }
    }
    let code = "import os\nprint(os.path.exists('/f'), os.path.exists('/workspace/../f'))";
    who.run("python", code).arg("--file", format!("../f={}", file.display())).out().exits(2);
}

#[test]
fn what_cannot_be_read_is_named() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let nowhere = folder.path().join("nowhere.py");
        who.run_file(&nowhere).out().exits(2).complains_of("nowhere.py");
        who.run_file(folder.path()).out().exits(2).complains_of("directory");
        who.run("sh", "").arg("--file", &nowhere).out().exits(2).complains_of("nowhere.py");
        who.run("sh", "")
            .arg("--stdin", format!("@{}", nowhere.display()))
            .out()
            .exits(2)
            .complains_of("nowhere.py");
        who.run("sh", "")
            .arg("--stdin", format!("@{}", folder.path().display()))
            .out()
            .exits(2)
            .complains_of("directory");
        if !who.is_root() {
            let secret = who.write(&folder.path().join("secret.py"), "print(1)");
            std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o000)).unwrap();
            who.run_file(&secret).out().exits(2).complains_of("secret.py");
            who.run("sh", "").arg("--file", &secret).out().exits(2).complains_of("secret.py");
        }
        who.run("klingon", "").out().exits(2).complains_of("klingon");
        who.run("", "").out().exits(2).complains_of("language");
    }
}

#[test]
fn what_is_no_text_is_refused_without_a_panic() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    let odd = folder.path().join(OsStr::from_bytes(b"odd\xff.py"));
    who.write(&odd, "print(1)");
    who.run_file(&odd).out().exits(2).complains_of("UTF-8");
    who.run("sh", "").arg("--file", folder.path()).out().exits(2).complains_of("UTF-8");
    for option in ["--code", "--language", "--file", "--stdin", "--env", "--timeout"] {
        let out = who.command(["run", "--language", "sh"]).arg(option, OsStr::from_bytes(b"\xff=\xff")).out();
        out.exits(2).never_panics().must(out.complaint().starts_with("error: "), "an error");
    }
    let out = who.run("sh", "echo").flag("--").flag(OsStr::from_bytes(b"\xff")).out();
    out.exits(2).never_panics().must(out.complaint().starts_with("error: "), "an error");
    who.run("sh", "echo")
        .env("SANDBOXD_MAX_PIDS", OsStr::from_bytes(b"\xff"))
        .out()
        .exits(2)
        .complains_of("SANDBOXD_MAX_PIDS");
}

#[test]
fn a_program_that_is_no_text_is_the_languages_problem() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let path = who.write(&folder.path().join("odd.py"), b"print(1)\n\xff\xfe\n");
        let record = who.run_file(&path).json();
        record.is("failed").exits(1);
    }
}

#[test]
fn a_missing_or_broken_executor_is_our_failure() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        install(&who.binary("sandboxd"), &folder.path().join("sandboxd"));
        let lonely = who.clone().installed_in(folder.path());
        lonely.run("sh", "echo hi").out().exits(125).says("").complains_of("sandbox-executor");
        for (name, content) in
            [("nowhere", None), ("text", Some("no program")), ("false", Some("#!/bin/false\n"))]
        {
            let path = folder.path().join(name);
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            for option in ["--quiet", "--quiet --unsafe-no-isolation"] {
                let out = who.run("sh", "echo hi").options(option).env("SANDBOXD_EXECUTOR", &path).out();
                out.exits(125).says("").ends_within(15).complains_of(name);
            }
        }
    }
}

#[test]
fn a_run_that_never_began_leaves_no_directory() {
    for who in Sandboxd::everybody() {
        let temporary = who.folder();
        let who = who.with("TMPDIR", temporary.path().display()).with("SANDBOXD_EXECUTOR", "/nowhere");
        who.run("sh", "echo hi").flag("--unsafe-no-isolation").out().exits(125);
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "as {}", who.name());
    }
}

#[test]
fn a_cache_that_cannot_be_used_is_said_or_done_without() {
    let who = Sandboxd::plain();
    for place in ["/proc/nowhere", "/dev/null/x", "/usr/nowhere"] {
        let out = who.run("sh", "echo hi").env("SANDBOXD_CACHE_DIR", place).env("TMPDIR", "/proc").out();
        out.exits(125).says("").complains_of("cache directory");
    }
    let folder = who.folder();
    let out = who.run("sh", "echo hi").env("SANDBOXD_CACHE_DIR", folder.path().join("new/deep")).out();
    out.exits(0).says("hi\n").is_quiet();
    who.run("sh", "echo hi")
        .without_env("HOME")
        .env("TMPDIR", folder.path())
        .out()
        .exits(0)
        .says("hi\n")
        .is_quiet();
}
