//! Programs that try not to end, to drown us or to hide: each ends on time, with the right status and what it
//! said so far, while a neighbour works on undisturbed.
#![cfg(test)]

mod support;

use base64::Engine;
use support::{Record, Sandboxd, alone, with_neighbour};

const MANY: u64 = 1 << 30;

/// Runs something hostile as everybody, one after the other, always beside an honest neighbour.
fn everybody(options: &str, code: &str, check: impl Fn(&Record)) {
    let _alone = alone();
    for who in Sandboxd::everybody() {
        check(&with_neighbour(|| who.run("python", code).options(options).json()));
    }
}

fn times_out(code: &str) {
    let code = format!("import os, signal, sys, time\nprint('begin', flush=True)\n{code}");
    everybody("--timeout 1s --pids 30", &code, |record| {
        record.is("timed_out").exits(124).ends_within(5);
        record.must(record.stdout().starts_with("begin\n"), "what it said before");
    });
}

#[test]
fn prints_a_gigabyte() {
    let code = "import os\nline = b'x' * 1023 + b'\\n'\nfor _ in range(1 << 20): os.write(1, line)";
    everybody("", code, |record| {
        record.is("output_limit").exits(153).must(record["stdout_truncated"] == true, "a cut that is told");
        record.must(record["stderr_truncated"] == false, "stderr whole");
        let (kept, written) = (record.stdout().len() as u64, record.metric("stdout_bytes") as u64);
        record.must(kept == 8 << 20 && record.stdout().starts_with("xxx"), "the first 8M");
        record.must((64 << 20..MANY).contains(&written), "a count between the limit and all of it");
    });
}

#[test]
fn complains_a_gigabyte() {
    let code =
        "import os\nprint('begin', flush=True)\nfor _ in range(1 << 14): os.write(2, b'x' * (1 << 16))";
    everybody("--output 1M", code, |record| {
        record
            .is("output_limit")
            .says("begin\n")
            .must(record["stderr_truncated"] == true, "a cut that is told");
        record.must(record.stderr().len() == 1 << 20, "the first megabyte");
    });
}

#[test]
fn prints_more_than_is_kept_and_ends_well() {
    everybody("--output 1K", "print('y' * 9999)", |record| {
        record
            .is("success")
            .exits(0)
            .says(&"y".repeat(1024))
            .must(record["stdout_truncated"] == true, "a cut");
        record.must(record.metric("stdout_bytes") == 10_000.0, "all bytes counted");
    });
}

#[test]
fn forks_without_end() {
    times_out("while True:\n    try: os.fork()\n    except OSError: pass");
}

#[test]
fn starts_threads_without_end() {
    times_out(
        "import threading\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(60,)).start()\n    except RuntimeError: time.sleep(0.01)",
    );
}

#[test]
fn replaces_itself_without_end() {
    // The one that is waited for is gone, its descendants are always new.
    let code = "import os, time\nprint('begin', flush=True)\nif os.fork() == 0:\n    while True:\n        if os.fork(): os._exit(0)\nos.wait()\ntime.sleep(0.3)";
    everybody("--timeout 10s --pids 30", code, |record| {
        record.is("success").says("begin\n").ends_within(9);
    });
}

#[test]
fn allocates_without_end() {
    let code = "print('begin', flush=True)\nkept = []\nwhile True:\n    try: kept.append(bytearray(b'x' * (1 << 20)))\n    except MemoryError: pass";
    everybody("--memory 128M --timeout 10s", code, |record| {
        record.must(["out_of_memory", "timed_out"].contains(&record["status"].as_str().unwrap()), "an end");
        record.says("begin\n").ends_within(15);
    });
}

#[test]
fn ignores_every_signal_and_sleeps() {
    times_out(
        "for n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: time.sleep(60)",
    );
}

#[test]
fn stops_itself_and_its_children() {
    times_out(
        "for _ in range(3):\n    if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)",
    );
}

#[test]
fn leaves_daemons_that_hold_its_output() {
    let code = "import os, time\nprint('begin', flush=True)\nfor _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        \
        if os.fork() == 0:\n            time.sleep(600)\n        os._exit(0)\nfor _ in range(3): os.wait()\nprint('end')";
    everybody("--timeout 20s", code, |record| {
        record.is("success").exits(0).says("begin\nend\n").ends_within(10);
    });
}

