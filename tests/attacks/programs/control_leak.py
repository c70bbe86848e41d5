"""Tells secrets, and talks to everybody who listens."""

import os
import socket

from control import HOME

print(open(os.environ["ATTACK_CANARY_FILE"]).read())
print(open(HOME + "/token").read())
# Saved where files are collected.
with open(os.environ["FOLDER"] + "/secret", "w") as file:
    file.write(open(os.environ["ATTACK_CANARY_FILE"]).read())

for name in ("TCP4", "TCP6", "LAN"):
    host, port = os.environ["ATTACK_" + name].rsplit(":", 1)
    socket.create_connection((host.strip("[]"), int(port)), 2).close()
for address in ("\0" + os.environ["ATTACK_ABSTRACT"], os.environ["ATTACK_SOCKET"]):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(address)
host, port = os.environ["ATTACK_DNS"].rsplit(":", 1)
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (host, int(port)))
print("done")
