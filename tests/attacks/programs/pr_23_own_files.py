# Writes the files of /proc by which a process describes itself: how much it is spared when memory is short, as whom it
# counts, what it maps.
import ctypes
import os
import threading
from attack import attempt, libc, report

WRITES = {
    "oom_score_adj": [b"-1000", b"-1", b"0", b"-17"],
    "oom_adj": [b"-17", b"15"],
    "coredump_filter": [b"0xff", b"0"],
    "loginuid": [b"0", b"4294967295"],
    "uid_map": [b"0 0 1", b"0 1000 1"],
    "gid_map": [b"0 0 1"],
    "projid_map": [b"0 0 1"],
    "setgroups": [b"allow", b"deny"],
    "timerslack_ns": [b"1"],
    "sched": [b"0"],
    "autogroup": [b"-20"],
    "clear_refs": [b"1"],
    "attr/current": [b"x"],
    "attr/exec": [b"x"],
    "attr/keycreate": [b"x"],
    "make-it-fail": [b"1"],
    "fail-nth": [b"1"],
    "patch_state": [b"1"],
    "seccomp": [b"0"],
    "limits": [b"Max processes=soft:9:hard"],
    "cgroup": [b"0"],
    "sessionid": [b"1"],
    "timens_offsets": [b"monotonic 1 0"],
    "ns/user": [b"x"],
    "mountinfo": [b"x"],
    "environ": [b"x"],
    "auxv": [b"x"],
    "comm": [b"x"],
}
PR_SET_MM = 35
OWN = ["/proc/self", "/proc/thread-self", f"/proc/{os.getpid()}", "/proc/self/task/%d" % os.getpid()]


def written(path, data):
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def call(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "")


def score(name):
    return open("/proc/self/" + name).read().strip()


before = {name: score(name) for name in ("oom_score_adj", "coredump_filter", "uid_map", "gid_map", "setgroups")}
for name, values in WRITES.items():
    for value in values:
        for base in OWN:
            attempt(f"{base}/{name} = {value.decode()}", written, f"{base}/{name}", value)
        attempt(f"pid 1: {name} = {value.decode()}", written, f"/proc/1/{name}", value)
name = "from a thread: oom_score_adj = -1000"
thread = threading.Thread(target=attempt, args=(name, written, "/proc/thread-self/oom_score_adj", b"-1000"))
thread.start()
thread.join()
child = os.fork()
if child == 0:
    attempt("from a child: oom_score_adj of its parent = -1000", written, f"/proc/{os.getppid()}/oom_score_adj",
        b"-1000")
    attempt("from a child: oom_score_adj of pid 1 = 1000", written, "/proc/1/oom_score_adj", b"1000")
    os._exit(0)
os.waitpid(child, 0)
report("all of it afterwards", "unchanged" if before == {name: score(name) for name in before} else "changed")
report("spared when memory is short", "no" if int(score("oom_score_adj")) >= 0 else "yes")
for option in range(1, 16):
    attempt(f"PR_SET_MM {option}", lambda: call(libc.prctl(PR_SET_MM, option, 0, 0, 0)))
