"""A small web application with the standard library alone: pages, cookies, redirects, WebSockets."""

import base64
import hashlib
import json
import struct
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGE = b"<!doctype html><title>From the box</title><h1>From the box</h1>"
WORKER = b"self.addEventListener('install', () => self.skipWaiting());"


class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body, headers=()):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/":
            self.answer(200, PAGE, [("Content-Type", "text/html; charset=utf-8")])
        elif url.path == "/seen":
            seen = {"method": self.command, "path": self.path, "headers": [list(pair) for pair in self.headers.items()]}
            self.answer(200, json.dumps(seen).encode(), [("Content-Type", "application/json")])
        elif url.path == "/set":
            cookies = ["app=1; Domain=localhost; Path=/", "stead_door=evil; Path=/", "plain=2"]
            headers = [("Set-Cookie", cookie) for cookie in cookies]
            headers += [("Strict-Transport-Security", "max-age=9"), ("Service-Worker-Allowed", "/"), ("Alt-Svc", "x")]
            self.answer(200, b"set", headers)
        elif url.path == "/redirect":
            self.answer(302, b"", [("Location", parse_qs(url.query)["to"][0])])
        elif url.path == "/worker.js":
            self.answer(200, WORKER, [("Content-Type", "text/javascript")])
        elif url.path == "/socket":
            self.socket()
        else:
            self.answer(404, b"no such page in the box")

    do_HEAD = do_GET
    do_OPTIONS = do_GET

    def do_POST(self):
        self.answer(200, self.rfile.read(int(self.headers.get("Content-Length", 0))))

    do_PUT = do_POST

    def socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.close_connection = True
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return
            length = head[1] & 127
            if length == 126:
                length = struct.unpack(">H", self.rfile.read(2))[0]
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[index % 4] for index, byte in enumerate(self.rfile.read(length)))
            text = b"echo " + data
            self.wfile.write(bytes([129, len(text)]) + text)

    def log_message(self, *_):
        pass


ThreadingHTTPServer((sys.argv[2], int(sys.argv[1])), App).serve_forever()
