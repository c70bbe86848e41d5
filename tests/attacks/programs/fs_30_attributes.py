# Extended attributes: floods of them, which are memory of the kernel, and those that carry rights.
# Arguments: megabytes of storage and of memory it may have.
import errno
import os
import struct
import sys
from attack import attempt

LIMIT_MB, MEMORY_MB = int(sys.argv[1]), int(sys.argv[2])
MOST = LIMIT_MB * 4 << 20
CAPABILITIES = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0xFF, 0)
RIGHTS = {
    "security.capability": CAPABILITIES, "security.selinux": b"x", "security.SMACK64": b"_",
    "security.ima": b"\x01", "security.evm": b"\x02", "security.apparmor": b"x", "trusted.overlay.opaque": b"y",
    "trusted.overlay.redirect": b"/", "trusted.overlay.metacopy": b"", "trusted.x": b"x",
    "system.posix_acl_access": b"\x02\0\0\0", "system.x": b"x", "btrfs.compression": b"zlib", "os2.x": b"x",
    "nonsense": b"x",
}


def flood(size):
    """Attributes of this size on as many files as it takes. How much was taken before it was refused."""
    taken, files, value = 0, 0, os.urandom(size)
    os.makedirs("/tmp/flood", exist_ok=True)
    try:
        while taken < MOST and files < 20000:
            file = f"/tmp/flood/{files}"
            open(file, "x").close()
            files += 1
            for n in range(64):
                try:
                    os.setxattr(file, f"user.{n:03}.{'n' * 200}", value)
                except OSError as error:
                    if n == 0:
                        return refused(error, taken, LIMIT_MB)
                    break
                taken += size
    except OSError as error:
        return refused(error, taken, LIMIT_MB)
    finally:
        for name in os.listdir("/tmp/flood"):
            os.unlink("/tmp/flood/" + name)
    return f"never refused, {taken >> 20} MB"


def refused(error, taken, limit_mb):
    return f"{errno.errorcode[error.errno]}, {'within the limit' if taken <= limit_mb << 20 else f'{taken >> 20} MB'}"


def flood_of_access_lists():
    """Access control lists as long as they can be: the kernel keeps each in one piece of memory of its own."""
    entry = struct.Struct("<HHI").pack
    names = 8180
    value = struct.pack("<I", 2) + entry(1, 7, 0xFFFFFFFF) + entry(2, 7, os.getuid()) * names
    value += entry(4, 7, 0xFFFFFFFF) + entry(16, 7, 0xFFFFFFFF) + entry(32, 7, 0xFFFFFFFF)
    size, taken = names * 12, 0
    os.makedirs("/tmp/lists", exist_ok=True)
    try:
        for n in range(1000000):
            os.mkdir(f"/tmp/lists/{n}")
            for kind in ("access", "default"):
                os.setxattr(f"/tmp/lists/{n}", "system.posix_acl_" + kind, value)
                taken += size
            if taken > 4 * MEMORY_MB << 20:
                return f"never refused, {taken >> 20} MB"
    except OSError as error:
        return refused(error, taken, MEMORY_MB)
    finally:
        for name in os.listdir("/tmp/lists"):
            os.rmdir("/tmp/lists/" + name)


OWN = os.getcwd() + "/own"
open(OWN, "w").close()
for place in (OWN, "/tmp", "/dev/shm", "/usr/bin/env", "/etc/passwd", "/", "/dev/null"):
    for name, value in RIGHTS.items():
        attempt(f"{name} of {place}", os.setxattr, place, name, value)
for place in ("/usr/bin/env", "/etc/passwd", "/", "/usr"):
    for name in ("user.x", "user.overlay.opaque", "user.overlay.redirect", "user.overlay.metacopy"):
        attempt(f"{name} of {place}", os.setxattr, place, name, b"y")
for size in (1, 1000, 30000, 65536):
    attempt(f"flood of {size} bytes each", flood, size)
attempt("flood of access lists", flood_of_access_lists)
attempt("larger than an attribute can be", os.setxattr, OWN, "user.big", bytes(65537))
