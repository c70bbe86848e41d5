# Gives files that are not its own a second name in the workspace, where it could keep, change or pass them on.
import ctypes
import os
from attack import attempt, libc

AT_EMPTY_PATH, AT_SYMLINK_FOLLOW, AT_FDCWD = 0x1000, 0x400, -100
FOREIGN = ["/usr/bin/env", "/usr/bin/su", "/etc/passwd", "/etc/hosts", "/bin/sh", "/dev/null", "/dev/random",
    "/proc/version", "/proc/self/status", "/proc/self/exe"]
HERE = os.getcwd()
PLACES = [place for place in (HERE, "/tmp", "/dev/shm", "/build") if os.access(place, os.W_OK)]


def linked(old, new):
    os.link(old, new)
    os.unlink(new)


def linkat(at, path, flags):
    if libc.linkat(at, path.encode(), AT_FDCWD, (HERE + "/second").encode(), flags) == -1:
        raise OSError(ctypes.get_errno(), "")
    os.unlink(HERE + "/second")


def by_descriptor(path, flags, way):
    file = os.open(path, flags)
    try:
        if way == "empty":
            linkat(file, "", AT_EMPTY_PATH)
        else:
            linkat(AT_FDCWD, f"/proc/self/fd/{file}", AT_SYMLINK_FOLLOW)
    finally:
        os.close(file)


def moved(old, new):
    os.rename(old, new)
    os.rename(new, old)


for path in FOREIGN:
    for place in PLACES:
        attempt(f"{path} into {place}", linked, path, place + "/second")
    attempt(f"{path} by its descriptor", by_descriptor, path, os.O_RDONLY, "empty")
    attempt(f"{path} by a held one", by_descriptor, path, os.O_PATH, "empty")
    attempt(f"{path} through proc", by_descriptor, path, os.O_RDONLY, "proc")
    attempt(f"move {path}", moved, path, HERE + "/second")

# Everything that lies where it may write belongs to itself, or not: another uid's file is the prize.
own = os.getuid()
others = []
for place in PLACES + [place for place in ("/var/tmp", "/run") if os.access(place, os.W_OK)]:
    for base, dirs, files in os.walk(place):
        others += [p for p in (os.path.join(base, n) for n in dirs + files) if os.lstat(p).st_uid != own]
attempt("files of others where it may write", lambda: " ".join(others) or "none")

# Nameless files and files of one writable place in another.
open("/tmp/own", "w").close()
attempt("from /tmp into where it started", linked, "/tmp/own", HERE + "/second")
attempt("from /tmp into /dev/shm", linked, "/tmp/own", "/dev/shm/second")
attempt("move from /tmp", moved, "/tmp/own", HERE + "/second")
attempt("a memory file", lambda: by_descriptor(f"/proc/self/fd/{os.memfd_create('x')}", os.O_RDWR, "empty"))
# Within one place it is an ordinary thing, so the refusals above are not those of a call that never works.
attempt("within /tmp", linked, "/tmp/own", "/tmp/second")
