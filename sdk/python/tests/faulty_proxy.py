"""A TCP proxy in front of the real server that cuts connections and refuses requests on demand."""

import socket
import threading
from typing import Iterator, List
from urllib.parse import urlsplit


class FaultyProxy:
    """Forwards one request per connection. `refuse` answers requests itself, `cut_after` has for
    each of the next answers the number of bytes after which the connection is cut."""

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        self._target = (str(target.hostname), int(target.port or 80))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: List[str] = []
        self.refusals: List[bytes] = []
        self.cut_after: List[int] = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._closed = True
        self._listener.close()

    def _forwarded(self, request: bytes) -> bytes:
        """The server answers only for its own host."""
        host, target = urlsplit(self.url).netloc.encode(), ":".join(map(str, self._target)).encode()
        head, _, body = request.partition(b"\r\n\r\n")
        head = head.replace(host, target).replace(b"Connection: keep-alive", b"Connection: close")
        return head + b"\r\n\r\n" + body

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            request = _read_request(client)
            if not request:
                return
            self.requests.append(request.split(b"\r\n", 1)[0].decode())
            if self.refusals:
                client.sendall(self.refusals.pop(0))
                return
            cut = self.cut_after.pop(0) if self.cut_after else None
            with socket.create_connection(self._target) as server:
                # One request per connection, so that every request passes here.
                server.sendall(self._forwarded(request))
                sent = 0
                for data in iter(lambda: server.recv(65536), b""):
                    if cut is not None and sent + len(data) > cut:
                        client.sendall(data[: cut - sent])
                        return
                    client.sendall(data)
                    sent += len(data)


def _read_request(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        more = client.recv(65536)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(_lengths(head), 0)
    while len(body) < length:
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


def _lengths(head: bytes) -> Iterator[int]:
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            yield int(line.split(b":")[1])
