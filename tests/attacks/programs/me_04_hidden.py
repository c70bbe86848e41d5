# Keeps memory where no process shows it: files without a name, segments that nobody has attached.
import ctypes
import mmap
import os
import sys
import time
from attack import libc, report

PIECE = 16 << 20
KEPT = []


def memfd():
    KEPT.append(os.memfd_create("hidden"))
    os.write(KEPT[-1], b"x" * PIECE)


def passed():
    """A memfd that is nowhere but in a message nobody has received."""
    import socket
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    fd = os.memfd_create("passed")
    os.write(fd, b"x" * PIECE)
    socket.send_fds(pair[0], [b"x"], [fd])
    os.close(fd)
    KEPT.append(pair)


def segment():
    libc.shmat.restype = ctypes.c_void_p
    number = libc.shmget(0, PIECE, 0o1600)
    if number == -1:
        raise OSError(ctypes.get_errno(), "shmget")
    at = libc.shmat(number, None, 0)
    ctypes.memset(at, 1, PIECE)
    libc.shmdt(ctypes.c_void_p(at))


def by_name():
    with open(f"/dev/shm/left-{len(KEPT)}", "wb") as file:
        file.write(b"x" * PIECE)
    KEPT.append(None)


def unlinked(place="/tmp"):
    fd = os.open(place, os.O_TMPFILE | os.O_RDWR)
    KEPT.append(fd)
    os.write(fd, b"x" * PIECE)


def shared():
    area = mmap.mmap(-1, PIECE, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    area.write(b"x" * PIECE)
    KEPT.append(area)


def in_child():
    """Held by a process that is stopped before anybody can look."""
    if os.fork() == 0:
        kept = b"x" * PIECE
        os.kill(os.getpid(), 19)


way = sys.argv[1]
report("begin", way)
refused = 0
for _ in range(16):
    try:
        globals()[way]()
    except (OSError, MemoryError):
        refused += 1
time.sleep(0.5)
report("lived", f"{refused} of 16 refused")
