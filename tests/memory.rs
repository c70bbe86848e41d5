//! Memory is bounded however it is used: by one process, by many, in files, in shared memory.
#![cfg(test)]

mod support;

use support::{Sandboxd, alone};

/// Nothing here takes more than this, even where the limit of 64M does not hold.
const FAR_TOO_MUCH: &str = "256";

fn runs_out(code: &str, options: &str) {
    let _alone = alone();
    let code = format!(
        "import os, mmap, time, ctypes\nprint('begin', flush=True)\n{}\nprint('lived')",
        code.replace("MUCH", FAR_TOO_MUCH)
    );
    for who in Sandboxd::everybody() {
        let record = who.run("python", &code).options("--memory 64M --timeout 20s").options(options).json();
        record.is("out_of_memory").exits(137).says("begin\n").ends_within(15);
        let message = record["error"]["message"].as_str().unwrap_or_default();
        record.must(message.contains("64M"), "the limit by name");
        if who.is_root() {
            record.must(record["exit_code"].is_null() && record["signal"] == 9, "the kernel's signal");
        }
    }
}

#[test]
fn of_one_process() {
    runs_out("kept = []\nfor _ in range(MUCH): kept.append(b'x' * (1 << 20))", "");
}

#[test]
fn of_one_process_at_once() {
    runs_out("kept = mmap.mmap(-1, MUCH << 20)\nfor at in range(0, MUCH << 20, 4096): kept[at] = 1", "");
}

#[test]
fn of_many_processes_each_below_the_limit() {
    let code = "for _ in range(8):\n    if os.fork() == 0:\n        kept = b'x' * (20 << 20)\n        time.sleep(5)\n        os._exit(0)\n\
        if any([os.wait()[1] for _ in range(8)]): raise SystemExit(9)";
    runs_out(code, "");
}

#[test]
fn of_files_and_processes_together() {
    for dir in ["/workspace", "/dev/shm", "/tmp"] {
        let code = format!(
            "open('{dir}/big', 'wb').write(b'x' * (50 << 20))\nkept = b'y' * (40 << 20)\ntime.sleep(1)"
        );
        runs_out(&code, "--disk 60M");
    }
}

#[test]
fn of_files_without_a_name() {
    // No directory shows them and no process has them mapped.
    let code = "import os\nkept = []\nfor _ in range(16):\n    f = os.memfd_create('x')\n    os.write(f, b'x' * (16 << 20))\n    kept.append(f)";
    let _alone = alone();
    for who in Sandboxd::everybody() {
        let record = who.run("python", code).options("--memory 64M --timeout 20s").json();
        if record["isolation"]["cgroup"] == "none" {
            // They can wait in a socket, where only a cgroup counts them, so without one there are none.
            record.is("failed").exits(1);
            record.must(record.stderr().contains("Function not implemented"), "a kernel that has none");
        } else {
            record.is("out_of_memory").exits(137).ends_within(15);
        }
    }
}

#[test]
fn of_shared_memory_between_processes() {
    let code = "kept = mmap.mmap(-1, MUCH << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)\nfor at in range(0, MUCH << 20, 4096): kept[at] = 1\ntime.sleep(1)";
    runs_out(code, "");
}

#[test]
fn of_shared_memory_that_nobody_has_attached() {
    let code = "libc = ctypes.CDLL(None, use_errno=True)\nlibc.shmat.restype = ctypes.c_void_p\nfor _ in range(MUCH // 16):\n    \
        id = libc.shmget(0, 16 << 20, 0o1600)\n    \
        at = libc.shmat(id, None, 0)\n    ctypes.memset(at, 1, 16 << 20)\n    libc.shmdt(ctypes.c_void_p(at))\ntime.sleep(1)";
    runs_out(code, "");
}

#[test]
fn below_the_limit_is_fine() {
    for who in Sandboxd::everybody() {
        let code = "kept = b'x' * (40 << 20)\nopen('f', 'wb').write(kept[:8 << 20])\nprint(len(kept))";
        let record = who.run("python", code).options("--memory 128M").json();
        record.is("success").says("41943040\n");
        let peak = record.metric("memory_peak_bytes");
        record.must((40e6..128e6).contains(&peak), "a peak between what it used and the limit");
    }
}

#[test]
fn running_out_while_compiling_is_told_apart() {
    // Two hundred million bytes of an initialised array pass through compiler and assembler.
    let code = "int a[1 << 26] = {[0 ... (1 << 26) - 1] = 1};\nint main(void) { return a[0]; }";
    let Some(root) = Sandboxd::root() else { return };
    let record = root.run("c", code).options("--memory 64M --disk 32M").json();
    record
        .must(record["error"]["step"] == "compile", "an error of the compile step")
        .must(record.out.code != 0, "a failure");
}
