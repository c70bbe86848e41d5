# Installs packages below a directory, and tells what is there. Runs in a sandbox of its own, which has a network.

import importlib.metadata
import importlib.util
import json
import subprocess
import sys

NO_PIP, FAILED = 64, 65

asked = json.load(sys.stdin)
if importlib.util.find_spec("pip") is None:
    sys.exit(NO_PIP)
command = [sys.executable, "-I", "-m", "pip", "--isolated", "install", "--target", asked["target"]]
command += ["--no-compile", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
command += ["--no-warn-script-location", "--progress-bar", "off", "--quiet"]
if asked["wheels_only"]:
    command += ["--only-binary", ":all:"]
if asked["index"]:
    command += ["--index-url", asked["index"]]
if asked["trusted_host"]:
    command += ["--trusted-host", asked["trusted_host"]]
# Whatever a package says while it is built goes where complaints go: our own output is the answer.
done = subprocess.run(command + asked["requirements"], stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno())
if done.returncode:
    sys.exit(FAILED)
found = importlib.metadata.distributions(path=[asked["target"]])
found = sorted({(one.metadata["Name"], one.version) for one in found})
json.dump([{"name": name, "version": version} for name, version in found], sys.stdout)
