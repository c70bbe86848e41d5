"""Starts the zygote with the trial library and has programs run in children of it, or by the bare interpreter."""

import array
import json
import os
import select
import shutil
import socket
import subprocess
import sys

READY = b"\x06"
PRELOAD = """
    abc argparse ast asyncio base64 bisect collections concurrent.futures contextlib copy csv ctypes dataclasses
    datetime decimal enum fractions functools hashlib heapq hmac inspect io itertools json logging math
    multiprocessing numbers operator os pathlib pickle platform queue random re secrets select selectors shlex
    shutil signal socket sqlite3 ssl statistics string struct subprocess tempfile textwrap threading time traceback
    types typing unicodedata unittest urllib.parse uuid warnings weakref zlib
""".split()
# Uses the random states, too, so that children would share them if nothing was done about it
WARM_UP = """
import random, uuid, tempfile, sqlite3, secrets, json, re, platform, ssl
random.random(), uuid.uuid4(), uuid.uuid1(), tempfile.mktemp(), secrets.token_hex(), platform.uname()
ssl.RAND_bytes(8)
sqlite3.connect(":memory:").execute("select random()").fetchall()
exec(compile("def f(a, *b):\\n    return [a, *b]\\nprint(f(1, 2), json.dumps({'a': [1]}), re.sub('a', 'b', 'aa'))", "x", "exec"))
print("nobody reads this", file=__import__("sys").stderr)
"""


class Outcome:
    """What can be seen of a program from outside."""

    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __str__(self):
        return f"status {self.status}\n--- stdout\n{self.stdout.decode(errors='replace')}\n--- stderr\n{self.stderr.decode(errors='replace')}"


def environment(variables=()):
    base = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**base, **dict(variables)}


def rehearsal(program):
    body = b"." + program.encode()
    return b"%08x" % len(body) + body


def header(arguments, variables):
    strings = [str(len(arguments)), *arguments, *(f"{name}={value}" for name, value in variables.items())]
    body = b"".join(os.fsencode(string) + b"\0" for string in strings)
    return b"%08x" % len(body) + body


class Zygote:
    def __init__(self, python, library, preload=(), warm_up="", variables=(), threads="1", rehearsal=None):
        self.python, self.variables = python, environment(variables)
        self.rehearsal = warm_up if rehearsal is None else rehearsal
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = json.dumps({"preload": list(preload), "warm_up": [warm_up]})
        self.process = subprocess.Popen(
            [python, "main.py"],
            env={**self.variables, "LD_PRELOAD": library, "SANDBOXD_ZYGOTE": settings, "LD_BIND_NOW": "1",
                 "OPENBLAS_NUM_THREADS": threads},
            stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        theirs.close()
        self.socket = ours

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.said = self.process.stderr.read().decode()
        self.code = self.process.wait(10)
        self.process.stderr.close()

    def child(self, directory, closed_stdout=False):
        return Child(self, directory, closed_stdout)

    def branch(self, preload=(), warm_up=""):
        return Branch(self, preload, warm_up)


class Branch(Zygote):
    """A copy of a zygote that has loaded more."""

    def __init__(self, parent, preload, warm_up):
        self.python, self.variables, self.rehearsal = parent.python, parent.variables, warm_up
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = json.dumps({"preload": list(preload), "warm_up": [warm_up]})
        parent.socket.sendmsg(
            [settings.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()] * 4))])
        theirs.close()
        if not parent.socket.recv(8):
            raise RuntimeError("the zygote is gone")

    def __exit__(self, *_):
        self.socket.close()
        self.said = ""


class Child:
    """A child of the zygote. After this it is ready, unless it has not become so."""

    def __init__(self, zygote, directory, closed_stdout=False):
        self.zygote = zygote
        inputs, outputs, errors, report = os.pipe(), os.pipe(), os.pipe(), os.pipe()
        theirs = [inputs[0], outputs[1], errors[1], report[1]]
        zygote.socket.sendmsg(
            [os.fsencode(directory)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", theirs))])
        answer = zygote.socket.recv(8)
        if not answer:
            zygote.__exit__()
            raise RuntimeError("the zygote is gone: " + zygote.said)
        self.fork_ns = int.from_bytes(answer, sys.byteorder)
        for fd in theirs:
            os.close(fd)
        os.write(inputs[1], rehearsal(zygote.rehearsal))
        self.stdin, self.stdout, self.stderr, self.report = inputs[1], outputs[0], errors[0], report[0]
        self.pid = int.from_bytes(os.read(self.report, 4), sys.byteorder)
        self.ready = os.read(self.stdout, 1)
        if closed_stdout:
            os.close(self.stdout)
            self.stdout = os.open("/dev/null", os.O_RDONLY)

    def run(self, arguments=("main.py",), stdin=b"", variables=None):
        variables = self.zygote.variables if variables is None else variables
        return self.finish(header(arguments, variables) + stdin)

    def finish(self, sent=b""):
        """Sends this and nothing more, and waits for the end."""
        poll = select.poll()
        got = {self.stdout: [], self.stderr: []}
        for fd in got:
            poll.register(fd, select.POLLIN)
        os.set_blocking(self.stdin, False)
        poll.register(self.stdin, select.POLLOUT)
        open_fds = {self.stdout, self.stderr, self.stdin}
        while open_fds:
            for fd, _ in poll.poll(60_000) or [(None, None)]:
                if fd is None:
                    raise TimeoutError("a child does not end")
                if fd == self.stdin:
                    try:
                        sent = sent[os.write(fd, sent):] if sent else sent
                    except BrokenPipeError:
                        sent = b""
                    if sent:
                        continue
                elif data := os.read(fd, 65536):
                    got[fd].append(data)
                    continue
                poll.unregister(fd)
                open_fds.discard(fd)
                os.close(fd)
        status = os.waitstatus_to_exitcode(int.from_bytes(os.read(self.report, 4), sys.byteorder))
        os.close(self.report)
        return Outcome(status, b"".join(got[self.stdout]), b"".join(got[self.stderr]))


def run_bare(python, directory, arguments=("main.py",), stdin=b"", variables=(), closed_stdout=False):
    process = subprocess.Popen([python, *arguments], cwd=directory, env=environment(variables),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    if closed_stdout:
        process.stdout.close()
        stderr = process.stderr.read()
        process.stdin.close()
        return Outcome(process.wait(60), b"", stderr)
    stdout, stderr = process.communicate(stdin, 60)
    return Outcome(process.returncode, stdout, stderr)


def furnish(directory, files):
    """Makes the working directory anew, with these files and an empty main file."""
    shutil.rmtree(directory, ignore_errors=True)
    for name, content in {"main.py": "", **files}.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
