# Leaves links, pipes, sockets and a disguised directory in the workspace for whoever collects files from it.
import os
import socket
from attack import attempt

CANARY = os.environ["ATTACK_CANARY_FILE"]
LINKS = {
    "shadow": "/etc/shadow", "passwd": "/etc/passwd", "environ": "/proc/self/environ", "other": "../../other",
    "canary": CANARY, "canary-upwards": "../" * 32 + CANARY.lstrip("/"), "root": "/", "up": "..",
    "proc-root": "/proc/1/root" + CANARY, "self": "self", "memory": "/proc/self/mem", "zero": "/dev/zero",
    "absolute-own": "/workspace/honest.txt", "relative-own": "honest.txt", "plot.png": CANARY, "etc": "/etc",
    "fd": "/proc/self/fd/0",
}

open("honest.txt", "w").write("honest\n")
for name, target in LINKS.items():
    attempt(f"link {name}", os.symlink, target, name)
os.mkdir("dir")
open("dir/inner.txt", "w").write("inner\n")
attempt("link in a directory", os.symlink, CANARY, "dir/deep")
attempt("link to a directory of the host", os.symlink, os.path.dirname(CANARY), "dir/host")
attempt("pipe", os.mkfifo, "pipe")
attempt("socket", lambda: socket.socket(socket.AF_UNIX).bind("socket"))
attempt("hard link to its own", os.link, "honest.txt", "twin.txt")
# A chain of links, and one that comes back to itself.
for n in range(50):
    os.symlink(f"chain{n + 1}", f"chain{n}")
os.symlink(CANARY, "chain50")
# A directory nobody may list, and a file nobody may read.
os.mkdir("locked")
open("locked/secret", "w").write("locked\n")
os.chmod("locked", 0)
open("unreadable", "w").write("unreadable\n")
os.chmod("unreadable", 0)
