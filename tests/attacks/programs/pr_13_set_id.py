# Runs every program of the host that would give its user other rights, and looks what they became.
# The dynamic loader shows what the kernel handed a program (LD_SHOW_AUXV), but not to one that gained rights: it then
# ignores the variable. So silence means gain, and an answer says as whom it runs.
import os
import select
import subprocess
import time
from attack import attempt, report

WANTED = [
    "su", "sudo", "mount", "umount", "ping", "newuidmap", "newgidmap", "pkexec", "passwd", "chsh", "chfn", "newgrp",
    "gpasswd", "fusermount", "fusermount3", "crontab", "at", "doas", "screen",
]
# What each would do for its user if it could.
DEEDS = {
    "su": ["-c", "id", "root"], "sudo": ["-n", "id"], "mount": ["-t", "tmpfs", "x", "/tmp"],
    "umount": ["-l", "/proc/kallsyms"], "ping": ["-c", "1", "-W", "1", "127.0.0.1"],
    "newuidmap": [str(os.getpid()), "0", "0", "1"], "newgidmap": [str(os.getpid()), "0", "0", "1"],
    "pkexec": ["id"], "passwd": ["-d", "root"], "chsh": ["-s", "/bin/sh", "root"], "chfn": ["-f", "x", "root"],
    "newgrp": ["root"], "gpasswd": ["-a", "sandbox", "root"],
}


def set_id_programs(depth=3):
    """What in /usr is marked, or carries capabilities."""
    found, places = [], [("/usr/" + place, depth) for place in ("bin", "sbin", "lib", "libexec", "local")]
    while places:
        place, left = places.pop()
        for entry in os.scandir(place) if os.access(place, os.R_OK | os.X_OK) and os.path.isdir(place) else ():
            if entry.is_dir(follow_symlinks=False) and left:
                places.append((entry.path, left - 1))
            elif entry.is_file(follow_symlinks=False):
                mode = entry.stat(follow_symlinks=False).st_mode
                if mode & 0o6000 or mode & 0o111 and "security.capability" in os.listxattr(entry.path):
                    found.append(entry.path)
    return found


def path_of(name):
    for place in ("/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/", "/usr/local/bin/"):
        if os.path.exists(place + name):
            return place + name
    return None


def rights(path):
    """As whom the kernel started it. It is ended as soon as that is known: some wait for a password."""
    own = {"AT_UID": os.getuid(), "AT_EUID": os.getuid(), "AT_GID": os.getgid(), "AT_EGID": os.getgid(),
        "AT_SECURE": 0}
    try:
        running = subprocess.Popen(
            [path, "--version"], env={"LD_SHOW_AUXV": "1"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, bufsize=0,
        )
    except PermissionError:
        return "may not be run"
    seen = {}
    deadline = time.monotonic() + 2
    while len(seen) < len(own) and select.select([running.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
        line = running.stdout.readline()
        if not line:
            break
        name, _, value = line.decode(errors="replace").partition(":")
        if name in own:
            seen[name] = int(value)
    running.kill()
    running.wait()
    if "AT_SECURE" not in seen:
        return "gained"
    return "as itself" if seen == own else str(seen)


def deed(path, words):
    try:
        code = subprocess.run([path, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=10).returncode
    except PermissionError:
        return "may not be run"
    except subprocess.TimeoutExpired:
        return "still runs"
    return "done" if code == 0 else "failed"


def no_new_privs(status):
    return next(line.split()[1] for line in open(status) if line.startswith("NoNewPrivs"))


before, before_uid = open("/proc/self/mountinfo").read(), os.getuid()
for path in sorted(set_id_programs()):
    attempt(f"set-id {path}", rights, path)
for name in WANTED:
    path = path_of(name)
    attempt(f"rights of {name}", lambda: rights(path) if path else "absent")
    if name in DEEDS:
        attempt(f"deed of {name}", lambda: deed(path, DEEDS[name]) if path else "absent")
attempt("no_new_privs of itself", no_new_privs, "/proc/self/status")
child = subprocess.run(["grep", "NoNewPrivs", "/proc/self/status"], capture_output=True, text=True)
attempt("no_new_privs of a child", lambda: child.stdout.split()[1])
report("uids afterwards", "same" if len({*os.getresuid(), before_uid}) == 1 else os.getresuid())
report("mounts afterwards", "unchanged" if open("/proc/self/mountinfo").read() == before else "changed")
# A program that is marked by nobody shows its rights the same way, so that the look is a good one.
attempt("an ordinary program", rights, "/usr/bin/env")
