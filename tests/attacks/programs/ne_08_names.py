# Looks up names without a network. Each look-up must fail, at once, in a way a program can understand.
import socket
import time
import urllib.request
from attack import attempt, report


def in_time(function, *args):
    began = time.monotonic()
    try:
        function(*args)
        answer = "found"
    except OSError as error:
        # urllib wraps the reason; a resolver's failure has a name of its own.
        answer = type(getattr(error, "reason", error)).__name__
    took = time.monotonic() - began
    return answer if took < 1 else f"{answer} after {took:.1f} s"


for name in ("example.org", "www.google.com.", "nowhere.invalid", "_dns.resolver.arpa", "a" * 63 + ".example"):
    attempt(f"getaddrinfo {name[:20]}", in_time, socket.getaddrinfo, name, 443)
attempt("gethostbyname", in_time, socket.gethostbyname, "example.org")
attempt("gethostbyaddr", in_time, socket.gethostbyaddr, "1.1.1.1")
attempt("get http", in_time, urllib.request.urlopen, "http://example.org/")
attempt("get https", in_time, urllib.request.urlopen, "https://example.org/")
attempt("get https by address", in_time, urllib.request.urlopen, "https://1.1.1.1/")
try:
    import requests
    attempt("requests", in_time, requests.get, "https://example.org/")
except ImportError:
    # Not on every host; what it would call was called above.
    report("requests", "not installed")
