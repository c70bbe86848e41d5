# Raises its limits, lowers those of PID 1, and asks for limits of processes it is not.
import ctypes
import os
import resource
import subprocess
from attack import attempt, syscall

NAMES = ["CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS", "SIGPENDING",
    "MSGQUEUE", "NICE", "RTPRIO", "RTTIME"]
KINDS = {name: getattr(resource, "RLIMIT_" + name) for name in NAMES}
INFINITY = resource.RLIM_INFINITY
SYS_PRLIMIT64, SYS_SETRLIMIT = {"x86_64": (302, 160), "aarch64": (261, 164)}[os.uname().machine]


def state(kind):
    hard = resource.getrlimit(kind)[1]
    return "unlimited" if hard == INFINITY else "limited"


def raised(kind, wanted, pid=0):
    soft, hard = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (soft, wanted if wanted == INFINITY else hard + 1))
    return "raised"


def raised_by_the_old_call(kind):
    syscall(SYS_SETRLIMIT, kind, (ctypes.c_uint64 * 2)(0, ctypes.c_uint64(INFINITY).value))
    return "raised"


def soft_above_hard(kind):
    hard = resource.getrlimit(kind)[1]
    syscall(SYS_PRLIMIT64, 0, kind, (ctypes.c_uint64 * 2)(hard + 1, hard), None)
    return "raised"


for name, kind in KINDS.items():
    if attempt(f"state of {name}", state, kind) == "unlimited":
        continue
    attempt(f"one more of {name}", raised, kind, 1)
    attempt(f"all of {name}", raised, kind, INFINITY)
    attempt(f"all of {name} by the old call", raised_by_the_old_call, kind)
    attempt(f"soft above hard of {name}", soft_above_hard, kind)

child = subprocess.Popen(["sleep", "30"])
attempt("all of NOFILE of a child", raised, resource.RLIMIT_NOFILE, INFINITY, child.pid)
attempt("all of NPROC of a child", raised, resource.RLIMIT_NPROC, INFINITY, child.pid)
child.kill()
child.wait()
for name, kind in KINDS.items():
    attempt(f"PID 1: reads {name}", lambda: resource.prlimit(1, kind))
    attempt(f"PID 1: no more {name}", lambda: resource.prlimit(1, kind, (0, 0)))
    attempt(f"parent: no more {name}", lambda: resource.prlimit(os.getppid(), kind, (0, 0)))
# A lower limit is nobody's business but one's own.
attempt("fewer open files", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
attempt("more of them again", lambda: resource.prlimit(0, resource.RLIMIT_NOFILE, (64, 65)))
shell = subprocess.run(["sh", "-c", "ulimit -H -n 65536 2>/dev/null && echo raised || echo refused"],
    capture_output=True, text=True)
attempt("by the shell", lambda: shell.stdout.strip())
