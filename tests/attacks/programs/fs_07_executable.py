# Opens programs for writing: its own, that of PID 1, sandboxd on the host; also by re-opening a held one after an exec.
# Nothing is written should it succeed: being able to open is the hole.
import mmap
import os
from attack import attempt, report

OUTSIDE = os.environ["ATTACK_EXECUTABLE"]
PROGRAMS = [
    "/proc/self/exe", "/proc/thread-self/exe", "/proc/1/exe", "/proc/1/task/1/exe",
    "/proc/%d/exe" % os.getppid(), OUTSIDE, os.path.join(os.path.dirname(OUTSIDE), "sandbox-executor"),
    os.path.realpath("/proc/self/exe"), "/usr/bin/env", "/usr/bin/sh", "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
]
WRITABLE = {"write only": os.O_WRONLY, "read and write": os.O_RDWR, "append": os.O_WRONLY | os.O_APPEND}

REOPEN = """
i=0
while [ $i -lt 300 ]; do
    if (: >>/proc/self/fd/%d) 2>/dev/null; then printf ok >&2; exit; fi
    i=$((i+1))
done
printf refused >&2
"""


def opened(path, flags):
    os.close(os.open(path, flags))


def reopened(path, flags):
    held = os.open(path, os.O_PATH)
    try:
        opened(f"/proc/self/fd/{held}", flags)
    finally:
        os.close(held)


def mapped(path):
    file = os.open(path, os.O_RDONLY)
    try:
        mmap.mmap(file, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE).close()
    finally:
        os.close(file)


def retruncated(path):
    os.truncate(path, os.stat(path).st_size)


def replaced(path):
    # Onto itself: allowed only where names may be changed.
    path = os.path.realpath(path)
    os.rename(path, path)


def run_as_interpreter(path):
    """A script whose interpreter is that program: what starts it would run the box's own starter again."""
    with open("script", "w") as script:
        script.write(f"#!{path}\n")
    os.chmod("script", 0o755)
    if os.fork() == 0:
        try:
            os.execv("./script", ["./script"])
        except OSError as error:
            os._exit(error.errno)
    code = os.waitstatus_to_exitcode(os.wait()[1])
    raise OSError(code if code > 0 else 0, "")


def after_exec():
    """Holds the program of a process that then becomes another: it is not busy any more, so it can be opened."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        held = os.open("/proc/self/exe", os.O_PATH)
        os.set_inheritable(held, True)
        os.dup2(writer, 2)
        # Another program than the one that is held, so that the latter is not busy.
        os.execv("/bin/sh", ["sh", "-c", REOPEN % held])
    os.close(writer)
    said = os.read(reader, 100).decode()
    os.wait()
    return said


def after_exec_by_itself():
    """The same within one program image after another: python holds sh, and sh has ended."""
    held = os.open("/bin/sh", os.O_PATH)
    for _ in range(2000):
        try:
            opened(f"/proc/self/fd/{held}", os.O_WRONLY)
            return "ok"
        except OSError as error:
            last = error
    raise last


for path in PROGRAMS:
    for name, flags in WRITABLE.items():
        attempt(f"{name} {path}", opened, path, flags)
        attempt(f"{name} by a held {path}", reopened, path, flags)
    attempt(f"map shared and writable {path}", mapped, path)
    attempt(f"truncate {path}", retruncated, path)
    attempt(f"rename {path}", replaced, path)
    attempt(f"change mode of {path}", lambda: os.chmod(path, os.stat(path).st_mode & 0o7777))
attempt("re-open its own program after an exec", after_exec)
attempt("re-open a program nobody runs", after_exec_by_itself)
for path in ("/proc/1/exe", OUTSIDE, f"/proc/{os.getppid()}/exe"):
    attempt(f"as interpreter {path}", run_as_interpreter, path)
for name in sorted(os.listdir("/proc/self/map_files"))[:8]:
    attempt("write through a mapping", opened, f"/proc/self/map_files/{name}", os.O_RDWR)
others = [n for n in range(1, 3000) if n != os.getpid() and os.path.exists(f"/proc/{n}/exe")]
report("programs of others", " ".join(map(str, others)) or "none")
