# Looks for the canary, which the command that started it has in its environment, its files and its memory,
# in everything of this and other processes that can be read.
import ctypes
import os
import re
import subprocess
import sys
import time
from attack import attempt, libc, syscall

# In two pieces, so that this program does not find itself.
CANARY = re.compile(b"CAN" + b"ARY-[0-9a-f]{32}")
# One that must be found, to know that the looks are good ones.
DECOY = b"CAN" + b"ARY-" + b"0" * 32
PTRACE_ATTACH, PTRACE_SEIZE, PTRACE_PEEKDATA = 16, 0x4206, 2


def count(data):
    found = set(CANARY.findall(data))
    return "decoy" if found == {DECOY} else len(found)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def memory(pid):
    """Every readable page of a process."""
    found = b""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            fields = line.split()
            begin, end = (int(word, 16) for word in fields[0].split("-"))
            if "r" not in fields[1] or fields[-1] == "[vvar]":
                continue
            try:
                mem.seek(begin)
                found += b" ".join(CANARY.findall(mem.read(end - begin)))
            except (OSError, OverflowError, ValueError):
                pass
    return count(found)


def fresh(size):
    """Memory that was somebody else's a moment ago has to come empty."""
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(size), 3, 0x8022, -1, ctypes.c_long(0))
    data = ctypes.string_at(at, size)
    return len(data) - data.count(0)


def fresh_file(directory):
    path = os.path.join(directory, "fresh")
    with open(path, "w+b") as file:
        os.posix_fallocate(file.fileno(), 0, 4 << 20)
        data = file.read()
    os.unlink(path)
    return len(data) - data.count(0)


def below_stack():
    """The words that an earlier program left under the stack of this one."""
    line = next(line for line in open("/proc/self/maps") if "[stack]" in line)
    begin, end = (int(word, 16) for word in line.split()[0].split("-"))
    with open("/proc/self/mem", "rb", 0) as mem:
        mem.seek(begin)
        return count(mem.read(end - begin))


def vm_read(pid):
    buffer = ctypes.create_string_buffer(64)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)
    remote = (ctypes.c_size_t * 2)(0x400000, 64)
    return syscall(310, pid, local, 1, remote, 1, 0)


def ptrace(request, pid):
    return syscall(101, request, pid, 0, 0)


def readable(names):
    """Which of these entries of other processes can be read at all, and whether the canary is there."""
    seen = []
    for pid in sorted({"1", str(os.getppid()), *filter(str.isdigit, os.listdir("/proc"))} - {str(os.getpid()), "0"}):
        for name in names:
            try:
                data = read(f"/proc/{pid}/{name}")
                seen.append(f"{pid}/{name} {count(data)}")
            except OSError:
                pass
    return ",".join(seen) or "nothing"


attempt("own environment", lambda: count(read("/proc/self/environ")))
attempt("own environment, as Python has it", lambda: count(b"\n".join(os.environb.values())))
attempt("names that tell of the host", lambda: ",".join(sorted(n for n in os.environ if not n.startswith(("ATTACK_", "PYTHON")) and n not in ("HOME", "LC_CTYPE", "PATH", "SHELL", "TMPDIR", "USER"))) or "nothing")
attempt("own words", lambda: count(read("/proc/self/cmdline") + "\0".join(sys.orig_argv).encode()))
attempt("own auxiliary vector", lambda: count(read("/proc/self/auxv")))
attempt("own memory", memory, "self")
child = subprocess.Popen(["sleep", "9"], env={"DECOY": DECOY})
# A child is there a moment before its environment is.
while not read(f"/proc/{child.pid}/environ"):
    time.sleep(0.001)
attempt("environment of a child", lambda: count(read(f"/proc/{child.pid}/environ")))
attempt("memory of a child", memory, child.pid)
child.kill()
child.wait()
attempt("own stack", below_stack)
attempt("fresh memory", fresh, 32 << 20)
for directory in ("/workspace", "/tmp", "/dev/shm"):
    attempt(f"fresh file in {directory}", fresh_file, directory)
attempt("others", readable, ["environ", "cmdline", "auxv", "maps", "mem", "stack", "syscall", "pagemap", "smaps", "personality", "io"])
attempt("others, by thread", readable, ["task/1/environ", "task/1/mem", "task/1/maps"])
for pid in (1, os.getppid()):
    attempt(f"maps of {pid}", read, f"/proc/{pid}/maps")
    attempt(f"links of {pid}", os.readlink, f"/proc/{pid}/exe")
    attempt(f"descriptors of {pid}", os.listdir, f"/proc/{pid}/fd")
    attempt(f"read across {pid}", vm_read, pid)
    attempt(f"trace {pid}", ptrace, PTRACE_ATTACH, pid)
    attempt(f"seize {pid}", ptrace, PTRACE_SEIZE, pid)
    # A descriptor of the process leads to its descriptors.
    attempt(f"take a descriptor of {pid}", lambda: syscall(438, os.pidfd_open(pid), 0, 0))
