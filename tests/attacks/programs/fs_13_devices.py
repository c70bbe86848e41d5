# Looks for devices: which there are, what they can be made to do, and which of those that matter can be opened.
import ctypes
import fcntl
import itertools
import os
import random
from attack import attempt, libc, report

WANTED = [
    "kmsg", "mem", "kmem", "port", "fuse", "kvm", "vsock", "vhost-vsock", "vhost-net", "loop-control", "loop0",
    "net/tun", "tty", "tty0", "tty1", "ttyS0", "console", "ptmx", "pts/0", "pts/ptmx", "userfaultfd", "hwrng",
    "mapper/control", "sda", "vda", "nvme0n1", "dm-0", "sr0", "ram0", "nbd0", "autofs", "btrfs-control",
    "uinput", "input/event0", "rtc0", "watchdog", "snapshot", "cpu_dma_latency", "cuse", "vfio/vfio",
    "dri/card0", "snd/seq", "bus/usb/001/001", "mqueue", "hugepages", "log", "initctl", "udmabuf",
    "dma_heap/system", "nsm", "sgx_enclave", "tpm0", "bsg", "char", "block",
]
# What a random generator could be told, terminals, disks and file systems; the last three would freeze or trim.
DANGEROUS = {
    "RNDADDTOENTCNT": 0x40045201, "RNDADDENTROPY": 0x40085203, "RNDZAPENTCNT": 0x5204, "RNDCLEARPOOL": 0x5206,
    "RNDRESEEDCRNG": 0x5207, "TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "TIOCCONS": 0x541D, "TIOCSETD": 0x5423,
    "TIOCSCTTY": 0x540E, "TIOCSTI with high bits": 0x1_0000_5412, "BLKFLSBUF": 0x1261, "BLKROSET": 0x125D,
    "FIFREEZE": 0xC0045877, "FITHAW": 0xC0045878, "FITRIM": 0xC0185879,
}
PRESENT = ["null", "zero", "full", "random", "urandom"]


def opened(path, flags):
    os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))


def any_way(path):
    try:
        return os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def written(path):
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, b"x")
    finally:
        os.close(file)


def told(path, request):
    file = any_way(path)
    try:
        # Not by the library, which cuts numbers to the 32 bits the kernel looks at.
        if libc.ioctl(file, ctypes.c_ulong(request), bytes(64)) == -1:
            raise OSError(ctypes.get_errno(), "")
    finally:
        os.close(file)


def told_anything(path, numbers):
    """Random requests. Which of them a device accepts; those that any descriptor knows are left out."""
    common = {0x5421, 0x5450, 0x5451, 0x5452, 0x5460, 0x2, 0x541B}
    file = any_way(path)
    accepted = []
    for number in numbers:
        if number in common:
            continue
        try:
            fcntl.ioctl(file, number, bytes(256))
            accepted.append(hex(number))
        except OSError:
            pass
    os.close(file)
    return " ".join(accepted) or "none accepted"


report("in /dev", " ".join(sorted(os.listdir("/dev"))))
devices, looked = set(), 0
for base, dirs, files in itertools.chain(os.walk("/dev"), os.walk("/")):
    dirs[:] = [d for d in dirs if os.path.join(base, d) not in ("/proc", "/usr", "/sys")]
    looked += len(files)
    if looked > 50000:
        break
    devices |= {path for path in (os.path.join(base, name) for name in files) if os.lstat(path).st_mode >> 12 in (2,
        6)}
report("device nodes anywhere", " ".join(sorted(devices)) or "none")
for name in WANTED:
    attempt(f"open /dev/{name}", opened, "/dev/" + name, os.O_RDONLY)
for name in PRESENT:
    path = "/dev/" + name
    attempt(f"open {path} for writing", opened, path, os.O_WRONLY)
    # As it is, and to the same name: allowed only where things may be changed.
    attempt(f"change the mode of {path}", lambda: os.chmod(path, os.stat(path).st_mode & 0o7777))
    attempt(f"rename {path}", os.rename, path, path)
attempt("make a file in /dev", lambda: os.close(os.open("/dev/x", os.O_CREAT | os.O_WRONLY)))
for name in PRESENT:
    path = "/dev/" + name
    attempt(f"write to {path}", written, path)
    for request, number in DANGEROUS.items():
        attempt(f"{request} on {path}", told, path, number)
    chance = random.Random(name)
    known = [*range(0x5200, 0x5210), *range(0x5400, 0x5480), *range(0x1260, 0x1290)]
    numbers = [chance.getrandbits(32) for _ in range(2000)] + known
    attempt(f"any request on {path}", told_anything, path, numbers)
