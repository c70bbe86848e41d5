# Works where nobody looks: processor time in daemons and in children that nobody waits for, memory in files.
import os
import signal
import sys
import time
from attack import report


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


# By this pipe those who work tell that they have; the machine may be slow.
done, tell = os.pipe()
way = sys.argv[1]
if way == "daemon":
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            burn(0.5)
            os.write(tell, b"x")
            # It still burns when the program ends, and is killed then.
            burn(9)
        os._exit(0)
    os.wait()
    os.read(done, 1)
if way == "ignored":
    # The kernel adds up the time of children that are waited for; of these it does not. Each of them is short.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in range(10):
        if os.fork() == 0:
            burn(0.05)
            os.write(tell, b"x")
            os._exit(0)
        os.read(done, 1)
    # What it burns itself is seen everywhere, however quick the machine is.
    burn(0.05)
if way == "orphans":
    for _ in range(10):
        if os.fork() == 0:
            if os.fork() == 0:
                burn(0.05)
                os.write(tell, b"x")
            os._exit(0)
        os.wait()
        os.read(done, 1)
if way == "memory":
    try:
        kept = os.memfd_create("hidden")
    except OSError:
        # Not everywhere are there files that never had a name.
        kept = os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
    os.write(kept, b"x" * (16 << 20))
    with open("/dev/shm/x", "wb") as file:
        file.write(b"x" * (16 << 20))
    with open("/tmp/x", "wb") as file:
        file.write(b"x" * (16 << 20))
    os.unlink("/dev/shm/x")
    if os.fork() == 0:
        data = bytearray(b"x") * (16 << 20)
        time.sleep(0.3)
        os._exit(0)
    os.wait()
report("end", way)
