# Burns as much processor time as it can get, with as many threads or processes as its word says.
import os
import sys
import threading
from attack import report

count, kind = int(sys.argv[1]), sys.argv[2]


def burn():
    while True:
        pass


report("begin", f"{count} {kind}")
for _ in range(count - 1):
    if kind == "processes":
        if os.fork() == 0:
            # A session of its own has its own share, where the kernel groups by session.
            os.setsid()
            burn()
    else:
        threading.Thread(target=burn, daemon=True).start()
burn()
