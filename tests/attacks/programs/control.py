"""Does harm on purpose, without isolation, so that the suite can show that it notices."""

import os
import signal
import sys
import time

GROUND = os.path.dirname(os.environ["ATTACK_CANARY_FILE"])
HOME = os.environ["ATTACK_STATE_DIR"].removesuffix("/.cache/sandboxd")


def leave(do, undo):
    """Leaves a process behind that does something. It undoes it when it is asked to end, or after a while."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        for fd in (0, 1, 2):
            os.dup2(os.open("/dev/null", os.O_RDWR), fd)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        try:
            do()
            os.write(writer, b"x")
            os.close(writer)
            time.sleep(20)
        finally:
            undo()
            os._exit(0)
    os.close(writer)
    if os.read(reader, 1) != b"x":
        sys.exit("it could not be done")


def of_neighbour():
    """A living command of the neighbour, and of nobody else."""
    for _ in range(2000):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                environment = open(f"/proc/{pid}/environ", "rb").read()
                program = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            if f"HOME={GROUND}/neighbour-".encode() in environment and program == os.environ["ATTACK_EXECUTABLE"]:
                return int(pid)
        time.sleep(0.001)
    sys.exit("no neighbour was seen")
