"""What a program has from the one that started it: nothing but what it was given."""

import atexit
import os
import resource
import signal

from attack import attempt, report

KNOWN = {
    "HOME", "PATH", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME", "PWD", "SHLVL", "TERM", "TZ", "LC_CTYPE", "SHELL",
    "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED",
}

report("descriptors", sorted(fd for fd in range(256) if os.path.exists("/proc/self/fd/%d" % fd)))
report("directory", os.getcwd())
umask = os.umask(0o22)
report("umask", oct(umask))
with open("/proc/self/status") as file:
    lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
for name in ("SigBlk", "SigIgn", "SigPnd"):
    report(name, lines[name])
report("threads", lines["Threads"])
attempt("children", os.waitpid, -1, os.WNOHANG)
report("timer", signal.getitimer(signal.ITIMER_REAL))
report("handlers at exit", atexit._ncallbacks())
report("core", resource.getrlimit(resource.RLIMIT_CORE))
report("session", "ok" if os.getsid(0) != 0 else "none")
for name in os.environ:
    report("variable " + name, "ok" if name in KNOWN or name.startswith("ATTACK_") else "unexpected")
