# Fifty processes, each far below the limit, all of them together far above it. None of them may be left.
import os
import time
from attack import report

report("begin", "fifty")
for _ in range(50):
    if os.fork() == 0:
        # They hide from a kill of the group, of the session and of the parent's children.
        os.setsid()
        kept = bytearray(b"x") * (6 << 20)
        time.sleep(3)
        os._exit(0)
time.sleep(2)
report("lived", len(os.listdir("/proc")))
