"""Runs a command on a host that lacks something.

    lacking.py WHAT... -- COMMAND...

    namespaces=KIND       no namespace of this kind can be made: user, mnt, pid, net, ipc, uts, cgroup; or none
    call=NAME[@A]:ERRNO   this system call, if A is given only with that first argument, answers this errno; the file
                          `numbers` beside this one has their numbers
    covered=PATH          an empty directory lies over PATH
    readonly=PATH         nothing that is mounted at PATH or below it can be written to
    stacked=PATH          PATH is an overlay of an overlay, over which the kernel mounts no third
    mounts                mounts of its own, and nothing else

Nothing of it outlives the command. A plain user arranges it in a user namespace of their own, root as root.
"""

import ctypes
import errno
import os
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUSER = 0x20000, 0x10000000
ROOT = os.geteuid() == 0


def check(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def own_user_namespace():
    """Ids are what they were. Root has to ask somebody outside to say so."""
    uid, gid, me = os.geteuid(), os.getegid(), os.getpid()
    everybody = "0 0 4294967295"
    reader, writer = os.pipe()
    helper = os.fork() if ROOT else None
    if helper == 0:
        os.close(writer)
        os.read(reader, 1)
        write(f"/proc/{me}/uid_map", everybody)
        write(f"/proc/{me}/gid_map", everybody)
        os._exit(0)
    check(libc.unshare(NEWUSER))
    if ROOT:
        os.write(writer, b"x")
        if os.waitpid(helper, 0)[1] != 0:
            sys.exit("lacking: the ids could not be mapped")
    else:
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"{uid} {uid} 1")
        write("/proc/self/gid_map", f"{gid} {gid} 1")
    os.close(reader)
    os.close(writer)


def own_mounts():
    if not ROOT:
        own_user_namespace()
    check(libc.unshare(NEWNS))
    check(libc.mount(b"none", b"/", None, 0x44000, None))  # recursively private


def mount(kind, target, options):
    check(libc.mount(kind.encode(), target.encode(), kind.encode(), 0, options.encode()))


def freeze(path):
    """By mount point: remounting the file system itself would take everybody's pen away."""
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4] for line in file]
    for point in points:
        if point == path or point.startswith(path + "/"):
            check(libc.mount(b"none", point.encode(), None, 0x1021, None))  # remount, bind, read-only


def stack(path):
    """Twice an overlay: the kernel's own bound is two."""
    mount("tmpfs", "/mnt", "mode=755")
    os.mkdir("/mnt/empty")
    for _ in range(2):
        mount("overlay", path, f"lowerdir={path}:/mnt/empty,userxattr")


def number_of(call):
    with open(os.path.join(os.path.dirname(__file__), "numbers")) as file:
        return next(int(line.split()[0]) for line in file if line.split()[1:] == [call])


def refuse(calls):
    """One filter: load the number, compare, answer."""
    code = []

    def op(what, value, yes=0, no=0):
        code.append(struct.pack("HBBI", what, yes, no, value))

    for number, argument, answer in calls:
        op(0x20, 0)  # the number
        op(0x15, number, 0, 3 if argument is not None else 1)
        if argument is not None:
            op(0x20, 16)  # the lower half of the first argument
            op(0x15, argument, 0, 1)
        op(0x06, 0x50000 | answer)
    op(0x06, 0x7FFF0000)
    program = ctypes.create_string_buffer(b"".join(code))
    header = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(program))
    if not ROOT:
        check(libc.prctl(38, 1, 0, 0, 0))
    check(libc.prctl(22, 2, ctypes.create_string_buffer(header), 0, 0))


split = sys.argv.index("--")
calls, mounts = [], False
for what in sys.argv[1:split]:
    name, _, value = what.partition("=")
    if name == "namespaces":
        own_user_namespace()
        if value != "none":
            write(f"/proc/sys/user/max_{value}_namespaces", "0")
    elif name == "call":
        call, _, answer = value.partition(":")
        call, _, argument = call.partition("@")
        calls.append((number_of(call), int(argument) if argument else None, getattr(errno, answer)))
    elif name in ("mounts", "covered", "readonly", "stacked"):
        if not mounts:
            own_mounts()
            mounts = True
        if name == "covered":
            mount("tmpfs", value, "mode=755")
        elif name == "readonly":
            freeze(value)
        elif name == "stacked":
            stack(value)
    else:
        sys.exit(f"lacking: what is `{what}`?")
if calls:
    refuse(calls)
os.execvp(sys.argv[split + 1], sys.argv[split + 1:])
