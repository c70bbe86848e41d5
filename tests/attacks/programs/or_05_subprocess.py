# Other programs: pipelines, input and output, environments, groups, sessions, signals, time-outs, big data.
import os, shlex, signal, subprocess, sys, time

assert subprocess.check_output("seq 1000 | grep 7 | wc -l", shell=True) == b"271\n"
first = subprocess.Popen(["seq", "100000"], stdout=subprocess.PIPE)
second = subprocess.Popen(["sort", "-rn"], stdin=first.stdout, stdout=subprocess.PIPE)
first.stdout.close()
assert second.communicate()[0].startswith(b"100000\n99999\n") and first.wait() == 0

big = os.urandom(5_000_000)
assert subprocess.run(["cat"], input=big, capture_output=True).stdout == big
assert subprocess.run(["env"], env={"A": "b c"}, capture_output=True, text=True).stdout == "A=b c\n"
assert subprocess.run(["pwd"], cwd="/usr", capture_output=True, text=True).stdout == "/usr\n"

sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
os.killpg(sleeper.pid, signal.SIGTERM)
assert sleeper.wait() == -signal.SIGTERM
begun = time.monotonic()
try:
    subprocess.run(["sleep", "60"], timeout=0.1)
    raise AssertionError
except subprocess.TimeoutExpired:
    assert time.monotonic() - begun < 50

caught = subprocess.run(["sh", "-c", "trap 'echo caught; exit 4' TERM; kill $$; sleep 1"], capture_output=True)
assert (caught.returncode, caught.stdout) == (4, b"caught\n")
many = [subprocess.Popen([sys.executable, "-c", f"raise SystemExit({n})"]) for n in range(10)]
assert [process.wait() for process in many] == list(range(10))
assert os.system("exit 3") >> 8 == 3 and shlex.split("a 'b c'") == ["a", "b c"]
assert os.posix_spawn("/bin/true", ["true"], os.environ) and os.wait()[1] == 0
with os.popen("nproc") as output:
    assert int(output.read()) >= 1
print("done")
