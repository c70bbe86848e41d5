"""Compares warm children with the bare interpreter, and tries what the contract promises beside that.

    differential.py LIBRARY PYTHON [part of a name]
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
import io

from programs import PROGRAMS
from zygote import PRELOAD, READY, WARM_UP, Zygote, environment, furnish, header, run_bare

failures = []


def check(name, condition, words=""):
    if not condition:
        failures.append(name)
        print(f"FAILED {name}\n{words}\n", flush=True)


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], env=environment(), capture_output=True).returncode == 0


def files_of(program):
    source = program["source"]
    if archive := program.get("archive"):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as target:
            for name, text in archive.items():
                target.writestr(name, text)
        source = packed.getvalue()
    return {"main.py": source, **program.get("files", {})}


def produced(program, directory):
    found = {}
    for name in program.get("produces", []):
        path = os.path.join(directory, name)
        found[name] = sorted(os.listdir(path)) if os.path.isdir(path) else open(path, "rb").read()
    return found


def without(pattern, outcome):
    """Leaves out addresses, and what this program cannot say twice in the same way."""
    for part in filter(None, [rb"0x[0-9a-f]{6,}", pattern]):
        outcome.stdout, outcome.stderr = (re.sub(part, b"?", text) for text in (outcome.stdout, outcome.stderr))
    return outcome


def compare(python, library, directory, only):
    code = "import sys; print(*sys.version_info[:2])"
    version = tuple(map(int, subprocess.check_output([python, "-c", code], env=environment()).split()))
    # What is loaded is loaded by a copy of one that has loaded a part of it, as large sets of modules are
    for preload, warm_up in ((), ""), (PRELOAD, WARM_UP):
        with Zygote(python, library, preload[::2]) as first, first.branch(preload, warm_up) as zygote:
            for program in PROGRAMS:
                name = program["name"]
                if only not in name or preload and "only_plain" in program:
                    continue
                if "before" in program and version >= tuple(map(int, program["before"].split("."))):
                    continue
                if "needs" in program and not has(python, program["needs"]):
                    print(f"skipped {name}: {python} has no `{program['needs']}`")
                    continue
                arguments = ["main.py", *program.get("args", [])]
                more = {"arguments": arguments, "stdin": program.get("stdin", b"")}
                closed = program.get("closed_stdout", False)
                furnish(directory, files_of(program))
                bare = run_bare(python, directory, variables=program.get("variables", {}), closed_stdout=closed, **more)
                bare_files = produced(program, directory)
                # The engine puts the files there while the child waits
                furnish(directory, {})
                child = zygote.child(directory, closed)
                for path, content in files_of(program).items():
                    path = os.path.join(directory, path)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "r+b" if os.path.exists(path) else "wb") as file:
                        file.write(content if isinstance(content, bytes) else content.encode())
                warm = child.run(variables={**zygote.variables, **program.get("variables", {})}, **more)
                pattern = program.get("forget")
                bare, warm = without(pattern, bare), without(pattern, warm)
                check(f"{name} ({'preloaded' if preload else 'plain'})", bare == warm and child.ready == READY,
                      f"====== bare\n{bare}\n====== warm\n{warm}")
                if bare_files:
                    warm_files = produced(program, directory)
                    same = [type(v) is list and len(v) or v for v in bare_files.values()] == [
                        type(v) is list and len(v) or v for v in warm_files.values()]
                    check(f"files of {name}", same, f"{bare_files}\n{warm_files}")


def contract(python, library, directory):
    """What the engine relies on."""
    furnish(directory, {"main.py": "print(1)"})
    with Zygote(python, library, ["json", "nothing_of_that_name"], "print(1)") as zygote:
        for part in b"", b"0000", header(["main.py"], {})[:-1]:
            child = zygote.child(directory)
            outcome = child.finish(part)
            check(f"hung up after {len(part)} bytes", child.ready == READY and vars(outcome) == {
                "status": 0, "stdout": b"", "stderr": b""}, outcome)
        child = zygote.child(directory)
        check("a header that is none", child.finish(b"nonsense").status == 1)
        child = zygote.child(directory)
        check("a main file elsewhere", child.run(["/nonexistent/main.py"]).stderr
              == run_bare(python, directory, ["/nonexistent/main.py"]).stderr)
    check("a missing module is reported", "`nothing_of_that_name` is left out: ModuleNotFoundError" in zygote.said,
          zygote.said)
    check("the zygote ends with its last client", zygote.code == 0, zygote.code)
    # Slow pieces
    with Zygote(python, library) as zygote:
        child = zygote.child(directory)
        for byte in header(["main.py"], zygote.variables):
            os.write(child.stdin, bytes([byte]))
        check("a header byte by byte", child.finish().stdout == b"1\n")
    contract_of_branches(python, library, directory)
    furnish(directory, {"spawns.py": "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()"})
    for what, settings, words in [
        ("a thread", {"preload": ["spawns"]}, "`spawns` has started threads"),
        ("a thread of a warm-up", {"warm_up": "import spawns"}, "`the warm-up` has started threads"),
    ]:
        with Zygote(python, library, variables={"PYTHONPATH": directory, "HOME": "/"}, **settings) as zygote:
            zygote.socket.recv(1)
        check(f"{what} is refused", zygote.code == 1 and words in zygote.said, zygote.said)
    furnish(directory, {"main.py": "print(1)"})
    with Zygote(python, library, warm_up="1/0", rehearsal="") as zygote:
        check("a bad warm-up is left out", zygote.child(directory).run().stdout == b"1\n")
    check("and told", "a warm-up is left out: ZeroDivisionError" in zygote.said, zygote.said)


def contract_of_branches(python, library, directory):
    """A copy has what its original has, and more, and needs it no longer. Rehearsals are a matter of children."""
    code = "import sys\nprint('colorsys' in sys.modules, 'wave' in sys.modules, getattr(sys, 'rehearsed', None))"
    furnish(directory, {"main.py": code})
    mark = "import sys, os\nsys.rehearsed = getattr(sys, 'rehearsed', 0) + 1\nopen('mark', 'a').write('x')"
    with Zygote(python, library, ["colorsys"], variables={"PYTHONHASHSEED": "random"}) as zygote:
        with zygote.branch(["wave"]) as branch, branch.branch(["sndhdr"]) as last:
            check("an original stays as it is", zygote.child(directory).run().stdout == b"True False None\n")
            check("a copy has more", branch.child(directory).run().stdout == b"True True None\n")
            last.rehearsal = mark
            for _ in range(2):
                check("a rehearsal is each child's own", last.child(directory).run().stdout == b"True True 1\n")
            check("and is run in children alone", open(os.path.join(directory, "mark")).read() == "xx")
            last.rehearsal = "raise SystemExit(1)"
            check("a rehearsal that fails", last.child(directory).run().stdout == b"True True None\n")
            zygote.process.kill()
            zygote.process.wait(10)
            check("a copy survives its original", last.child(directory).run().stdout == b"True True None\n")
    # The home of the interpreter is nobody's installation
    version = subprocess.check_output([python, "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"], text=True)
    site = os.path.join(directory, ".local/lib", version.strip(), "site-packages")
    furnish(directory, {os.path.join(site, "planted.py"): f"open({directory!r} + '/planted', 'w')"})
    with Zygote(python, library, ["planted"], variables={"HOME": directory}) as zygote:
        zygote.child(directory).run()
    check("no module comes from a home", "`planted` is left out: ModuleNotFoundError" in zygote.said
          and not os.path.exists(os.path.join(directory, "planted")), zygote.said)


DIFFERENT = """
import random, uuid, secrets, tempfile, os, sys, sqlite3, ssl, multiprocessing
print(random.random())
print(uuid.uuid4())
print(uuid.uuid1())
print(secrets.token_hex())
print(tempfile.mktemp())
print(sqlite3.connect(":memory:").execute("select random()").fetchall())
print(ssl.RAND_bytes(8))
print(bytes(multiprocessing.current_process().authkey))
print(random.SystemRandom().random())
if "numpy" in sys.modules:
    import numpy
    print(numpy.random.rand())
    print(numpy.random.default_rng().random())
