# Writes a gigabyte, or dies trying. Its word says to which streams, and in what pieces.
import os
import sys
import threading

GIGABYTE = 1 << 30
PIECE = b"x" * (1 << 16)


def flood(*streams, piece=PIECE):
    for _ in range(GIGABYTE // len(piece)):
        for stream in streams:
            os.write(stream, piece)


way = sys.argv[1]
if way == "stdout":
    flood(1)
if way == "controls":
    # Six characters of JSON for each byte.
    flood(1, piece=b"\1" * (1 << 16))
if way == "no text":
    flood(1, piece=b"\xff" * (1 << 16))
if way == "stderr":
    flood(2)
if way == "both":
    flood(1, 2)
if way == "at once":
    # Two writers that block each other if one of the streams is not read.
    other = threading.Thread(target=flood, args=(2,))
    other.start()
    flood(1)
if way == "newlines":
    lines = b"\n" * (1 << 16)
    for _ in range(10 ** 8 // len(lines)):
        os.write(1, lines)
if way == "children":
    # Output of all descendants is one output.
    for _ in range(8):
        if os.fork() == 0:
            os.setsid()
            flood(1)
    flood(1)
if way == "one by one":
    # Small pieces cost the reader most.
    while True:
        os.write(1, b"x")
