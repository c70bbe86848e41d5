# Reads, clears and writes the messages of the kernel, and listens to its auditor.
import ctypes
import glob
import os
import socket
from attack import attempt, syscall

buffer = ctypes.create_string_buffer(65536)
for action in range(11):
    attempt(f"syslog {action}", syscall, 103, action, buffer, 65536 if action in (2, 3, 4) else 4)
for path in ("/dev/kmsg", "/proc/kmsg", "/dev/console", "/dev/tty", "/dev/tty0", "/dev/log", "/dev/mem", "/dev/kmem", "/dev/port"):
    for mode, name in ((os.O_RDONLY, "read"), (os.O_WRONLY, "write")):
        attempt(f"{name} {path}", lambda: os.read(os.open(path, mode | os.O_NONBLOCK), 1000) or "empty")
attempt("audit socket", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9).close())
attempt("uevents", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15).close())
attempt("tracing", os.listdir, "/sys/kernel/tracing")
attempt("logs", lambda: glob.glob("/var/log/*") + glob.glob("/run/log/*") or "nothing")
attempt("own device node", lambda: os.mknod("/tmp/kmsg", 0o20666, os.makedev(1, 11)))
attempt("printk level", lambda: open("/proc/sys/kernel/printk", "w").close())
