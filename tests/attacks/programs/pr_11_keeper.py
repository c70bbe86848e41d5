# Looks for the process that keeps the memory of a copied interpreter, which is there only for the first milliseconds, and
# so before anything else is loaded.
import os
import signal

answers = []


def attempt(name, function, *args):
    try:
        answers.append((name, function(*args)))
    except OSError as error:
        answers.append((name, error.errno))


ANY_CHILD = 0x40000000
attempt("is there", lambda: os.waitid(os.P_PID, 3, os.WEXITED | os.WNOHANG | os.WNOWAIT | ANY_CHILD) or "there")
attempt("an ordinary wait", lambda: os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG))
for number in (0, signal.SIGSTOP, signal.SIGUSR1, signal.SIGKILL):
    attempt("signal %d" % number, os.kill, 3, number)
attempt("signal by handle", lambda: signal.pidfd_send_signal(os.pidfd_open(3), signal.SIGKILL))
for name in ("", "mem", "maps", "fd", "root", "stat", "environ"):
    attempt("look at " + (name or "all"), os.listdir if name in ("", "fd") else os.stat, "/proc/3/" + name)
attempt("is still there", lambda: os.waitid(os.P_PID, 3, os.WEXITED | os.WNOHANG | os.WNOWAIT | ANY_CHILD) or "there")

import errno

refusal = errno.ESRCH if answers[0][1] == errno.ECHILD else errno.EPERM
for name, answer in answers:
    if name.startswith("signal") and answer == refusal:
        answer = "refused"
    if type(answer) is os.waitid_result:
        answer = "gone"
    answer = errno.errorcode.get(answer, answer) if type(answer) is int else answer
    print("attempt\t%s\t%s" % (name, "ok" if answer is None else answer))
