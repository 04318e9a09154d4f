"""Everything outside of a box: a name server, and servers on every address of the test's own network
namespace. Reads its zone anew for each question, and logs each question and each connection."""

import http.server
import json
import os
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time

directory = sys.argv[1]
lock = threading.Lock()
asked = {}


def log(name, line):
    with lock, open(os.path.join(directory, name), "a") as file:
        file.write(line + "\n")


def zone():
    with open(os.path.join(directory, "zone.json")) as file:
        return json.load(file)


def answer(question):
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode("latin-1"))
        at += 1 + question[at]
    kind = struct.unpack_from("!H", question, at + 1)[0]
    asked_part = question[12 : at + 5]
    name = ".".join(labels).lower()
    log("dns.log", f"{name} {kind}")
    entry = zone().get(name)
    if entry is None:
        return question[:2] + struct.pack("!HHHHH", 0x8183, 1, 0, 0, 0) + asked_part
    if isinstance(entry, dict):
        # A different answer for each lookup; the last one stays.
        if kind == 1:
            asked[name] = asked.get(name, -1) + 1
        entry = entry["sequence"][min(max(asked.get(name, 0), 0), len(entry["sequence"]) - 1)]
    family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
    records = []
    for address in entry:
        is_v6 = ":" in address
        if family == (socket.AF_INET6 if is_v6 else socket.AF_INET):
            packed = socket.inet_pton(family, address)
            records.append(b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(packed)) + packed)
    return question[:2] + struct.pack("!HHHHH", 0x8180, 1, len(records), 0, 0) + asked_part + b"".join(records)


def serve_names():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    while True:
        question, asker = server.recvfrom(4096)
        try:
            server.sendto(answer(question), asker)
        except Exception as error:
            log("dns.log", f"error {error!r}")


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, body, status=200, more=()):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in more:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def echo(self, body):
        lines = [f"{name}: {value}" for name, value in self.headers.items()]
        log("echo.log", json.dumps({"path": self.path, "headers": lines, "body": body.decode("latin-1")}))
        self.reply(("\n".join(lines) + "\n").encode() + body, 200, [("X-Echo", self.headers.get("Authorization", ""))])

    def do_GET(self):
        parts = self.path.strip("/").split("/")
        log("requests.log", f"{self.headers.get('Host')} {self.command} {self.path}")
        if parts[0] == "echo":
            return self.echo(b"")
        if parts[0] == "big":
            return self.reply(b"x" * int(parts[1]))
        if parts[0] == "slow":
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            for _ in range(10000):
                self.wfile.write(b"x" * 100)
                self.wfile.flush()
                time.sleep(0.05)
            return
        if parts[0] == "to":
            return self.reply(b"", 302, [("Location", "https://" + "/".join(parts[1:]))])
        path = os.path.join(directory, "files", self.path.split("?")[0].lstrip("/"))
        if os.path.isdir(path):
            path = os.path.join(path, "index.html")
        if os.path.isfile(path):
            kind = "text/html" if path.endswith(".html") else "application/octet-stream"
            with open(path, "rb") as file:
                return self.reply(file.read(), 200, [("Content-Type", kind)])
        if parts[0] in ("debian", "npm", "simple", "go", "demo.git", "wheels"):
            return self.reply(b"not found\n", 404)
        self.reply(f"hello {self.headers.get('Host')} {self.path}\n".encode())

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        log("requests.log", f"{self.headers.get('Host')} {self.command} {self.path} {len(body)}")
        if self.path.startswith("/echo"):
            return self.echo(body)
        self.reply(f"{len(body)}\n".encode())


class Threads(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256
    context = None

    def get_request(self):
        connection, peer = super().get_request()
        log("connections.log", "%s:%d" % connection.getsockname()[:2])
        return connection, peer

    def finish_request(self, request, peer):
        try:
            if self.context:
                request.settimeout(60)
                request = self.context.wrap_socket(request, server_side=True)
                request.settimeout(None)
            super().finish_request(request, peer)
        except Exception as error:
            log("errors.log", repr(error))


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets, and a last line after the other side has closed."""

    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
        self.request.sendall(b"end\n")


class Sink(socketserver.BaseRequestHandler):
    def handle(self):
        total = 0
        try:
            while data := self.request.recv(65536):
                total += len(data)
        finally:
            log("sink.log", str(total))


def start(port, handler, context=None):
    server = Threads(("0.0.0.0", port), handler)
    server.context = context
    threading.Thread(target=server.serve_forever, daemon=True).start()


tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(os.path.join(directory, "leaf.pem"), os.path.join(directory, "leaf.key"))
# The root of this one is not among the trusted ones.
untrusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
untrusted.load_cert_chain(os.path.join(directory, "untrusted-leaf.pem"), os.path.join(directory, "untrusted-leaf.key"))
threading.Thread(target=serve_names, daemon=True).start()
start(80, Web)
start(8080, Web)
start(443, Web, tls)
start(8443, Web, tls)
start(9443, Web, untrusted)
start(7000, Echo)
start(7001, Sink)
for port in [22, 5432, 6379]:
    start(port, Echo)
with open(os.path.join(directory, "ready"), "w") as file:
    file.write("ready")
# Ends with the test, which holds the other end.
sys.stdin.read()
