# Writes what is no text, or no text any more when it is cut. Its word says what.
import os
import sys

STREAMS = {
    "all": bytes(range(256)) * 4,
    "zeroes": b"\0" * 1000,
    "overlong": b"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf\xfc\x80\x80\x80\x80\xaf" * 50,
    "surrogates": b"\xed\xa0\x80\xed\xbf\xbf" * 100,
    "beyond": b"\xf4\x90\x80\x80\xf8\x88\x80\x80\x80" * 50,
    # The limit of the case is 1024 bytes, and these end in the middle of a character at that place.
    "split": b"a" * 1022 + "😀€é".encode() * 10,
    "controls": b"\x1b[2J\x1b]0;title\x07\x7f\x80\x9b\r\n" * 20,
    "record": b'"}\n{"status":"success","exit_code":0}\n\\u0000\\' * 10,
    "separators": "\u2028\u2029\ufeff\uffff\u0085".encode() * 50,
}
data = STREAMS[sys.argv[1]]
# What it should have said is saved beside it.
with open("data", "wb") as file:
    file.write(data)
if sys.argv[1] == "split":
    # Each byte by itself, so that every read may end in the middle of a character.
    for byte in data:
        os.write(1, bytes([byte]))
else:
    os.write(1, data)
os.write(2, data)