"""


def difference(python, library, directory, count=200):
    """No two children draw the same lot, whatever the zygote has drawn."""
    furnish(directory, {"main.py": DIFFERENT})
    numpy = ["numpy"] if has(python, "numpy") else []
    warm_up = WARM_UP + ("import numpy\nnumpy.random.rand()" if numpy else "")
    with Zygote(python, library, PRELOAD, WARM_UP) as first, first.branch(PRELOAD + numpy, warm_up) as zygote:
        drawn = [zygote.child(directory).run() for _ in range(count)]
    lines = [outcome.stdout.splitlines() for outcome in drawn]
    check("children draw lots", all(len(line) == 9 + 2 * len(numpy) for line in lines), drawn[0])
    for number, column in enumerate(zip(*lines)):
        check(f"lot {number} differs", len(set(column)) == count, f"{len(set(column))} of {count}: {column[:3]}")


def main():
    library, python = os.path.abspath(sys.argv[1]), sys.argv[2]
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    with tempfile.TemporaryDirectory() as temporary:
        directory = os.path.join(os.path.realpath(temporary), "workspace")
        compare(python, library, directory, only)
        if not only:
            contract(python, library, directory)
            difference(python, library, directory)
    print(f"{len(PROGRAMS)} programs, {len(failures)} failures: {failures}")
    sys.exit(bool(failures))


main()
