# Waits for ever in a way in which no signal can wake it, after it has said that it began.
import os
import signal
import sys
import time
from attack import libc, report

way = sys.argv[1]
ALL = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
for number in ALL:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
report("begin", way)
os.write(2, b"on the other stream\n")
if way == "sleep":
    while True:
        time.sleep(3600)
if way == "handler":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ALL)
    while True:
        time.sleep(3600)
if way == "stopped":
    for _ in range(3):
        os.fork()
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(3600)
if way == "vfork":
    # The parent waits in the kernel, unkillably by itself, for a child that sleeps.
    libc.vfork()
    libc.pause()
if way == "spinning":
    while True:
        pass
if way == "crowd":
    # Children that replace themselves while they are being killed.
    for _ in range(5):
        if os.fork() == 0:
            while True:
                if os.fork():
                    os._exit(0)
                os.setsid()
    time.sleep(3600)
if way == "closed":
    # Nothing is left on its streams by which its end could be seen.
    for fd in range(3):
        os.close(fd)
    time.sleep(3600)
