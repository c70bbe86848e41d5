# Calls the ports the host listens on, under every name and number this machine may answer to.
import os
import socket
import struct
from attack import attempt


def listener(variable):
    host, port = os.environ[variable].rsplit(":", 1)
    return host.strip("[]"), int(port)


def tcp(family, host, port):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(2)
        s.connect((host, port))


def udp(family, host, port):
    # The refusal of a connected datagram comes with the second word.
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(0.2)
        s.connect((host, port))
        s.send(b"x")
        s.send(b"x")
        s.recv(1)


def by_name(name, port):
    for family, kind, protocol, _, address in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, protocol) as s:
            s.settimeout(2)
            s.connect(address)


def gateways():
    # Where a container would look for its host: the first address of the nets that engines use, and routes.
    yield from ("172.17.0.1", "172.18.0.1", "192.168.0.1", "192.168.1.1", "192.168.65.2", "10.0.2.2", "10.88.0.1", "100.64.0.1")
    for line in open("/proc/net/route").readlines()[1:]:
        yield socket.inet_ntoa(struct.pack("<L", int(line.split()[2], 16)))


(v4, port), (v6, port6), (lan, lan_port) = map(listener, ("ATTACK_TCP4", "ATTACK_TCP6", "ATTACK_LAN"))
dns, dns_port = listener("ATTACK_DNS")
for host in (v4, "127.0.0.2", "127.255.255.254", "0.0.0.0"):
    attempt(f"loopback {host}", tcp, socket.AF_INET, host, port)
for host in (v6, "::", "::ffff:127.0.0.1", "::ffff:0:0"):
    attempt(f"loopback {host}", tcp, socket.AF_INET6, host, port6)
    attempt(f"loopback {host}, other port", tcp, socket.AF_INET6, host, port)
attempt("lan", tcp, socket.AF_INET, lan, lan_port)
attempt("lan, mapped", tcp, socket.AF_INET6, "::ffff:" + lan, lan_port)
for host in sorted(set(gateways())):
    attempt(f"gateway {host}", tcp, socket.AF_INET, host, port)
for name in ("localhost", "ip6-localhost", "sandbox"):
    attempt(f"own name {name}", by_name, name, port)
for name in ("host.docker.internal", "gateway.docker.internal", "host.containers.internal", "kubernetes.default.svc", "_gateway"):
    attempt(f"foreign name {name}", by_name, name, port)
for host in (dns, "127.0.0.53", "127.0.0.54"):
    attempt(f"dns {host}", udp, socket.AF_INET, host, dns_port)
    attempt(f"dns {host}:53", udp, socket.AF_INET, host, 53)
# Every port of the host's loopback, in case there are more.
found = []
for any_port in range(1, 65536):
    s = socket.socket()
    if s.connect_ex(("127.0.0.1", any_port)) == 0 and s.getsockname() != s.getpeername():
        found.append(any_port)
    s.close()
attempt("open ports of 127.0.0.1", lambda: len(found))
