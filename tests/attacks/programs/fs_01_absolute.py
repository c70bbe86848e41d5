# Reaches for files of the host by their absolute names, by every call that takes a name.
import ctypes
import os
import socket
from attack import attempt, libc, syscall

CANARY, STATE = os.environ["ATTACK_CANARY_FILE"], os.environ["ATTACK_STATE_DIR"]
SYS_OPENAT2, SYS_FACCESSAT2 = 437, 439
AT_FDCWD = -100

FILES = [
    CANARY, "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/crontab", "/etc/ssh/sshd_config", "/etc/fstab",
    "/etc/profile", "/etc/os-release", "/root/.ssh/id_ed25519", "/root/.bash_history", "/root/.profile",
    "/home/user/.profile", "/srv/canary", "/var/log/dpkg.log", "/var/lib/dpkg/status", "/boot/vmlinuz",
    "/run/sandboxd/uids", os.path.join(STATE, "uids"),
]
PLACES = [
    os.path.dirname(CANARY), STATE, "/root", "/home", "/srv", "/var/log", "/var/lib", "/boot", "/opt", "/mnt",
    "/media", "/sys", "/lost+found", "/etc/ssh", "/etc/skel", "/run/sandboxd", "/run/user", "/var/spool",
]
# Other spellings of the same place.
SPELLINGS = [
    "/" + CANARY, "/./" + CANARY, "/usr/.." + CANARY, "/proc/.." + CANARY, "/dev/../" + CANARY,
    "/workspace/../" + CANARY, "/tmp/../." + CANARY, "/proc/self/../.." + CANARY, "/dev/fd/../../.." + CANARY,
]


def read(path):
    with open(path, "rb") as file:
        return len(file.read(64))


def openat2(path):
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY, 0, 0)
    os.close(syscall(SYS_OPENAT2, AT_FDCWD, path.encode(), how, ctypes.sizeof(how)))


def through_link(path):
    link = "link%d" % len(os.listdir("."))
    os.symlink(path, link)
    return read(link)


def by_socket(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)


def call(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "")


for path in FILES + SPELLINGS:
    attempt(f"read {path}", read, path)
for path in FILES[:4] + [os.path.join(STATE, "x")]:
    name = path.encode()
    attempt(f"hold {path}", lambda: os.close(os.open(path, os.O_PATH)))
    attempt(f"hold the end of {path}", lambda: os.close(os.open(path, os.O_PATH | os.O_NOFOLLOW)))
    attempt(f"openat2 {path}", openat2, path)
    attempt(f"stat {path}", lambda: os.stat(path).st_size)
    attempt(f"access {path}", lambda: call(libc.access(name, 0)))
    attempt(f"access as the effective user {path}", lambda: syscall(SYS_FACCESSAT2, AT_FDCWD, name, 0, 0x200))
    attempt(f"statfs {path}", lambda: os.statvfs(path).f_bsize)
    attempt(f"xattr {path}", lambda: os.listxattr(path))
    attempt(f"readlink {path}", lambda: os.readlink(path))
    attempt(f"execute {path}", lambda: os.execv(path, ["x"]))
    attempt(f"truncate {path}", lambda: os.truncate(path, os.stat(path).st_size))
    attempt(f"write {path}", lambda: os.close(os.open(path, os.O_WRONLY)))
    attempt(f"link {path}", lambda: os.link(path, "stolen"))
    attempt(f"through a link {path}", through_link, path)
    attempt(f"connect {path}", by_socket, path)
    attempt(f"watch {path}", lambda: call(libc.inotify_add_watch(libc.inotify_init(), name, 0xFFF)))
for path in PLACES:
    attempt(f"list {path}", lambda: len(os.listdir(path)))
    attempt(f"enter {path}", os.chdir, path)
    attempt(f"make in {path}", lambda: os.close(os.open(path + "/intruder", os.O_CREAT | os.O_EXCL | os.O_WRONLY)))
