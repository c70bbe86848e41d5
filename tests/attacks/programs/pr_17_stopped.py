# Stops itself and everything it started, so that nobody is left who could end.
import os
import signal
import sys
import time

print("begin", flush=True)
for n in range(5):
    if os.fork() == 0:
        if n % 2:
            os.setsid()
        if sys.argv[1] == "again":
            # One of them wakes the others, which stop again: never all of them are stopped for long.
            while n == 0:
                os.kill(-1, signal.SIGCONT)
                time.sleep(0.001)
        while True:
            os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(0.05)
while True:
    os.kill(os.getpid(), signal.SIGSTOP)
