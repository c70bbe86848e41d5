# Fills the storage in every way: bytes, files, reserved and sparse space, files without names, in every place.
# Everything is bounded: without a limit it stops by itself at a multiple of what is allowed.
import errno
import os
import sys
from attack import attempt, report

MEGABYTE = 1 << 20
LIMIT_MB, LIMIT_FILES = int(sys.argv[1]), int(sys.argv[2])
MOST_MB, MOST_FILES = LIMIT_MB * 4, LIMIT_FILES * 3
HERE = os.getcwd()
PLACES = [place for place in (HERE, "/tmp", "/var/tmp", "/build", "/run", "/dev/shm") if os.access(place, os.W_OK)]
block = bytes(MEGABYTE)


def until_full(take, most):
    """Takes until it is refused. How much it got, and the refusal."""
    for got in range(most):
        try:
            take(got)
        except OSError as error:
            return got, errno.errorcode[error.errno]
    return most, "never refused"


def said(got, refusal, limit):
    return f"{refusal}, {'within the limit' if got <= limit else f'{got} of {limit}'}"


def one_file(place):
    path = place + "/big"
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        return said(*until_full(lambda _: os.write(file, block), MOST_MB), LIMIT_MB)
    finally:
        os.close(file)
        os.unlink(path)


def many_places():
    """All places together may hold no more than one of them alone."""
    files = [os.open(place + "/part", os.O_CREAT | os.O_WRONLY) for place in PLACES]
    try:
        return said(*until_full(lambda n: os.write(files[n % len(files)], block), MOST_MB), LIMIT_MB)
    finally:
        for place, file in zip(PLACES, files):
            os.close(file)
            os.unlink(place + "/part")


def deleted_but_open():
    held = []

    def take(_):
        file = os.open("/tmp/gone", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.unlink("/tmp/gone")
        held.append(file)
        os.write(file, block)

    try:
        return said(*until_full(take, MOST_MB), LIMIT_MB)
    finally:
        for file in held:
            os.close(file)


def nameless():
    held = []

    def take(_):
        held.append(os.open("/tmp", os.O_TMPFILE | os.O_WRONLY))
        os.write(held[-1], block)

    try:
        return said(*until_full(take, MOST_MB), LIMIT_MB)
    finally:
        for file in held:
            os.close(file)


def reserved():
    file = os.open("/tmp/reserved", os.O_CREAT | os.O_RDWR)
    try:
        return said(*until_full(lambda n: os.posix_fallocate(file, n * MEGABYTE, MEGABYTE), MOST_MB), LIMIT_MB)
    finally:
        os.close(file)
        os.unlink("/tmp/reserved")


def sparse():
    """A file larger than the storage takes nothing, or is refused; filling its holes must be refused."""
    file = os.open("/tmp/sparse", os.O_CREAT | os.O_RDWR)
    try:
        return said(*until_full(lambda n: os.pwrite(file, block, n * 2 * MEGABYTE), MOST_MB), LIMIT_MB)
    finally:
        os.close(file)
        os.unlink("/tmp/sparse")


def huge_sparse():
    file = os.open("/tmp/huge", os.O_CREAT | os.O_RDWR)
    try:
        os.ftruncate(file, 1 << 50)
    finally:
        os.close(file)
        os.unlink("/tmp/huge")


def mapped():
    """Memory that is a file: touching a page that does not fit ends the process, so in a child."""
    import mmap
    import signal

    child = os.fork()
    if child == 0:
        file = os.open("/dev/shm/mapped", os.O_CREAT | os.O_RDWR)
        os.unlink("/dev/shm/mapped")
        taken = 0
        while taken < MOST_MB:
            try:
                os.ftruncate(file, (taken + 1) * MEGABYTE)
            except OSError:
                os._exit(1)
            memory = mmap.mmap(file, MEGABYTE, offset=taken * MEGABYTE)
            for page in range(0, MEGABYTE, 4096):
                memory[page] = 1
            taken += 1
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return "ended by " + signal.Signals(os.WTERMSIG(status)).name
    return "never refused" if os.WEXITSTATUS(status) == 0 else "refused"


def many(make, remove):
    """As many names as it gets."""
    os.makedirs("/tmp/many", exist_ok=True)
    os.chdir("/tmp/many")
    got, refusal = until_full(make, MOST_FILES)
    for n in range(got):
        remove(n)
    # One that was refused half-way may still be there.
    for rest in os.listdir("."):
        remove(rest)
    os.chdir(HERE)
    return said(got, refusal, LIMIT_FILES)


def one_byte(n):
    file = os.open(f"{n:08}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    try:
        os.write(file, b"x")
    finally:
        os.close(file)


def path(n):
    return n if isinstance(n, str) else f"{n:08}"


def free():
    there = os.statvfs(HERE)
    return there.f_bfree * there.f_frsize >> 20, there.f_ffree


before = free()
for place in PLACES:
    attempt(f"one file in {place}", one_file, place)
attempt("all places together", many_places)
attempt("deleted but open", deleted_but_open)
attempt("without a name", nameless)
attempt("reserved", reserved)
attempt("sparse", sparse)
attempt("a sparse file of a petabyte", huge_sparse)
attempt("by mapping", mapped)
attempt("files of one byte", many, one_byte, lambda n: os.unlink(path(n)))
attempt("empty files", many, lambda n: os.close(os.open(path(n), os.O_CREAT | os.O_EXCL)),
    lambda n: os.unlink(path(n)))
attempt("directories", many, lambda n: os.mkdir(path(n)), lambda n: os.rmdir(path(n)))
attempt("links", many, lambda n: os.symlink("x" * 4000, path(n)), lambda n: os.unlink(path(n)))
attempt("pipes", many, lambda n: os.mkfifo(path(n)), lambda n: os.unlink(path(n)))
open("/tmp/first", "x").close()
attempt("hard links", many, lambda n: os.link("/tmp/first", path(n)), lambda n: os.unlink(path(n)))
os.unlink("/tmp/first")
after = free()
report("given back", "all" if after[0] >= before[0] - 1 and after[1] >= before[1] - 8 else f"{before} became {after}")
