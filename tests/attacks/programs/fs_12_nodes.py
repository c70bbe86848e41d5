# Makes device nodes wherever it may write, by hand and out of a tar archive, and opens what came of it.
import io
import os
import stat
import subprocess
import tarfile
from attack import attempt

NODES = {
    "first disk": (stat.S_IFBLK, 8, 0), "virtual disk": (stat.S_IFBLK, 254, 0),
    "loop device": (stat.S_IFBLK, 7, 0), "memory": (stat.S_IFCHR, 1, 1), "kernel memory": (stat.S_IFCHR, 1, 2),
    "ports": (stat.S_IFCHR, 1, 4), "kernel log": (stat.S_IFCHR, 1, 11), "tunnel": (stat.S_IFCHR, 10, 200),
    "fuse": (stat.S_IFCHR, 10, 229), "virtual machines": (stat.S_IFCHR, 10, 232),
    "console": (stat.S_IFCHR, 5, 1), "terminal": (stat.S_IFCHR, 5, 0), "serial line": (stat.S_IFCHR, 4, 64),
    "harmless null": (stat.S_IFCHR, 1, 3),
}
PLACES = [place for place in (os.getcwd(), "/tmp", "/var/tmp", "/build", "/run", "/dev/shm") if os.access(place,
    os.W_OK)]


def made(place, kind, major, minor, at=False):
    path = f"{place}/node"
    try:
        if at:
            os.mknod("node", kind | 0o666, os.makedev(major, minor), dir_fd=os.open(place, os.O_PATH))
        else:
            os.mknod(path, kind | 0o666, os.makedev(major, minor))
        return "made, then " + opened(path)
    finally:
        if os.path.lexists(path):
            os.unlink(path)


def opened(path):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        return "opened"
    except OSError as error:
        return error.strerror


def archive(kind, major, minor):
    """A tar archive with one device node in it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        entry = tarfile.TarInfo("node")
        entry.type = tarfile.BLKTYPE if kind == stat.S_IFBLK else tarfile.CHRTYPE
        entry.devmajor, entry.devminor, entry.mode = major, minor, 0o666
        tar.addfile(entry)
    return data.getvalue()


def unpacked_by_tar(node):
    subprocess.run(["tar", "-xf", "-", "-C", "/tmp"], input=archive(*node), stderr=subprocess.DEVNULL)
    return made_by_others() or "not made"


def unpacked_by_python(node):
    with tarfile.open(fileobj=io.BytesIO(archive(*node))) as tar:
        tar.makedev(tar.getmembers()[0], "/tmp/node")
    return made_by_others()


def made_by_others():
    if not os.path.lexists("/tmp/node"):
        return None
    try:
        return "made, then " + opened("/tmp/node")
    finally:
        os.unlink("/tmp/node")


for name, node in NODES.items():
    for place in PLACES:
        attempt(f"{name} in {place}", made, place, *node)
    attempt(f"{name} from a held directory", made, os.getcwd(), *node, True)
    attempt(f"{name} by tar", unpacked_by_tar, node)
    attempt(f"{name} by a library", unpacked_by_python, node)
# The one number everybody may make, because overlays mark deleted files by it. It must open nothing.
attempt("the mark of a deleted file", made, os.getcwd(), stat.S_IFCHR, 0, 0)
