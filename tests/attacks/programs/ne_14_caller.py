# Calls a neighbour that listens on everything, by every address two machines in one network could have.
import os
import socket
import struct
from attack import attempt

PORT = 8001


def tcp(family, address):
    with socket.socket(family) as s:
        s.settimeout(1)
        s.connect(address)


def udp(family, address, device=None):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if device:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
        s.sendto(b"hello", address)


def group(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        s.sendto(b"hello", (address, PORT))


def local(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)


for host in ("127.0.0.1", "0.0.0.0", "127.0.0.2"):
    attempt(f"loopback {host}", tcp, socket.AF_INET, (host, PORT))
    # Datagrams to an own address where nobody listens vanish.
    attempt(f"datagram {host}", udp, socket.AF_INET, (host, PORT))
for host in ("::1", "::"):
    attempt(f"loopback {host}", tcp, socket.AF_INET6, (host, PORT))
    attempt(f"datagram {host}", udp, socket.AF_INET6, (host, PORT))
for host in ("10.0.0.2", "172.17.0.2", "172.17.0.3", "192.168.0.2", "169.254.1.2", "100.64.0.2", "192.0.2.1"):
    attempt(f"lan {host}", tcp, socket.AF_INET, (host, PORT))
for host in ("fd00::2", "2001:db8::2"):
    attempt(f"lan {host}", tcp, socket.AF_INET6, (host, PORT))
attempt("link local", tcp, socket.AF_INET6, ("fe80::2", PORT, 0, 1))
attempt("broadcast", udp, socket.AF_INET, ("255.255.255.255", PORT))
attempt("broadcast of loopback", udp, socket.AF_INET, ("127.255.255.255", PORT))
attempt("broadcast of lo", udp, socket.AF_INET, ("255.255.255.255", PORT), b"lo\0")
attempt("group 239.1.2.3", group, "239.1.2.3")
attempt("group 224.0.0.1", group, "224.0.0.1")
attempt("group ff02::1", udp, socket.AF_INET6, ("ff02::1", PORT, 0, 1))
attempt("spoofed arp", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0806).close())
attempt("abstract", local, "\0neighbour")
attempt("path", local, "/tmp/neighbour.sock")
attempt("shared path", local, "/dev/shm/neighbour.sock")
# The same port is free here, whoever has it elsewhere.
attempt("same port", lambda: socket.create_server(("0.0.0.0", PORT)).close())
