"""Prints everything it finds around it that somebody before could have left or changed: a line each."""

import atexit
import builtins
import os
import resource
import signal
import socket
import sys
import threading


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        return "%s\n" % error.strerror


def tell(kind, thing):
    print(kind, ascii(thing))


for top in ("/workspace", "/tmp", "/dev/shm", "/dev/mqueue", "/build", os.path.expanduser("~"), "/etc", "/var/tmp", "/run"):
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            try:
                meta = os.lstat(path)
            except OSError:
                continue
            tell("file", (path, oct(meta.st_mode), meta.st_size))
for name, value in os.environ.items():
    if not name.startswith("ATTACK_"):
        tell("variable", (name, value))
status = read("/proc/self/status").splitlines()
for line in status:
    if line.split(":")[0] in ("SigQ", "SigPnd", "SigBlk", "SigIgn", "SigCgt", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Threads", "Umask", "Groups", "Cpus_allowed"):
        tell("status", line.split("/")[-1] if line.startswith("SigQ") else line)
for name in dir(resource):
    if name.startswith("RLIMIT_"):
        tell("limit", (name, resource.getrlimit(getattr(resource, name))))
for line in read("/proc/self/mountinfo").splitlines():
    tell("mount", line.split()[4:6])
for kind in ("shm", "sem", "msg"):
    for line in read("/proc/sysvipc/" + kind).splitlines():
        tell(kind, line.split())
for line in read("/proc/keys").splitlines():
    tell("key", line.split()[5:])
for line in read("/proc/net/unix").splitlines():
    tell("unix", line.split()[7:])
for name in ("route", "tcp", "tcp6", "udp"):
    for line in read("/proc/net/" + name).splitlines():
        tell(name, line.split()[1:4])
for pid in filter(str.isdigit, os.listdir("/proc")):
    tell("process", read("/proc/%s/comm" % pid))
tell("descriptors", sorted(fd for fd in range(64) if os.path.exists("/proc/self/fd/%d" % fd)))
tell("directory", os.getcwd())
tell("umask", os.umask(0o22))
tell("priority", os.nice(0))
tell("processors", len(os.sched_getaffinity(0)))
tell("host name", socket.gethostname())
tell("timer", signal.getitimer(signal.ITIMER_REAL))
tell("threads", threading.active_count())
tell("at exit", atexit._ncallbacks())
for number in range(1, 32):
    tell("signal", (number, str(signal.getsignal(number))))
for name in dir(builtins):
    tell("builtin", (name, type(getattr(builtins, name)).__name__))
for name in sorted(sys.modules):
    tell("module", (name, sys.modules[name] is None))
tell("path", sys.path)
