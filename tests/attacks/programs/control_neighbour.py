"""Kills a neighbour, or stops one for a while."""

import os
import signal
import sys
import time

from control import of_neighbour

pid = of_neighbour()
if sys.argv[1] == "kill":
    os.kill(pid, signal.SIGKILL)
else:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(2)
    os.kill(pid, signal.SIGCONT)
print("done")
