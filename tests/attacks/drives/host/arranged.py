"""Runs a command on a host that is arranged for it.

    arranged.py WHAT... -- COMMAND...

    named=HOST,DOMAIN     a host name and a domain name
    etc=DIRECTORY         this instead of /etc
    full=PATH:BYTES       a file system of this size over PATH
    covered=PATH          an empty directory over PATH
    growing=PATH:BYTES    the command is run twice: it has to fail first, then the file system at PATH gets this size
    readonly=PATH         PATH and what is mounted below it can only be read

Nothing of it outlives the command. A plain user arranges it in a user namespace of their own, root as root.
"""

import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUTS, NEWUSER = 0x20000, 0x4000000, 0x10000000
RDONLY, REMOUNT, BIND, REC, PRIVATE = 1, 32, 4096, 16384, 1 << 18


def check(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def mount(source, target, kind=None, flags=0, options=None):
    words = [word and word.encode() for word in (source, target, kind)]
    check(libc.mount(*words, ctypes.c_ulong(flags), options and options.encode()))


def readonly(path):
    mount(path, path, flags=BIND | REC)
    with open("/proc/self/mountinfo") as table:
        points = [line.split()[4] for line in table]
    for point in points:
        if point == path or point.startswith(path + "/"):
            check(libc.mount(None, point.encode(), None, ctypes.c_ulong(REMOUNT | BIND | RDONLY | locked(point)), None))


def locked(point):
    """Flags of a mount that may not be taken away in a user namespace."""
    flags = os.statvfs(point).f_flag
    return sum(flag for bit, flag in ((2, 2), (4, 4), (8, 8), (1024, 1024), (4096, 1 << 21)) if flags & bit)


def fails(command):
    """Runs the command, which has to fail."""
    child = os.fork()
    if child == 0:
        nothing = os.open("/dev/null", os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.execv(command[0], command)
    if os.waitpid(child, 0)[1] == 0:
        sys.exit("arranged: it did not fail the first time")


uid, gid = os.geteuid(), os.getegid()
check(libc.unshare(NEWNS | NEWUTS | (0 if uid == 0 else NEWUSER)))
if uid != 0:
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{uid} {uid} 1")
    write("/proc/self/gid_map", f"{gid} {gid} 1")
mount(None, "/", flags=REC | PRIVATE)
split = sys.argv.index("--")
command = sys.argv[split + 1:]
for wish in sys.argv[1:split]:
    what, value = wish.split("=", 1)
    if what == "named":
        host, domain = (name.encode() for name in value.split(","))
        check(libc.sethostname(host, len(host)))
        check(libc.setdomainname(domain, len(domain)))
    elif what == "etc":
        mount(value, "/etc", flags=BIND)
    elif what == "full":
        path, size = value.rsplit(":", 1)
        mount("tmpfs", path, "tmpfs", options=f"size={size},mode=700")
    elif what == "covered":
        mount("tmpfs", value, "tmpfs", options="size=4096,mode=755")
    elif what == "growing":
        path, size = value.rsplit(":", 1)
        fails(command)
        mount("tmpfs", path, flags=REMOUNT, options=f"size={size}")
    elif what == "readonly":
        readonly(value)
    else:
        sys.exit(f"arranged: what is `{wish}`?")
os.execv(command[0], command)
