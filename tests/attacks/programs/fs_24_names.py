# Makes files whose names are traps for whoever copies them by name, and says of each what it holds.
# Names are given as hexadecimal, because they are no text, and the content of a file is its name.
import os
from attack import attempt

NAMES = [
    b"plain.txt", b"%2e%2e%2fescape", b"..%5cescape", b"..\\escape", b"...", b".. ", b" ..", b". .", b".hidden",
    b"..escape", b"-rf", b"--json", b"-", b"~root", b"$(id)", b"`id`", b";id", b"a b", b"a\tb", b"a\nb", b"\n",
    b"\r", b"\x1b[2J", b"\x7f", b"a\\u0000b", b"'", b'"', b"*", b"?", b"CON", b"a:b", b"a=b", b"=", b"@file",
    "\u202etxt.exe".encode(), "\u202e".encode(), "caf\u00e9".encode(), "cafe\u0301".encode(), "\u2025".encode(),
    "\uff0e\uff0e\uff0f".encode(), "\ufeffbom".encode(), "\U0001f600".encode(), b"\xff\xfe", b"a\xc0\xafb",
    b"\xed\xa0\x80", b"n" * 255, "\u00e9".encode() * 127, b"sub/inner.txt", b"sub/..inner", b"sub/a\nb",
]


def write(name):
    os.makedirs(os.path.dirname(name) or b".", exist_ok=True)
    with open(name, "xb") as file:
        file.write(name)


for name in NAMES:
    attempt(f"write {name.hex()}", write, name)
# None of these is a name.
attempt("write nothing", lambda: os.open(b"", os.O_CREAT | os.O_WRONLY))
attempt("write one dot", lambda: os.open(b".", os.O_CREAT | os.O_WRONLY))
attempt("write two dots", lambda: os.open(b"..", os.O_CREAT | os.O_WRONLY))
attempt("write the root", lambda: os.open(b"/", os.O_CREAT | os.O_WRONLY))
attempt("write 256 bytes", write, b"n" * 256)
attempt("write 300 bytes", write, b"n" * 300)
