"""Leaves a cgroup and a mount behind."""

import ctypes
import os

from control import GROUND, leave

libc = ctypes.CDLL(None, use_errno=True)
GROUP = next(d for d in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup") if os.path.isdir(d)) + "/left"
POINT = (GROUND + "/tmp").encode()


def do():
    os.mkdir(GROUP)
    assert libc.mount(b"none", POINT, b"tmpfs", 0, None) == 0


def undo():
    libc.umount2(POINT, 2)
    os.rmdir(GROUP)


leave(do, undo)
print("done")
