# Loaded before a script, from a directory of its own. When the interpreter ends it writes the global variables that were
# asked for beside itself. The script finds no trace of it in its paths and its environment.
import atexit
import json
import os
import sys

PLACE = os.path.dirname(os.path.abspath(__file__))


def plain(value):
    try:
        return json.loads(json.dumps(value, default=str, allow_nan=False))
    except Exception:
        return str(value)


def keep(names):
    found = vars(sys.modules["__main__"])
    values = {}
    for name in names:
        if name in found:
            values[name] = plain(found[name])
    with open(os.path.join(PLACE, "values.json"), "w", encoding="utf-8") as file:
        json.dump(values, file)


with open(os.path.join(PLACE, "names.json"), encoding="utf-8") as file:
    atexit.register(keep, json.load(file))
os.environ.pop("PYTHONPATH", None)
while PLACE in sys.path:
    sys.path.remove(PLACE)
