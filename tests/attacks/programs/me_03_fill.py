# Fills every place that can be written, one after the other, until it is full; then empties it.
import errno
import os
import sys
from attack import attempt, report

PIECE = b"x" * (1 << 20)
MOST = 64


def fill(place):
    """Megabytes that fit, and the refusal."""
    path = os.path.join(place, "filling")
    done, refusal = 0, "no refusal"
    try:
        with open(path, "wb", 0) as file:
            while done < MOST:
                written = file.write(PIECE)
                if written < len(PIECE):
                    file.write(PIECE)
                done += 1
    except OSError as error:
        if not os.path.exists(path):
            raise
        refusal = errno.errorcode[error.errno]
    os.unlink(path)
    return f"{done} {refusal}"


def fill_by_name(place, function):
    path = os.path.join(place, "filling")
    try:
        with open(path, "wb") as file:
            function(file.fileno())
    finally:
        os.path.exists(path) and os.unlink(path)


places = ["/workspace", "/tmp", "/var/tmp", "/run", "/dev/shm", "/build"]
for place in places:
    attempt(f"fill {place}", fill, place)
for place in places[:2]:
    attempt(f"reserve {place}", fill_by_name, place, lambda fd: os.posix_fallocate(fd, 0, 64 << 20))
    attempt(f"enlarge {place}", fill_by_name, place, lambda fd: os.ftruncate(fd, 1 << 40))
for place in ("/", "/usr", "/etc", "/proc", "/dev", "/var", "/opt", "/root"):
    attempt(f"closed {place}", fill, place)
# All of them are one store: what one place has taken the others lack.
with open("/dev/shm/half", "wb") as file:
    file.write(PIECE * 4)
attempt("what is left beside half", fill, "/workspace")
report("free at the end", os.statvfs("/workspace").f_bavail * os.statvfs("/workspace").f_bsize >> 20)
