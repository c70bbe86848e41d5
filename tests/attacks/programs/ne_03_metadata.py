# Asks the metadata services of clouds, by every spelling of their addresses.
import http.client
import socket
import urllib.request
from attack import attempt

V4 = ["169.254.169.254", "169.254.170.2", "169.254.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "169.254.42.42"]
V6 = ["fd00:ec2::254", "fd20:ce::254", "fe80::a9fe:a9fe", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"]
# What inet_aton and lax parsers of URLs take for 169.254.169.254.
SPELLINGS = ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "0xa9.0xfe.0xa9.0xfe", "169.254.43518", "169.16689662", "0177.1"]
NAMES = ["metadata.google.internal", "metadata", "instance-data", "169.254.169.254.nip.io", "metadata.azure.internal"]


def connect(family, host):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(2)
        s.connect((host, 80))


def ask(host):
    connection = http.client.HTTPConnection(host, 80, timeout=2)
    connection.request("GET", "/latest/meta-data/", headers={"Metadata-Flavor": "Google"})
    return connection.getresponse().status


def redirected():
    # A server of our own sends the client on.
    import http.server
    import threading

    class Redirect(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/latest/meta-data/")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Redirect) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        return urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/", timeout=2).status


for host in V4:
    attempt(f"address {host}", connect, socket.AF_INET, host)
for host in V6:
    attempt(f"address {host}", connect, socket.AF_INET6, host)
for host in SPELLINGS:
    attempt(f"spelling {host}", ask, host)
for host in NAMES:
    attempt(f"name {host}", ask, host)
attempt("redirect", redirected)
# The variables by which clients would find a way out.
import os

attempt("proxy variables", lambda: ",".join(sorted(n for n in os.environ if "proxy" in n.lower() or n.startswith(("AWS_", "ECS_", "KUBERNETES_")))) or "none")
