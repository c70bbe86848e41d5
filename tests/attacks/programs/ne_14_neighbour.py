# Listens on everything a sandbox can listen on, and tells of everybody who comes. Runs beside the attacker.
import ctypes
import fcntl
import select
import socket
import struct

GROUP = "239.1.2.3"
poll = select.poll()
sockets = {}


def listen(name, s, address):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(address)
    if s.type != socket.SOCK_DGRAM:
        s.listen()
    poll.register(s, select.POLLIN)
    sockets[s.fileno()] = (name, s)


listen("tcp", socket.socket(socket.AF_INET), ("0.0.0.0", 8001))
six = socket.socket(socket.AF_INET6)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
listen("tcp6", six, ("::", 8001))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
# A sandbox has no route for groups; it joins on its only interface.
udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("=4s4s", socket.inet_aton(GROUP), socket.inet_aton("127.0.0.1")))
listen("udp", udp, ("0.0.0.0", 8001))
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
listen("udp6", six, ("::", 8001))
listen("abstract", socket.socket(socket.AF_UNIX), "\0neighbour")
listen("path", socket.socket(socket.AF_UNIX), "/tmp/neighbour.sock")
listen("shared path", socket.socket(socket.AF_UNIX), "/dev/shm/neighbour.sock")

# Things that are named, for whoever knows the name.
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0x5EED, 4096, 0o1666)
ctypes.memset(libc.shmat(segment, None, 0), 65, 4096)
libc.semget(0x5EED, 1, 0o1666)
libc.msgget(0x5EED, 0o1666)
for place in ("/tmp", "/var/tmp", "/run", "/dev/shm", "/workspace", "/build"):
    with open(f"{place}/of-the-neighbour", "w") as file:
        file.write("neighbour")

# A lock and a habit on a file that every sandbox sees.
shared = open("/usr/bin/env", "rb")
fcntl.flock(shared, fcntl.LOCK_EX)
fcntl.lockf(shared, fcntl.LOCK_SH)

# It can be reached by itself, so these are good listeners.
socket.create_connection(("127.0.0.1", 8001)).close()
assert poll.poll(1000) and sockets[poll.poll(0)[0][0]][0] == "tcp"
sockets[next(iter(sockets))][1].accept()[0].close()
print("ready", flush=True)
while True:
    open("/usr/bin/env", "rb").read(1)
    for fd, _ in poll.poll(20):
        name, s = sockets[fd]
        if s.type == socket.SOCK_DGRAM:
            s.recv(100)
        else:
            s.accept()[0].close()
        print("hit", name, flush=True)
