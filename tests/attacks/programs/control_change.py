"""Changes a file of the host and a setting of its kernel, and sends a packet that nobody waits for."""

import os
import socket

with open(os.environ["ATTACK_CANARY_FILE"], "a") as file:
    file.write("changed\n")
with open("/proc/sys/kernel/domainname", "w") as file:
    file.write("changed")
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("203.0.113.1", 9))
print("done")
