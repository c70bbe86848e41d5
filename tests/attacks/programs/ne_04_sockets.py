# Looks for sockets of the host: those without a name in the file system, and those with one.
import os
import socket
from attack import attempt

KINDS = {"stream": socket.SOCK_STREAM, "dgram": socket.SOCK_DGRAM, "seqpacket": socket.SOCK_SEQPACKET}
PATHS = [
    os.environ["ATTACK_SOCKET"], "/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
    "/run/podman/podman.sock", "/run/crio/crio.sock", "/run/dbus/system_bus_socket", "/run/systemd/private",
    "/run/systemd/journal/socket", "/run/systemd/notify", "/run/nscd/socket", "/var/run/nscd/socket",
    "/run/udev/control", "/run/acpid.socket", "/run/snapd.socket", "/dev/log", "/tmp/.X11-unix/X0",
    "/run/sandboxd/admin.sock", "/run/lvm/lvmpolld.socket", "/run/uuidd/request",
]


def connect(kind, address):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.settimeout(2)
        s.connect(address)


def send(address):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", address)


def listed():
    """Sockets of others in the kernel's own list, which belongs to a network namespace."""
    return len(open("/proc/net/unix").readlines()) - 1


def through_own_root(path):
    for root in ("/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../../..", "/proc/thread-self/root"):
        try:
            connect(socket.SOCK_STREAM, root + path)
            return root
        except OSError as error:
            last = error
    raise last


name = os.environ["ATTACK_ABSTRACT"].lstrip("@\0")
for kind, number in KINDS.items():
    attempt(f"abstract {kind}", connect, number, "\0" + name)
    # Addresses of abstract sockets are compared to their last byte: with and without a final zero.
    attempt(f"abstract {kind}, with a zero", connect, number, "\0" + name + "\0")
    attempt(f"path {kind}", connect, number, os.environ["ATTACK_SOCKET"])
attempt("abstract datagram", send, "\0" + name)
for shim in ("/containerd-shim/moby/x/shim.sock", "/tmp/dbus-x", "/tmp/.X11-unix/X0", "/org/kernel/linux/storage/multipathd"):
    attempt(f"abstract {shim}", connect, socket.SOCK_STREAM, "\0" + shim)
for path in PATHS[1:]:
    attempt(f"well known {path}", connect, socket.SOCK_STREAM, path)
for path in PATHS[:2]:
    attempt(f"through proc {os.path.basename(path)}", through_own_root, path)
attempt("sockets in the list", listed)
