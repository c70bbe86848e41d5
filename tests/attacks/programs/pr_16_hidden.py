# Hides its processes from whoever counts them by looking into /proc, and then uses more than it may, together: each of
# them alone stays within the limit. How it hides, and what it uses, come as arguments.
import ctypes
import os
import shutil
import sys
import time

HOW, WHAT = sys.argv[1], sys.argv[2]
PR_SET_DUMPABLE = 4
USES = {
    "memory": "taken = bytearray(40 << 20)\nfor at in range(0, len(taken), 4096): taken[at] = 1\ntime.sleep(60)",
    "processor": "end = time.monotonic() + 20\nwhile time.monotonic() < end: pass",
}
code = "import time\n" + USES[WHAT]
python = sys.executable
if HOW == "unreadable":
    # A program nobody may read runs in a process nobody may look into.
    python = shutil.copy(python, "/tmp/python")
    os.chmod(python, 0o111)

print("begin", flush=True)
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        if HOW == "undumpable":
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
            exec(code)
        os.execve(python, [python, "-c", code], {"PYTHONHOME": "/usr"})
time.sleep(2)
print("still there", flush=True)
