//! Every limit is hit, as root, where the kernel's cgroups enforce, and as a plain user, where they do not.
#![cfg(test)]

mod support;

use support::{Record, Sandboxd, alone};

/// Runs the same program as everybody.
fn everybody(options: &str, code: &str, check: impl Fn(&Sandboxd, &Record)) {
    let _alone = alone();
    for who in Sandboxd::everybody() {
        check(&who, &who.run("python", code).options(options).json());
    }
}

/// It must say how it begins, and must not live to say how it ends.
fn ends_early(record: &Record, status: &str, code: i32) {
    record.is(status).exits(code).must(record.stdout().starts_with("begin\n"), "what it said before");
    record.must(!record.stdout().contains("lived"), "an early end").ends_within(20);
    record.must(record["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "a reason in words");
}

#[test]
fn wall_time() {
    let code = "import time\nprint('begin', flush=True)\ntime.sleep(60)\nprint('lived')";
    everybody("--timeout 1s", code, |_, record| {
        ends_early(record, "timed_out", 124);
        record.ends_within(5).says("begin\n").must(record["exit_code"].is_null(), "no exit code of its own");
        record.must(record.metric("duration_ms") >= 1000.0, "a whole second");
    });
}

#[test]
fn wall_time_ends_every_process() {
    let code = "import os, time\nprint('begin', flush=True)\nfor _ in range(3):\n    os.fork()\ntime.sleep(60)\nprint('lived')";
    everybody("--timeout 500ms", code, |_, record| {
        ends_early(record, "timed_out", 124);
        record.ends_within(5);
    });
}

#[test]
fn wall_time_counts_compiling() {
    let code = "#include <stdio.h>\n#define A(x) x x x x x x x x\nint main(void) { puts(\"ran\"); }\n";
    for who in Sandboxd::everybody() {
        who.run("c", code).options("--timeout 1ms").json().is("timed_out").exits(124).says("");
    }
}

#[test]
fn cpu_time_of_one_process() {
    let code = "print('begin', flush=True)\nwhile True: pass";
    everybody("--cpu-time 500ms --timeout 20s", code, |_, record| {
        ends_early(record, "cpu_limit", 124);
        record.must((490.0..3000.0).contains(&record.metric("cpu_time_ms")), "about 500 ms of CPU time");
    });
}

#[test]
fn cpu_time_of_many_processes_together() {
    // Each of them alone stays below; those that were waited for count as well.
    let code = "import os, time\nprint('begin', flush=True)\ndef burn():\n    \
        end = time.process_time() + 0.3\n    while time.process_time() < end: pass\n    os._exit(0)\n\
        for _ in range(20):\n    if os.fork() == 0: burn()\n    os.wait()\nprint('lived')";
    everybody("--cpu-time 1s --timeout 30s", code, |_, record| ends_early(record, "cpu_limit", 124));
}

#[test]
fn sleeping_costs_no_cpu_time() {
    everybody("--cpu-time 1s", "import time\ntime.sleep(1.5)\nprint('lived')", |_, record| {
        record.is("success").says("lived\n").must(record.metric("cpu_time_ms") < 1000.0, "little CPU time");
    });
}

#[test]
fn processes() {
    let code = "import os, time\nprint('begin', flush=True)\nmade = 0\ntry:\n    while True:\n        \
        if os.fork() == 0: time.sleep(60)\n        made += 1\nfinally:\n    print(made, flush=True)";
    everybody("--pids 20", code, |_, record| {
        record.is("process_limit").exits(1).ends_within(10).says("begin\n19\n");
    });
}

#[test]
fn threads_count_as_processes() {
    // Threads die with their process, so one who only looks from time to time needs a moment to see them.
    let code = "import threading, time\nprint('begin', flush=True)\nmade = 0\ntry:\n    while True:\n        \
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n        made += 1\n\
        finally:\n    print(made, flush=True)\n    time.sleep(0.3)";
    everybody("--pids 20", code, |_, record| {
        record.is("process_limit").exits(1).ends_within(10).says("begin\n19\n");
    });
}

#[test]
fn as_many_processes_as_allowed() {
    let code = "import os, time\nfor _ in range(19):\n    if os.fork() == 0:\n        time.sleep(0.2)\n        os._exit(0)\n\
        print(sum(os.wait()[1] for _ in range(19)))";
    everybody("--pids 20", code, |who, record| {
        record.is("success").says("0\n");
        if who.is_root() {
            record.must(record.metric("processes_peak") == 20.0, "a peak of 20 processes");
        }
    });
    everybody("--pids 1", "print('alone')", |_, record| {
        record.is("success").says("alone\n").exits(0);
    });
}

#[test]
fn disk_bytes_wherever_they_are_written() {
    for dir in ["/workspace", "/tmp", "/var/tmp", "/run", "/dev/shm", "/build"] {
        let code = format!(
            "print('begin', flush=True)\nopen('{dir}/big', 'wb').write(b'x' * (8 << 20))\nprint('lived')"
        );
        everybody("--disk 4M", &code, |_, record| ends_early(record, "disk_limit", 1));
    }
}

#[test]
fn disk_bytes_of_all_places_together() {
    let code = "print('begin', flush=True)\nfor d in ['/workspace', '/tmp', '/var/tmp', '/run', '/dev/shm', '/build']:\n    \
        open(d + '/part', 'wb').write(b'x' * (1 << 20))\nprint('lived')";
    everybody("--disk 4M", code, |_, record| ends_early(record, "disk_limit", 1));
    everybody("--disk 7M", code, |_, record| {
        record.is("success").says("begin\nlived\n").exits(0);
    });
}

#[test]
fn number_of_files_wherever_they_are_made() {
    for dir in ["/workspace", "/tmp", "/var/tmp", "/run", "/dev/shm", "/build"] {
        let code = format!(
            "print('begin', flush=True)\nfor i in range(300): open(f'{dir}/{{i}}', 'w')\nprint('lived')"
        );
        everybody("--inodes 200", &code, |_, record| ends_early(record, "disk_limit", 1));
    }
}

#[test]
fn a_sparse_file_takes_no_more_than_it_holds() {
    let code = "f = open('sparse', 'wb')\nf.seek(2 << 20)\nf.write(b'x')\nf.close()\nprint('lived')";
    everybody("--disk 4M", code, |_, record| {
        record
            .is("success")
            .says("lived\n")
            .must(record["artifacts"][0]["size"] == (2 << 20) + 1, "its size");
    });
}

#[test]
fn open_files() {
    let code = "import os\nopened = []\ntry:\n    while True: opened.append(os.open('/dev/null', os.O_RDONLY))\n\
        except OSError as error:\n    os.close(opened.pop())\n    print(max(opened) + 2, error.errno)";
    everybody("--open-files 32", code, |_, record| {
        record.is("success").says("32 24\n").exits(0);
    });
}

#[test]
fn rate_of_cpu() {
    let _alone = alone();
    let Some(root) = Sandboxd::root() else { return };
    let busy = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass";
    let record = root.run("python", busy).options("--cpus 0.5").json();
    let (cpu, wall) = (record.metric("cpu_time_ms"), record.metric("duration_ms"));
    record.is("success").must(cpu <= 0.6 * wall, "half a core at most");
    // More processes do not make it more.
    let crowd = format!("import os\nos.fork(), os.fork()\n{busy}");
    let record = root.run("python", &crowd).options("--cpus 0.5").json();
    let (cpu, wall) = (record.metric("cpu_time_ms"), record.metric("duration_ms"));
    record.must(cpu <= 0.6 * wall, "half a core at most for all of them");
}

#[test]
fn a_rate_that_nobody_enforces_is_named() {
    let record = Sandboxd::plain().run("python", "print(1)").options("--cpus 0.5").json();
    let degraded = record["isolation"]["degraded"].to_string();
    record
        .is("success")
        .must(record["isolation"]["cgroup"] != "none" || degraded.contains("cgroup"), "the missing cgroup");
}
