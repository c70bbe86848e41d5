# Ends, while a grandchild keeps its standard streams open for an hour, and further ones keep writing.
import os
import sys
import time

print("begin", flush=True)
for kind in ("silent", "writing", "stopped"):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if kind == "stopped":
                os.kill(os.getpid(), 19)
            end = time.monotonic() + 3600
            while time.monotonic() < end:
                time.sleep(0.02)
                if kind == "writing":
                    os.write(2, b".")
        os._exit(0)
    os.wait()
print("end", flush=True)
sys.exit(7)
