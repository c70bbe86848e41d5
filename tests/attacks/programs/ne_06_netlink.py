# Talks to every part of the kernel that listens on netlink, and tries to change the network.
import os
import socket
import struct
from attack import attempt, syscall

NEWLINK, DELLINK, SETLINK, NEWADDR, DELADDR, NEWROUTE, DELROUTE, NEWNEIGH, NEWRULE, NEWQDISC, NEWNSID = 16, 17, 19, 20, 21, 24, 25, 28, 32, 36, 88
REQUEST, ACK, CREATE, EXCL = 1, 4, 0x400, 0x200


def attribute(kind, data):
    return struct.pack("=HH", len(data) + 4, kind) + data + b"\0" * (-len(data) % 4)


def ask(kind, body, flags=REQUEST | ACK | CREATE | EXCL):
    """Sends one request and raises what the kernel answers."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.settimeout(2)
        s.bind((0, 0))
        s.send(struct.pack("=LHHLL", 16 + len(body), kind, flags, 1, 0) + body)
        answer = s.recv(65536)
        if struct.unpack("=H", answer[4:6])[0] == 2:
            error = -struct.unpack("=i", answer[16:20])[0]
            if error:
                raise OSError(error, os.strerror(error))


def link(index=0, flags=0, change=0, attributes=b""):
    return struct.pack("=BxHiII", 0, 0, index, flags, change) + attributes


def new_link(kind):
    return link(attributes=attribute(3, b"intruder\0") + attribute(18, attribute(1, kind)))


def moved():
    """Pushes an interface into another namespace, by pid."""
    return link(1, attributes=attribute(19, struct.pack("=I", 1)))


def route(table=254):
    gateway = attribute(5, socket.inet_aton("127.0.0.1")) + attribute(4, struct.pack("=i", 1))
    return struct.pack("=BBBBBBBBI", 2, 0, 0, 0, table, 4, 0, 1, 0) + gateway


for protocol in range(32):
    for kind, name in ((socket.SOCK_RAW, "raw"), (socket.SOCK_DGRAM, "datagram")):
        attempt(f"protocol {protocol} {name}", lambda: socket.socket(socket.AF_NETLINK, kind, protocol).close())
# The kernel looks at the lower half of the word, so a filter must not be content with the upper one.
attempt("protocol 16 behind an upper half", lambda: os.close(syscall(41, socket.AF_NETLINK, socket.SOCK_RAW, 16 | 1 << 32)))
for kind in (b"dummy", b"veth", b"bridge", b"macvlan", b"vxlan", b"wireguard", b"tun", b"vrf", b"ifb", b"bond"):
    attempt(f"change: new {kind.decode()}", ask, NEWLINK, new_link(kind))
attempt("change: loopback down", ask, NEWLINK, link(1, 0, 1), REQUEST | ACK)
attempt("change: loopback by set", ask, SETLINK, link(1, 0, 1), REQUEST | ACK)
attempt("change: loopback removed", ask, DELLINK, link(1), REQUEST | ACK)
attempt("change: loopback given away", ask, NEWLINK, moved(), REQUEST | ACK)
address = struct.pack("=BBBBi", 2, 8, 0, 0, 1) + attribute(2, socket.inet_aton("10.9.8.7"))
attempt("change: address", ask, NEWADDR, address)
attempt("change: address removed", ask, DELADDR, struct.pack("=BBBBi", 2, 8, 0, 0, 1) + attribute(2, socket.inet_aton("127.0.0.1")))
attempt("change: route", ask, NEWROUTE, route())
attempt("change: local route", ask, NEWROUTE, route(255))
attempt("change: neighbour", ask, NEWNEIGH, struct.pack("=BxHiHBB", 2, 0, 1, 0x80, 0, 1) + attribute(1, socket.inet_aton("1.1.1.1")) + attribute(2, b"\x02" * 6))
attempt("change: rule", ask, NEWRULE, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 0, 0, 1, 0))
attempt("change: queue", ask, NEWQDISC, struct.pack("=BxHiIII", 0, 0, 1, 0x10000, 0xFFFFFFFF, 0) + attribute(1, b"netem\0"))
attempt("change: namespace id", ask, NEWNSID, struct.pack("=B3x", 0) + attribute(1, struct.pack("=i", 7)) + attribute(2, struct.pack("=I", 1)))


def spoof():
    # The kernel lets nobody but its owner speak for a port number.
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.sendto(b"x" * 16, (1, 0))


def listen(group):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.setsockopt(270, 8, 1)  # from all namespaces, which needs a right
        s.setsockopt(270, 1, group)


attempt("change: by another's port", spoof)
attempt("change: listen to all namespaces", listen, 1)
