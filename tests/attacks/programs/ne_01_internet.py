# Sends something to the internet in every way a socket can, and looks whether anything leaves.
import select
import socket
import struct
from attack import attempt

V4 = ["1.1.1.1", "8.8.8.8", "192.0.2.1"]
V6 = ["2606:4700:4700::1111", "2001:4860:4860::8888", "2001:db8::1", "::ffff:1.1.1.1", "64:ff9b::101:101"]
MSG_FASTOPEN, IPPROTO_MPTCP, IPPROTO_UDPLITE, IPPROTO_SCTP, IPPROTO_DCCP = 0x20000000, 262, 136, 132, 33
IP_TRANSPARENT, IP_FREEBIND, SO_MARK = 19, 15, 36


def tcp(family, address, port=53, protocol=0):
    with socket.socket(family, socket.SOCK_STREAM, protocol) as s:
        s.settimeout(2)
        s.connect((address, port))


def tcp_later(family, address):
    # Without waiting the first answer may be "in progress"; the final one counts.
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.setblocking(False)
        error = s.connect_ex((address, 53))
        if error == 115:
            select.select([], [s], [], 2)
            error = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) or 115
        raise OSError(error, "")


def fast_open(address):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(2)
        s.sendto(b"x", MSG_FASTOPEN, (address, 53))


def udp(family, address, kind=socket.SOCK_DGRAM, protocol=0):
    with socket.socket(family, kind, protocol) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.sendto(b"x", (address, 53))


def udp_with_options(option, level=socket.SOL_IP, value=1):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(level, option, value)
        s.sendto(b"x", ("1.1.1.1", 53))


def udp_past_loopback(family, address):
    # A packet that is pushed out of the only interface, and comes from an address that is not ours.
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
        s.sendto(b"x", (address, 53))


def from_elsewhere():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_IP, IP_FREEBIND, 1)
        s.bind(("203.0.113.7", 0))
        s.sendto(b"x", ("1.1.1.1", 53))


def ping(family, address, kind, protocol):
    with socket.socket(family, kind, protocol) as s:
        s.sendto(struct.pack("!BBHHH", 8, 0, 0xF7FE, 0, 1), (address, 0))


for address in V4:
    attempt(f"tcp {address}", lambda: tcp(socket.AF_INET, address))
    attempt(f"tcp later {address}", lambda: tcp_later(socket.AF_INET, address))
    attempt(f"tcp fast open {address}", lambda: fast_open(address))
    attempt(f"udp {address}", lambda: udp(socket.AF_INET, address))
    attempt(f"multipath tcp {address}", lambda: tcp(socket.AF_INET, address, protocol=IPPROTO_MPTCP))
for address in V6:
    attempt(f"tcp {address}", lambda: tcp(socket.AF_INET6, address))
    attempt(f"udp {address}", lambda: udp(socket.AF_INET6, address))

# The ways around a missing route.
for address in ("255.255.255.255", "224.0.0.1", "239.255.255.250"):
    attempt(f"udp {address}", lambda: udp(socket.AF_INET, address))
attempt("udp ff02::1", lambda: udp(socket.AF_INET6, "ff02::1"))
attempt("udp lite", lambda: udp(socket.AF_INET, "1.1.1.1", socket.SOCK_DGRAM, IPPROTO_UDPLITE))
attempt("pushed out of lo 1.1.1.1", lambda: udp_past_loopback(socket.AF_INET, "1.1.1.1"))
attempt("pushed out of lo 2001:db8::1", lambda: udp_past_loopback(socket.AF_INET6, "2001:db8::1"))
attempt("from a foreign address", from_elsewhere)
attempt("transparent", lambda: udp_with_options(IP_TRANSPARENT))
attempt("marked", lambda: udp_with_options(SO_MARK, socket.SOL_SOCKET))
attempt("without routing", lambda: udp_with_options(socket.SO_DONTROUTE, socket.SOL_SOCKET))

for name, kind in (("raw", socket.SOCK_RAW), ("ping", socket.SOCK_DGRAM)):
    attempt(f"icmp {name}", lambda: ping(socket.AF_INET, "1.1.1.1", kind, socket.IPPROTO_ICMP))
    attempt(f"icmp {name} v6", lambda: ping(socket.AF_INET6, "2001:db8::1", kind, socket.IPPROTO_ICMPV6))
attempt("icmp raw, whole packets", lambda: ping(socket.AF_INET, "1.1.1.1", socket.SOCK_RAW, socket.IPPROTO_RAW))
attempt("sctp", lambda: tcp(socket.AF_INET, "1.1.1.1", protocol=IPPROTO_SCTP))
attempt("dccp", lambda: ping(socket.AF_INET, "1.1.1.1", 6, IPPROTO_DCCP))
