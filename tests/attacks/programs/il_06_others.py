# Looks for other sandboxes of the same host: their files, names, uids, ports, processes, shared memory, locks.
import ctypes
import fcntl
import glob
import os
import pwd
import socket
import struct
import time
from attack import attempt, libc

OWN = {os.path.basename(__file__), "attack.py"}


def files(place):
    """What is there and did not come with this program."""
    return sorted(set(os.listdir(place)) - OWN) or "nothing"


def ports():
    found = []
    for port in range(1, 65536):
        s = socket.socket()
        if s.connect_ex(("127.0.0.1", port)) == 0 and s.getsockname() != s.getpeername():
            found.append(port)
        s.close()
    return found or "nothing"


def connect(address):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(address)


def rows(name):
    return len(open(f"/proc/sysvipc/{name}").readlines()) - 1


def by_key(function, *args):
    number = function(*args)
    if number == -1:
        raise OSError(ctypes.get_errno(), "")
    return number


def uids():
    """Owners of files and processes that are neither this user nor the root of this sandbox."""
    seen = set()
    for path in glob.glob("/proc/[0-9]*") + glob.glob("/*") + glob.glob("/tmp/*") + glob.glob("/usr/*") + glob.glob("/dev/*"):
        try:
            seen.add(os.lstat(path).st_uid)
        except OSError:
            pass
    return sorted(seen - {os.getuid(), 0, 65534}) or "nothing"


def lock():
    with open("/usr/bin/env", "rb") as shared:
        fcntl.flock(shared, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_range():
    """Whether anybody holds what this program would have to wait for."""
    with open("/usr/bin/env", "rb") as shared:
        wish = struct.pack("hhlli", fcntl.F_WRLCK, 0, 0, 0, 0)
        kind = struct.unpack("hhlli", fcntl.fcntl(shared, fcntl.F_GETLK, wish))[0]
    return "nothing" if kind == fcntl.F_UNLCK else "somebody"


def watch():
    """Sees others open and read a file that they share with this program."""
    watcher = libc.inotify_init1(os.O_NONBLOCK)
    if libc.inotify_add_watch(watcher, b"/usr/bin/env", 0xFFF) == -1:
        raise OSError(ctypes.get_errno(), "")
    time.sleep(0.2)
    try:
        return f"{len(os.read(watcher, 4096))} bytes of events"
    except BlockingIOError:
        return "nothing"


for place in ("/tmp", "/var/tmp", "/run", "/dev/shm", "/workspace", "/build"):
    attempt(f"files {place}", files, place)
attempt("processes", lambda: sorted(int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) not in (1, os.getpid())) or "nothing")
attempt("users", lambda: ",".join(entry.pw_name for entry in pwd.getpwall()))
attempt("uids", uids)
attempt("ports", ports)
for name in ("neighbour", "tenant"):
    attempt(f"abstract {name}", connect, "\0" + name)
attempt("sockets", lambda: len(open("/proc/net/unix").readlines()) - 1)
for name in ("shm", "sem", "msg"):
    attempt(f"named {name}", rows, name)
for key in (0x5EED, 1):
    attempt(f"key {key:#x} shm", by_key, libc.shmget, key, 1, 0)
    attempt(f"key {key:#x} sem", by_key, libc.semget, key, 1, 0)
    attempt(f"key {key:#x} msg", by_key, libc.msgget, key, 0)
for number in range(8):
    attempt(f"segment {number}", lambda: libc.shmctl(number, 2, ctypes.create_string_buffer(256)) == 0 or "nothing")
attempt("lock of a shared file", lock)
attempt("lock of a shared file, by range", lock_range)
attempt("habits with a shared file", watch)
attempt("locks", lambda: len(open("/proc/locks").readlines()))
attempt("keys", lambda: len(open("/proc/keys").readlines()))
attempt("mounts of others", lambda: sum("sandboxd" in line for line in open("/proc/self/mountinfo")))
attempt("cgroups of others", lambda: sum(line.rstrip().split(":")[2] != "/" for line in open("/proc/self/cgroup")))
attempt("terminals", lambda: os.listdir("/dev/pts"))
