# Reads the parts of /proc that tell of the kernel and the host, and those that programs need.
import os
from attack import attempt

CLOSED = """acpi asound bootconfig buddyinfo cgroups cmdline config.gz consoles crypto devices diskstats dma driver
execdomains fb fs interrupts iomem ioports kallsyms kcore key-users keys kmsg kpagecgroup kpagecount kpageflags
latency_stats locks misc modules mtrr pagetypeinfo partitions sched_debug schedstat scsi slabinfo softirqs swaps
timer_list tty vmallocinfo vmstat zoneinfo version_signature bus irq sysrq-trigger""".split()
OPEN = "cpuinfo meminfo stat uptime loadavg".split()


def content(path):
    """What a file holds, or all files below a directory together; `empty` when nothing."""
    if not os.path.isdir(path):
        with open(path, "rb") as file:
            data = file.read(4096)
        return f"{len(data)} bytes: {data[:60]!r}" if data.strip() else "empty"
    found = []
    for folder, directories, files in os.walk(path):
        found += [os.path.join(folder, name) for name in directories + files]
    return f"{len(found)} entries: {found[:3]}" if found else "empty"


def meminfo():
    lines = dict(line.split(":") for line in open("/proc/meminfo"))
    kilobytes = {name: int(value.split()[0]) for name, value in lines.items()}
    assert kilobytes["MemFree"] <= kilobytes["MemTotal"] and kilobytes.get("SwapTotal", 0) == 0
    return f"{kilobytes['MemTotal']} kB"


for name in CLOSED:
    attempt(f"closed {name}", content, f"/proc/{name}")
for name in OPEN:
    attempt(f"open {name}", lambda: len(open(f"/proc/{name}").read()) > 10)
attempt("memory as told", meminfo)
# The same by a call that is no file.
attempt("sysconf", lambda: os.sysconf("SC_NPROCESSORS_ONLN") >= 1)
# What the kernel tells of itself beside /proc.
for path in ("/sys", "/sys/kernel/debug", "/sys/kernel/security", "/sys/firmware", "/sys/class/dmi/id", "/boot", "/lib/modules"):
    attempt(f"beside {path}", content, path)
