# Prints every name and number by which a machine, its owner or its place could be told from another.
import locale
import os
import platform
import pwd
import socket
import time
import uuid
from attack import attempt


def read(path):
    with open(path, errors="replace") as file:
        text = file.read(100000)
    # An attempt is cut, and what is looked for may lie behind the cut.
    print(text)
    return text.strip() or "empty"


for path in (
    "/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostid", "/proc/sys/kernel/random/boot_id",
    "/etc/hostname", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/etc/hosts", "/etc/resolv.conf",
    "/etc/passwd", "/etc/group", "/etc/subuid", "/etc/fstab", "/etc/mtab", "/etc/timezone", "/etc/localtime",
    "/etc/locale.conf", "/etc/default/locale", "/etc/motd", "/etc/issue", "/etc/machine-info", "/run/machine-id",
    "/etc/ssh/ssh_host_ed25519_key.pub", "/etc/krb5.conf", "/etc/ld.so.preload", "/proc/self/mountinfo",
    "/proc/self/mountstats", "/proc/self/mounts", "/proc/self/cgroup", "/proc/cmdline",
):
    attempt(f"file {path}", read, path)
for name in ("product_uuid", "product_serial", "board_serial", "sys_vendor", "product_name", "bios_version"):
    attempt(f"dmi {name}", read, f"/sys/class/dmi/id/{name}")
for path in ("/sys/class/net", "/dev/disk/by-uuid", "/home", "/root", "/var/lib", "/var/log", "/media", "/mnt", "/srv"):
    attempt(f"list {path}", lambda: os.listdir(path) or "empty")
attempt("mac of interfaces", lambda: [read(f"/sys/class/net/{n}/address") for _, n in socket.if_nameindex()])
attempt("mac as uuid takes it", lambda: "made up" if uuid.getnode() >> 40 & 1 else hex(uuid.getnode()))
attempt("uname", lambda: " ".join(platform.uname()[:2]))
attempt("hostid", lambda: hex(__import__("ctypes").CDLL(None).gethostid() & 0xFFFFFFFF))
attempt("fqdn", socket.getfqdn)
attempt("user", lambda: "%s %s %s" % (pwd.getpwuid(os.getuid()).pw_name, os.getuid(), os.getgroups()))
attempt("users", lambda: ",".join(entry.pw_name for entry in pwd.getpwall()))
attempt("home", os.path.expanduser, "~")
attempt("time zone", lambda: "%s %s" % (time.tzname, time.timezone))
attempt("locale", lambda: "%s %s" % (locale.setlocale(locale.LC_ALL, ""), os.environ.get("LANG")))
attempt("working directory", os.getcwd)
attempt("terminal", lambda: os.ttyname(0))
attempt("session", lambda: os.getsid(0) == os.getpid())
