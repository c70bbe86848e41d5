# Says which files it was given, byte by byte.
import os

found = []
for base, dirs, files in os.walk(b"."):
    for name in files:
        path = os.path.join(base, name)[2:]
        if path not in (b"attack.py", b"fs_24_listing.py", b"main.py"):
            found.append((path, open(path, "rb").read(), os.lstat(path).st_mode))
for path, content, mode in sorted(found):
    print("given", path.hex(), content[:64].hex(), len(content), "%o" % mode)
