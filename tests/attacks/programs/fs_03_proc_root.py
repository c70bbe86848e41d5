# Looks for another tree behind the magic links of /proc: roots, working directories and open files.
import os
import threading
import time
from attack import attempt

CANARY = os.environ["ATTACK_CANARY_FILE"]
OWN = (os.stat("/").st_dev, os.stat("/").st_ino)


def tree(path):
    """Whose tree it is: the names in it, and the inode, tell."""
    names = sorted(os.listdir(path))
    there = os.stat(path)
    return "own tree" if (there.st_dev,
        there.st_ino) == OWN and names == sorted(os.listdir("/")) else " ".join(names)


def opened(path):
    os.close(os.open(path, os.O_RDONLY))


def held(path):
    at = os.open(path, os.O_PATH)
    try:
        os.close(os.open("." + CANARY, os.O_RDONLY, dir_fd=at))
    finally:
        os.close(at)


# A child and a thread, so that there is more than one process and task to go through.
child = os.fork()
if child == 0:
    os.chdir("/")
    time.sleep(60)
    os._exit(0)
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()

me = os.getpid()
tasks = [f"/proc/self/task/{task}" for task in os.listdir("/proc/self/task")]
for base in ["/proc/self", "/proc/thread-self", f"/proc/{me}", f"/proc/{child}", *tasks]:
    shown = base.replace(str(child), "CHILD")
    attempt(f"root of {shown}", tree, base + "/root")
    attempt(f"root of {shown} and up", tree, base + "/root/../..")
    attempt(f"cwd of {shown} and up", tree, base + "/cwd/../../../..")
    attempt(f"canary behind the root of {shown}", opened, base + "/root" + CANARY)
    attempt(f"canary behind the cwd of {shown}", opened, base + "/cwd/../../../.." + CANARY)
    attempt(f"canary from the held root of {shown}", held, base + "/root")

# PID 1 was born outside: what it holds would be a way out.
for part in ("root", "cwd", "exe", "fd", "fd/0", "fd/3", "ns/mnt", "ns/user", "task/1/root", "task/1/cwd",
    "map_files"):
    path = "/proc/1/" + part
    attempt(f"pid 1: list {part}", lambda: " ".join(os.listdir(path)) or "empty")
    attempt(f"pid 1: read the link {part}", os.readlink, path)
    attempt(f"pid 1: hold {part}", lambda: os.close(os.open(path, os.O_PATH)))
    attempt(f"pid 1: enter {part}", os.chdir, path)
for part in ("mem", "environ", "maps", "mountinfo", "auxv", "stack", "syscall", "io", "pagemap", "cmdline", "stat",
    "status"):
    attempt(f"pid 1: read {part}", lambda: len(open("/proc/1/" + part, "rb").read(16)))
attempt("pid 1: canary behind its root", opened, "/proc/1/root" + CANARY)
attempt("pid 1: canary behind its cwd", opened, "/proc/1/cwd/../../../.." + CANARY)

# Every number there could be, not only those that are listed.
strange = [n for n in range(1, 5000) if n not in (me, child) and os.path.lexists(f"/proc/{n}/root/etc")]
tasks = set(map(int, os.listdir("/proc/self/task")))
attempt("roots of other processes", lambda: " ".join(map(str, set(strange) - tasks)) or "none")

# Magic links to descriptors are followed to the inode, past every path.
slash = os.open("/", os.O_RDONLY)
for up in ("..", "../..", "../" * 32):
    attempt(f"up from the link of a descriptor by {up}", tree, f"/proc/self/fd/{slash}/{up}")
    attempt(f"up by /dev/fd and {up}", tree, f"/dev/fd/{slash}/{up}")
attempt("canary behind the link of a descriptor", opened, f"/proc/self/fd/{slash}{CANARY}")
attempt("files behind mappings", lambda: opened("/proc/self/map_files/" + os.listdir("/proc/self/map_files")[0]))
os.kill(child, 9)
os.wait()
