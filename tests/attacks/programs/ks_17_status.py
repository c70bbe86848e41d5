# Asks the kernel about every kind of process and thread a program can have: what filters it, what it may.
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from attack import report

FIELDS = ["Seccomp", "NoNewPrivs", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "Groups"]
SLEEP = ["sleep", "60"]


def tell(who, directory):
    with open(directory + "/status") as file:
        facts = dict(line.rstrip("\n").split(":", 1) for line in file)
    for field in FIELDS:
        report(f"{who}: {field}", facts[field].strip() or "none")
    for kind in ("Uid", "Gid"):
        # Real, effective, saved, of files: one and the same, and never 0.
        report(f"{who}: {kind}", " ".join(sorted(set(facts[kind].split()))))
    for name in ("uid_map", "gid_map"):
        with open(directory + "/../../" + name if "/task/" in directory else directory + "/" + name) as file:
            outside = [int(line.split()[1]) for line in file]
        report(f"{who}: {name}", "0 outside" if 0 in outside or not outside else "not 0 outside")


def process(who, pid):
    for task in os.listdir(f"/proc/{pid}/task"):
        tell(who if task == str(pid) else who + ", thread", f"/proc/{pid}/task/{task}")


def forked(prepare=lambda: None):
    """A child that waits, and has prepared itself before we look."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        prepare()
        os.write(writer, b"x")
        signal.pause()
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    return pid


def daemon():
    """Forks twice and leads a session of its own; says its pid."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            signal.pause()
        os.write(writer, str(pid).encode())
        os._exit(0)
    os.wait()
    return int(os.read(reader, 16))


def from_memory():
    """A program without a file; where files without a name do not exist, one whose file is gone."""
    source = os.open("/usr/bin/sleep", os.O_RDONLY)
    try:
        target = os.memfd_create("sleep")
    except OSError:
        target = os.open("/tmp/sleep", os.O_RDWR | os.O_CREAT, 0o755)
    os.sendfile(target, source, 0, os.fstat(source).st_size)
    # Nobody executes what somebody may write to.
    readable = os.open(f"/proc/self/fd/{target}", os.O_RDONLY)
    os.close(target)
    started = subprocess.Popen(SLEEP, executable=f"/proc/self/fd/{readable}", pass_fds=[readable])
    if os.path.exists("/tmp/sleep"):
        os.unlink("/tmp/sleep")
    return started.pid


def script():
    with open("/tmp/script", "w") as file:
        file.write("#!/bin/sh\nread forever\n")
    os.chmod("/tmp/script", 0o755)
    return subprocess.Popen(["/tmp/script"], stdin=subprocess.PIPE).pid


def main():
    for _ in range(3):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    process("program", os.getpid())
    process("forked", forked())
    process("forked in a group of its own", forked(os.setpgrp))
    process("forked with another mask", forked(lambda: os.umask(0)))
    process("daemon", daemon())
    process("spawned", os.posix_spawn("/usr/bin/sleep", SLEEP, {}))
    process("spawned by vfork", subprocess.Popen(SLEEP, close_fds=False).pid)
    process("shell", subprocess.Popen(["sh", "-c", "read forever"], stdin=subprocess.PIPE).pid)
    process("script", script())
    process("from memory", from_memory())
    process("interpreter", subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).pid)
    worker = multiprocessing.get_context("spawn").Process(target=signal.pause, daemon=True)
    worker.start()
    process("worker", worker.pid)
    os._exit(0)  # whoever still waits ends with the sandbox


if __name__ == "__main__":
    main()
