# Sets and bends the clocks of the machine.
import ctypes
import os
import time
from attack import attempt, syscall

before = time.time(), time.monotonic()
spec = (ctypes.c_long * 2)(0, 0)
zone = (ctypes.c_int * 2)(0, 0)
timex = ctypes.create_string_buffer(b"\x01" + b"\0" * 511, 512)
CLOCKS = {"realtime": 0, "monotonic": 1, "boottime": 7, "tai": 11, "process": 2}
attempt("settimeofday", syscall, 164, spec, zone)
attempt("settimeofday, zone only", syscall, 164, None, zone)
for name, number in CLOCKS.items():
    attempt(f"clock_settime {name}", syscall, 227, number, spec)
attempt("adjtimex", syscall, 159, timex)
for name, number in CLOCKS.items():
    attempt(f"clock_adjtime {name}", syscall, 305, number, timex)
for path in ("/dev/rtc", "/dev/rtc0", "/dev/ptp0"):
    attempt(f"device {path}", os.open, path, os.O_RDWR)
for path in ("/proc/self/timens_offsets", "/proc/1/timens_offsets"):
    attempt(f"offset {path}", lambda: os.write(os.open(path, os.O_WRONLY), b"monotonic 86400 0\n"))
attempt("alarm that wakes the machine", syscall, 283, 8, 0)  # timerfd_create of CLOCK_REALTIME_ALARM
attempt("time goes on", lambda: abs((time.time() - before[0]) - (time.monotonic() - before[1])) < 1)
