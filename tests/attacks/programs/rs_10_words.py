# Says exactly what it was called with and what lies beside it, as JSON on one line.
import json
import os
import sys

words = {name: value for name, value in os.environ.items() if name.startswith("WORD")}
print(json.dumps({"args": sys.argv[1:], "files": sorted(os.listdir(".")), "words": words}))
