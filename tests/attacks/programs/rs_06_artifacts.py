# Leaves files that lie about what they are and where they belong. Its word says which.
import os
import socket
import sys
import time
from attack import report

HTML = "<html><script>alert(1)</script></html>"
NAMES = [
    "page.html", "picture.png", "image.svg", "-rf", "--help", " ", "..x", "...", "a\nb", "\x1b[31mred", "\u202egnp.exe",
    "$(id)", "`id`", "a\\..\\..\\b", "%2e%2e%2f%2e%2e%2fx", "CON", "é", "e\u0301", "x" * 255, ".bashrc", "~root", "a:b", "*?",
]
way = sys.argv[1]
if way == "names":
    for name in NAMES:
        with open(name, "w") as file:
            file.write(HTML)
    with open(b"\xff\xfe", "w") as file:
        file.write("no text")
    os.makedirs("d/../d/e")
    with open("d/e/f", "w") as file:
        file.write("deep")
    # What is no file of its own must not be saved as one.
    for target in ("/etc/shadow", "/etc/passwd", "/proc/self/environ", "/proc/self/mem", "../../../../etc", "d", "d/e/f"):
        os.symlink(target, "special-" + target.replace("/", "_"))
    os.mkfifo("special-fifo")
    socket.socket(socket.AF_UNIX).bind("special-socket")
    with open("set-id", "w") as file:
        file.write("x")
    os.chmod("set-id", 0o6755)
    report("made", len(NAMES))
if way == "many":
    for number in range(90000):
        os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY))
    report("made", 90000)
if way == "large":
    # As large as its storage may be, though it takes none of it.
    for name in ("a.png", "b.png", "c.png"):
        with open(name, "wb") as file:
            file.truncate(30 << 20)
    report("made", "90 MB")
if way == "endless":
    # Files that grow, shrink and move while they are collected, by a child that does not end.
    if os.fork() == 0:
        os.setsid()
        while True:
            for number in range(50):
                with open(f"moving{number}", "w") as file:
                    file.write("x" * number)
            for number in range(50):
                os.rename(f"moving{number}", f"moved{number}")
                os.path.islink(f"moving{number}") or os.symlink("/etc/passwd", f"moving{number}")
                os.unlink(f"moving{number}")
    while not os.path.exists("moved0"):
        time.sleep(0.001)
    report("made", "a child")
