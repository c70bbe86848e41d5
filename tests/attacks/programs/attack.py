"""What the Python programs of the attack suite share.

A program tries things and prints one line for each: `attempt<TAB>NAME<TAB>ANSWER`. The answer is an errno name
(`EPERM`), `ok`, `killed SIGSYS`, or whatever value came back. What is allowed is decided outside, by the
case.
"""

import ctypes
import errno
import os
import signal

libc = ctypes.CDLL(None, use_errno=True)


def report(name, answer):
    """Prints one line in one write, so that forks and kills cannot tear or double it."""
    line = "attempt\t%s\t%s\n" % (_flat(name, 200), _flat(answer, 2000))
    data = line.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(1, data):]


def attempt(name, function, *args):
    """Does it and prints what came of it. Returns the answer."""
    answer = _answer(function, args)
    report(name, answer)
    return answer


def in_child(name, function, *args):
    """The same in a forked child, whose death by a signal is an answer too."""
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        report(name, "fork " + errno_name(error.errno))
        return None
    if pid == 0:
        try:
            os.write(writer, _answer(function, args).encode("utf-8", "backslashreplace")[:4000])
        finally:
            os._exit(0)
    os.close(writer)
    status = os.waitpid(pid, 0)[1]
    os.set_blocking(reader, False)
    try:
        said = os.read(reader, 4096).decode()
    except BlockingIOError:
        said = ""
    os.close(reader)
    if os.WIFSIGNALED(status):
        answer = "killed " + signal_name(os.WTERMSIG(status))
    else:
        answer = said or "exit %d" % os.WEXITSTATUS(status)
    report(name, answer)
    return answer


def syscall(number, *args):
    """A raw system call. Returns its result, or raises OSError."""
    ctypes.set_errno(0)
    libc.syscall.restype = ctypes.c_long
    result = libc.syscall(ctypes.c_long(number), *[_word(arg) for arg in args])
    if result == -1:
        raise OSError(ctypes.get_errno(), "syscall %d" % number)
    return result


def errno_name(number):
    return errno.errorcode.get(number, "errno %s" % number)


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def _answer(function, args):
    try:
        value = function(*args)
    except OSError as error:
        # Errors of the resolver and time-outs are OSErrors without an errno.
        return errno_name(error.errno) if error.errno in errno.errorcode else type(error).__name__
    except BaseException as error:
        return type(error).__name__
    return "ok" if value is None or value is True else str(value)


def _word(arg):
    # Plain integers would be cut to 32 bits; None, bytes and ctypes values go as they are.
    return ctypes.c_long(arg) if isinstance(arg, int) else arg


def _flat(text, most):
    return str(text).replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")[:most]
