# Networks of its own: a web server and its clients, names of loopback, datagrams, both families, many connections.
import http.client, http.server, json, select, socket, socketserver, ssl, threading, urllib.request, xmlrpc.client
from xmlrpc.server import SimpleXMLRPCServer


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"path": self.path}).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.end_headers()
        self.wfile.write(body[::-1])

    def log_message(self, *words):
        pass


def serve(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


port = serve(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page))
for name in ("localhost", "127.0.0.1"):
    with urllib.request.urlopen(f"http://{name}:{port}/a?b=c", timeout=60) as answer:
        assert json.load(answer) == {"path": "/a?b=c"}
connection = http.client.HTTPConnection("127.0.0.1", port)
connection.request("POST", "/", body=b"x" * 300000 + b"end")
answer = connection.getresponse()
assert answer.status == 201 and answer.read().startswith(b"dnex")

calls = SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False)
calls.register_function(pow)
assert xmlrpc.client.ServerProxy(f"http://127.0.0.1:{serve(calls)}").pow(2, 10) == 1024

udp6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp6.bind(("::1", 0))
udp6.sendto(b"six", udp6.getsockname())
assert udp6.recv(9) == b"six"
both = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
for host in ("127.0.0.1", "::1"):
    with socket.create_connection((host, both.getsockname()[1]), 60) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        both.accept()[0].sendall(host.encode())
        assert line.recv(99) == host.encode()

ours, theirs = socket.socketpair()
socket.send_fds(ours, [b"fd"], [udp6.fileno()])
assert len(socket.recv_fds(theirs, 9, 1)[1]) == 1
listener = socket.create_server(("127.0.0.1", 0), backlog=128)
lines = [socket.create_connection(listener.getsockname()) for _ in range(100)]
assert len([listener.accept() for _ in lines]) == 100 and select.poll()
assert ssl.create_default_context().get_ca_certs() is not None
assert "lo" in [name for _, name in socket.if_nameindex()]
assert {entry[4][0] for entry in socket.getaddrinfo("localhost", 80)} <= {"127.0.0.1", "::1"}
print("done")
