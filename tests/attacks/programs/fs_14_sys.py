# Looks for /sys and for control groups under any name, by which the host's root could be made to run a program.
# Files are only opened, nothing is written to them.
import ctypes
import os
from attack import attempt, libc, report

FILES = [
    "/sys/kernel/uevent_helper", "/sys/kernel/uevent_seqnum", "/sys/kernel/profiling",
    "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/debug/sched/features",
    "/sys/kernel/tracing/trace", "/sys/kernel/security/lsm", "/sys/power/state", "/sys/fs/cgroup/release_agent",
    "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/pids/release_agent",
    "/sys/fs/cgroup/devices/devices.allow", "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs", "/sys/fs/cgroup/pids/tasks",
    "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/freezer/freezer.state", "/sys/fs/cgroup/cgroup.kill",
    "/sys/fs/cgroup/cgroup.freeze", "/sys/fs/bpf/x", "/sys/fs/pstore/x", "/sys/firmware/efi/efivars/x",
    "/sys/class/net/lo/mtu", "/sys/block/vda/queue/scheduler", "/sys/devices/system/cpu/cpu1/online",
    "/sys/module/kernel/parameters/panic", "/sys/bus/pci/rescan", "/sys/class/dmi/id/product_uuid",
    "/cgroup/release_agent", "/run/cgroup/release_agent", "/dev/cgroup/release_agent",
]
NAMES = {"release_agent", "notify_on_release", "cgroup.procs", "devices.allow", "uevent_helper", "cgroup.kill",
    "tasks.limit"}


def opened(path, flags):
    os.close(os.open(path, flags))


def mounted(kind, options=None):
    os.makedirs("/tmp/cg", exist_ok=True)
    if libc.mount(kind, b"/tmp/cg", kind, ctypes.c_ulong(0), options) == -1:
        raise OSError(ctypes.get_errno(), "")


for path in FILES:
    attempt(f"write {path}", opened, path, os.O_WRONLY)
    attempt(f"read {path}", opened, path, os.O_RDONLY)
for path in ("/sys", "/sys/fs/cgroup", "/sys/kernel/debug", "/sys/kernel", "/cgroup"):
    attempt(f"list {path}", lambda: " ".join(os.listdir(path)) or "empty")
    attempt(f"make {path}/x", os.mkdir, path + "/x")
for options in (b"rdma", b"memory", b"none,name=x"):
    attempt(f"mount cgroup {options.decode()}", mounted, b"cgroup", options)
for kind in (b"sysfs", b"cgroup2", b"debugfs", b"tracefs"):
    attempt(f"mount {kind.decode()}", mounted, kind)

found, looked = [], 0
for base, dirs, files in os.walk("/"):
    dirs[:] = [d for d in dirs if os.path.join(base, d) != "/usr" and not (base == "/proc" and d.isdigit())]
    looked += len(files)
    if looked > 50000:
        break
    found += [os.path.join(base, name) for name in NAMES.intersection(files)]
report("files that steer control groups", " ".join(found) or "none")
lines = [line.split() for line in open("/proc/self/mountinfo")]
kinds = {line[line.index("-") + 1] for line in lines}
kinds &= {"sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "configfs"}
report("file systems of the kernel", " ".join(sorted(kinds)) or "none")
