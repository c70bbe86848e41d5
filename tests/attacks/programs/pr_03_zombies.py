# Floods the box with processes that have ended and that nobody asks about. Those of a parent that is gone are
# PID 1's to bury, at once; the last ones are left behind.
import os
import sys
import time
from attack import attempt, report

LIMIT = int(sys.argv[1])


def flood(most=3000):
    """Children that end at once and are not waited for, until there can be no more."""
    for made in range(most):
        try:
            if os.fork() == 0:
                os._exit(0)
        except OSError as error:
            return made, error
    return most, None


def by_a_parent_that_leaves():
    if os.fork() == 0:
        flood()
        os._exit(0)
    os.wait()
    deadline = time.monotonic() + 1
    while (left := zombies()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return f"{left} left" if left else "all buried"


def zombies():
    found = 0
    for name in os.listdir("/proc"):
        try:
            found += name.isdigit() and open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            pass
    return found


for round in range(5):
    attempt(f"round {round}", by_a_parent_that_leaves)
made, error = flood()
report("one's own", "refused" if error else f"never refused, {made}")
deadline = time.monotonic() + 1
while (seen := zombies()) <= LIMIT // 2 and time.monotonic() < deadline:
    # Some are still about to end, and some of the last round may have kept out others.
    time.sleep(0.01)
    flood()
report("seen", "many" if seen > LIMIT // 2 else seen)
# Ends without a word to any of them.
