"""Servers in a box: HTTP, raw connections and a local listener."""

import asyncio
import socket
import textwrap
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from stead import AsyncSandbox, Client, ConnectionFailed, Forbidden, Sandbox, SteadError

WAIT = 60

# Answers with the headers that it received and with a status that the path names.
HTTP_SERVER = """
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = json.dumps({"path": self.path, "headers": dict(self.headers), "bytes": len(body)}).encode()
        self.send_response(int(self.path[1:4]))
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    do_GET = do_POST
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""

# Speaks first, then sends back everything until the end.
ECHO_SERVER = """
import socketserver
class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"hello ")
        while data := self.request.recv(65536):
            self.request.sendall(data)
class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 64
Server(("127.0.0.1", 8000), Handler).serve_forever()
"""


def start(box: Sandbox, script: str) -> None:
    box.files.write("server.py", textwrap.dedent(script))
    box.commands.start(["python3", "server.py"])
    box.ports.wait(8000, timeout=WAIT)


def test_answers_of_a_program_are_not_errors(box: Sandbox) -> None:
    start(box, HTTP_SERVER)
    for status in (200, 404, 502, 503):
        answer = box.ports.request("POST", 8000, f"/{status}/a?b=c d", content=b"x" * 1_000_000)
        assert answer.status_code == status
        assert answer.json()["bytes"] == 1_000_000
        assert answer.json()["path"] == f"/{status}/a?b=c%20d"


def test_the_token_does_not_reach_the_program(box: Sandbox) -> None:
    start(box, HTTP_SERVER)
    sent = box.ports.request("GET", 8000, "/200", headers={"X-Own": "1", "Authorization": "Bearer mine"})
    names = {name.lower(): value for name, value in sent.json()["headers"].items()}
    assert names["x-own"] == "1"
    assert not {"authorization", "cookie"} & set(names)


def test_refusals_of_the_server_are_raised(box: Sandbox, client: Client) -> None:
    for attempt in (lambda: box.ports.request("GET", 9), lambda: box.ports.connect(9)):
        with pytest.raises(SteadError) as raised:
            attempt()
        assert (raised.value.code, raised.value.status) == ("nothing_listens", 502)
        assert raised.value.hint
    with pytest.raises(SteadError) as waited:
        box.ports.wait(9, timeout=0.2)
    assert waited.value.code == "nothing_listens"
    closed = {"enabled": True, "workspace_policy": "empty", "require_workspace": True, "ports": []}
    client.agent_types.put("no-ports", workspace=closed)
    with Sandbox.create("no-ports", client=client) as shut:
        for refused in (lambda: shut.ports.connect(8000), lambda: shut.ports.open(8000), lambda: shut.host(8000)):
            with pytest.raises(Forbidden):
                refused()


def test_a_raw_connection_carries_any_bytes(box: Sandbox) -> None:
    start(box, ECHO_SERVER)
    data = bytes(range(256)) * 4000
    with box.ports.connect(8000) as connection:
        received = b""
        while len(received) < 6:
            received += connection.receive(1, timeout=WAIT)
        with pytest.raises(ConnectionFailed) as late:
            connection.receive(timeout=0.2)
        assert late.value.code == "timeout"
        with ThreadPoolExecutor() as threads:
            sending = threads.submit(lambda: (connection.send(data), connection.end()))
            while part := connection.receive(timeout=WAIT):
                received += part
            sending.result(WAIT)
    assert received == b"hello " + data


def test_a_local_listener_serves_many_programs(box: Sandbox) -> None:
    start(box, ECHO_SERVER)

    def use(number: int) -> bytes:
        with socket.create_connection(("127.0.0.1", forward.port), timeout=WAIT) as local:
            local.sendall(b"%d" % number * 50_000)
            local.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: local.recv(65536), b""))

    with box.ports.forward(8000) as forward, ThreadPoolExecutor(8) as threads:
        for number, answer in enumerate(threads.map(use, range(24))):
            assert answer == b"hello " + b"%d" % number * 50_000
        waiting = socket.create_connection(("127.0.0.1", forward.port), timeout=WAIT)
        assert waiting.recv(6, socket.MSG_WAITALL) == b"hello "
    # Closing it ends open connections and refuses new ones.
    assert waiting.recv(6) == b""
    waiting.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", forward.port), timeout=WAIT)


def test_a_listener_for_a_port_without_a_server(box: Sandbox) -> None:
    with box.ports.forward(9) as forward:
        with pytest.raises(OSError):
            urllib.request.urlopen(forward.url, timeout=WAIT)
        with pytest.raises(SteadError) as taken:
            box.ports.forward(9, forward.port)
        assert taken.value.code == "address_in_use"


async def test_connections_at_the_same_time(async_box: AsyncSandbox) -> None:
    await async_box.files.write("server.py", ECHO_SERVER)
    await async_box.commands.start(["python3", "server.py"])
    await async_box.ports.wait(8000, timeout=WAIT)

    async def use(number: int) -> bytes:
        async with await async_box.ports.connect(8000) as connection:
            await connection.send(b"%d" % number)
            await connection.end()
            received = b""
            while part := await connection.receive(timeout=WAIT):
                received += part
            return received

    answers = await asyncio.gather(*(use(number) for number in range(20)))
    assert answers == [b"hello %d" % number for number in range(20)]
