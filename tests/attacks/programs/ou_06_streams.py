# Does odd things to its streams, as its word says, goes on for a while and ends by itself with code 7.
import fcntl
import os
import sys
import threading
import time

A_WHILE = 0.5
way = sys.argv[1]
os.write(1, b"begin\n")
if way == "closed":
    os.close(1)
    os.close(2)
if way == "all closed":
    os.closerange(0, 64)
if way == "input over output":
    os.dup2(0, 1)
    os.dup2(0, 2)
if way == "output over input":
    os.dup2(1, 0)
if way == "not blocking":
    # The other end is another open file and must not care.
    for fd in (0, 1, 2):
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC | os.O_APPEND)
if way == "small":
    fcntl.fcntl(1, 1031, 4096)
if way == "large":
    fcntl.fcntl(1, 1031, 1 << 20)
if way == "own reader":
    # Through /proc a program can open the other end of its own pipe, and read what it wrote before we do.
    def steal(reader):
        while True:
            os.read(reader, 1)

    for fd in (1, 2):
        reader = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        threading.Thread(target=steal, args=(reader,), daemon=True).start()
if way == "own writer":
    # Somebody who keeps the input open for writing, and fills it.
    writer = os.open("/proc/self/fd/0", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(writer, b"x" * 65536)
    except BlockingIOError:
        pass
if way == "nobody reads":
    # What is left in the pipe when it ends has to arrive all the same.
    os.close(0)
    os.set_blocking(1, False)
    os.write(1, b"y" * 65530)
time.sleep(A_WHILE)
os._exit(7)