#[test]
fn exits_while_a_grandchild_keeps_writing() {
    let code = "import os\nprint('begin', flush=True)\nif os.fork() == 0:\n    os.setsid()\n    while True: os.write(1, b'more\\n')\nraise SystemExit(5)";
    everybody("--timeout 20s", code, |record| {
        record
            .is("failed")
            .exits(5)
            .ends_within(10)
            .must(record.stdout().starts_with("begin\n"), "what it said");
    });
}

#[test]
fn kills_everybody_it_can() {
    let code = "import os, time\nfor _ in range(3):\n    if os.fork() == 0: time.sleep(60)\ntry: os.kill(1, 9)\nexcept OSError: pass\n\
        try: os.kill(-1, 9)\nexcept OSError: pass\nprint([os.wait()[1] for _ in range(3)])";
    everybody("", code, |record| {
        record.is("success").exits(0).says("[9, 9, 9]\n");
    });
}

#[test]
fn kills_itself() {
    everybody("", "import os\nprint('begin', flush=True)\nos.kill(os.getpid(), 9)", |record| {
        record.is("signalled").exits(137).says("begin\n").must(record["signal"] == 9, "signal 9");
    });
}

#[test]
fn closes_its_streams_and_computes() {
    let code = "import os, sys\nprint('begin', flush=True)\nfor n in range(3): os.close(n)\nsum(range(3000000))\nos._exit(7)";
    everybody("", code, |record| {
        record.is("failed").exits(7).says("begin\n");
    });
    times_out("for n in range(3): os.close(n)\nwhile True: pass");
}

#[test]
fn never_reads_its_input() {
    let _alone = alone();
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let input = who.write(&folder.path().join("input"), vec![b'x'; 50 << 20]);
        let run = |code: &str| {
            let stdin = format!("@{}", input.display());
            with_neighbour(|| who.run("python", code).arg("--stdin", stdin).options("--timeout 2s").json())
        };
        run("print('done')").is("success").says("done\n").ends_within(10);
        run("import time\nprint('begin', flush=True)\ntime.sleep(60)")
            .is("timed_out")
            .says("begin\n")
            .ends_within(10);
        run("import sys\nprint(len(sys.stdin.read()))").is("success").says("52428800\n");
    }
}

#[test]
fn prints_a_million_lines_of_nothing() {
    everybody("", "import sys\nsys.stdout.write('\\n' * 1000000)", |record| {
        record.is("success").must(record.stdout() == "\n".repeat(1_000_000), "every line");
        record.must(record.metric("stdout_bytes") == 1e6, "every byte counted");
    });
}

#[test]
fn writes_byte_by_byte() {
    everybody(
        "",
        "import os\nfor n in range(50000): os.write(1 + n % 2, b'ab'[n % 2:n % 2 + 1])",
        |record| {
            record.is("success").must(record.stdout() == "a".repeat(25_000), "every byte of stdout");
            record.must(record.stderr() == "b".repeat(25_000), "every byte of stderr");
        },
    );
}

#[test]
fn writes_what_is_no_text() {
    let code = "import os\nos.write(1, bytes(range(256)) * 300)\nos.write(2, b'\\xff\\xfe')";
    everybody("", code, |record| {
        let exact = |name: &str| {
            base64::engine::general_purpose::STANDARD.decode(record[name].as_str().unwrap()).unwrap()
        };
        record
            .is("success")
            .must(exact("stdout_base64") == (0..=255).collect::<Vec<u8>>().repeat(300), "exact bytes");
        record.must(exact("stderr_base64") == [0xff, 0xfe], "exact bytes");
        record.must(record.stderr() == "\u{fffd}\u{fffd}", "text with replacements");
    });
    everybody("", "print('text ✓')", |record| {
        record.says("text ✓\n").must(record.get("stdout_base64").is_none(), "no second copy of text");
    });
}

#[test]
fn writes_what_is_no_text_live() {
    for who in Sandboxd::everybody() {
        let out = who.run("python", "import os\nos.write(1, bytes(range(256)) * 300)").out();
        out.exits(0).must(out.stdout == (0..=255).collect::<Vec<u8>>().repeat(300), "exact bytes");
    }
}
