# Has a hundred megabytes of input, and does what its word says with them.
import os
import signal
import sys
import time
from attack import report

way = sys.argv[1]
if way == "closes":
    os.close(0)
    time.sleep(0.3)
if way == "closes late":
    os.read(0, 100000)
    os.close(0)
    time.sleep(0.3)
if way == "ends":
    os._exit(9)
if way == "writes while it is fed":
    # Both directions at once: whoever does one before the other would wait for ever.
    for _ in range(200):
        os.write(1, b"." * 9999 + b"\n")
if way == "reads":
    report("read", sum(iter(lambda: len(os.read(0, 1 << 16)), 0)))
if way == "child":
    # Somebody else holds the input open after the program has ended.
    if os.fork() == 0:
        os.setsid()
        signal.pause()
report("end", way)
