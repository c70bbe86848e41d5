"""Leaves a process with a thread, a network namespace, a file, a System V object and shared memory behind."""

import ctypes
import os
import threading
import time

from control import HOME, leave

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
FILES = [HOME + "/left", "/dev/shm/sandboxd-attacks-left"]
SANDBOX = 2_010_199_999


def do():
    global segment
    root = os.getuid() == 0
    assert libc.unshare(0x40000000 | (0 if root else 0x10000000)) == 0
    open(FILES[0], "w").close()
    with open(FILES[1], "wb") as file:
        file.write(bytes(8 << 20))
    # What belongs to root is not looked at; what belongs to a sandbox or a plain user is.
    if root:
        os.seteuid(SANDBOX)
    segment = libc.shmget(0, 4096, 0o600)
    assert segment >= 0
    if root:
        os.seteuid(0)
    threading.Thread(target=time.sleep, args=(20,), daemon=True).start()


def undo():
    libc.shmctl(segment, 0, None)
    for path in FILES:
        os.unlink(path)


leave(do, undo)
print("done")
