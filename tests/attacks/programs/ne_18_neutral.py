# What the network around it tells a program.
import fcntl
import os
import socket
import struct
from attack import attempt


def read(path):
    return open(path).read().strip() or "empty"


def mac():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        answer = fcntl.ioctl(s, 0x8927, struct.pack("256s", b"lo"))
    return answer[18:24].hex(":")


def netlink(kind, wanted):
    """Counts what a dump of routing information holds."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.settimeout(2)
        s.send(struct.pack("=LHHLL", 17, kind, 0x301, 1, 0) + b"\0")
        count = 0
        while True:
            data = s.recv(65536)
            while len(data) >= 16:
                length, what = struct.unpack("=LH", data[:6])
                if what in (2, 3):
                    return count
                count += what == wanted
                data = data[(length + 3) & ~3:]


attempt("interfaces", lambda: ",".join(name for _, name in socket.if_nameindex()))
attempt("mac", mac)
attempt("links", netlink, 18, 16)
attempt("neighbours", netlink, 30, 28)
attempt("hostname", socket.gethostname)
attempt("fqdn", socket.getfqdn)
attempt("domain", read, "/proc/sys/kernel/domainname")
attempt("hosts", read, "/etc/hosts")
attempt("resolv.conf", read, "/etc/resolv.conf")
attempt("routes", lambda: len(open("/proc/net/route").readlines()) - 1)
attempt("routes v6 that lead out", lambda: len([line for line in open("/proc/net/ipv6_route") if line.split()[-1] != "lo"]))
attempt("arp", lambda: len(open("/proc/net/arp").readlines()) - 1)
attempt("own addresses", lambda: ",".join(sorted({entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None)})))
for name in ("tcp", "tcp6", "udp", "udp6", "raw", "packet", "netlink", "unix"):
    # The first line is a heading.
    attempt(f"sockets {name}", lambda: len(open(f"/proc/net/{name}").readlines()) - 1)
attempt("dhcp leases", lambda: ",".join(p for p in ("/var/lib/dhcp", "/run/systemd/netif", "/etc/netplan", "/etc/network") if os.path.exists(p)) or "none")
