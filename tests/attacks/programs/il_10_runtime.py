# What Python tells of where and how it was started: a traceback, its paths, its words.
import linecache
import os
import sys
import sysconfig
import traceback
from attack import attempt

INSIDE = ("/workspace", "/usr/", "/build", "/lib", "/bin/", "/sbin/", "/tmp", "/dev/null", "/proc/")


def outside(paths):
    """Those that are no place of a sandbox."""
    return sorted({path for path in paths if os.path.isabs(path) and not (path + "/").startswith(INSIDE)}) or "nothing"


def frames():
    found = []
    frame = sys._getframe()
    while frame:
        found.append(frame.f_code.co_filename)
        frame = frame.f_back
    return outside(found)


def trace():
    try:
        import json
        json.loads("{")
    except ValueError:
        return outside(entry.filename for entry in traceback.extract_tb(sys.exc_info()[2]))


attempt("file", lambda: os.path.abspath(__file__))
attempt("words", lambda: " ".join(sys.orig_argv))
attempt("executable", lambda: outside([sys.executable, os.path.realpath(sys.executable), os.readlink("/proc/self/exe")]))
attempt("paths", lambda: outside(sys.path + list(sysconfig.get_paths().values())))
attempt("prefixes", lambda: outside([sys.prefix, sys.base_prefix, sys.exec_prefix]))
attempt("modules", lambda: outside(getattr(m, "__file__", None) or "" for m in list(sys.modules.values())))
attempt("frames", frames)
attempt("traceback", trace)
attempt("sources", lambda: outside(linecache.cache))
attempt("maps", lambda: outside(line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if "/" in line and "[" not in line))
attempt("descriptors", lambda: outside(os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")))
attempt("variables", lambda: outside(p for name, value in os.environ.items() if not name.startswith("ATTACK_") for p in value.split(":")))
attempt("parent", lambda: os.getppid())
raise RuntimeError("a traceback on the other stream")
