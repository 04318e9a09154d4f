"""Ports of a sandbox: servers that run in its box."""

from __future__ import annotations

import socket
import time
from typing import Any, List, Mapping, Optional, Union

import httpcore
import httpx

from .._forward import Forward
from ..api_types import OpenedPort, Port
from ..errors import ConnectionFailed, SteadError
from .http import AsyncHttp, segment
from .loop import sleep

_CHUNK = 1 << 16
_POLL = 0.1
_LOST = (OSError, httpcore.NetworkError, httpcore.TimeoutException)


class AsyncConnection:
    """A connection to a port of the box, for any protocol over TCP.

    >>> server = await box.commands.start("python3 -m http.server 8000 --bind 127.0.0.1")
    >>> _ = await box.ports.wait(8000)
    >>> async with await box.ports.connect(8000) as connection:
    ...     await connection.send(b"GET / HTTP/1.0\\r\\n\\r\\n")
    ...     print((await connection.receive())[:8])
    b'HTTP/1.0'
    """

    def __init__(self, response: httpx.Response, stream: Any) -> None:
        self._response = response
        self._stream = stream

    async def __aenter__(self) -> "AsyncConnection":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(self, data: bytes) -> None:
        """Sends bytes.

        >>> server = await box.commands.start("python3 -m http.server 8000 --bind 127.0.0.1")
        >>> _ = await box.ports.wait(8000)
        >>> async with await box.ports.connect(8000) as connection:
        ...     await connection.send(b"GET / HTTP/1.0\\r\\n\\r\\n")
        """
        try:
            await self._stream.write(data, timeout=None)
        except _LOST as error:
            raise _ended(error) from error

    async def receive(self, most: int = _CHUNK, *, timeout: Optional[float] = None) -> bytes:
        """Waits for bytes and returns them, at most `most`; `b""` at the end of the connection.

        >>> server = await box.commands.start("python3 -m http.server 8000 --bind 127.0.0.1")
        >>> _ = await box.ports.wait(8000)
        >>> async with await box.ports.connect(8000) as connection:
        ...     await connection.send(b"HEAD / HTTP/1.0\\r\\n\\r\\n")
        ...     print((await connection.receive(timeout=60))[:15])
        b'HTTP/1.0 200 OK'
        """
        try:
            data: bytes = await self._stream.read(most, timeout=timeout)
        except _LOST as error:
            raise _ended(error) from error
        return data

    async def end(self) -> None:
        """Tells the program that no more bytes follow. Its answer can still be received.

        >>> script = "import socket; s = socket.create_server(('127.0.0.1', 8000)); c = s.accept()[0]"
        >>> script += "; c.sendall(str(len(c.makefile('rb').read())).encode()); c.close()"
        >>> server = await box.commands.start(["python3", "-c", script])
        >>> _ = await box.ports.wait(8000)
        >>> async with await box.ports.connect(8000) as connection:
        ...     await connection.send(b"x" * 100_000)
        ...     await connection.end()
        ...     print(await connection.receive())
        b'100000'
        """
        self._shut(socket.SHUT_WR)

    async def close(self) -> None:
        """Closes the connection.

        >>> server = await box.commands.start("python3 -m http.server 8000 --bind 127.0.0.1")
        >>> _ = await box.ports.wait(8000)
        >>> connection = await box.ports.connect(8000)
        >>> await connection.close()
        """
        # A thread may wait in `receive`.
        self._shut(socket.SHUT_RDWR)
        await self._response.aclose()

    def _shut(self, how: int) -> None:
        found = self._stream.get_extra_info("socket")
        if found is None or self._stream.get_extra_info("ssl_object") is not None:
            return
        try:
            found.shutdown(how)
        except OSError:
            pass  # the other end has closed the connection


class AsyncPorts:
    """`box.ports`: servers that run in the box."""

    def __init__(self, http: AsyncHttp, session: str) -> None:
        self._http = http
        self._session = session
        self._path = f"/sessions/{segment(session)}/ports"

    async def list(self) -> List[Port]:
        """Returns the ports that programs in the box listen on and that this token may open.

        >>> await box.ports.list()
        []
        """
        found: List[Port] = await self._http.pages(self._path)
        return found

    async def wait(self, port: int, *, timeout: float = 60) -> Port:
        """Waits until a program listens on the port.

        >>> server = await box.commands.start("sleep 0.3; exec python3 -m http.server 8000 --bind 127.0.0.1")
        >>> await box.ports.wait(8000)
        {'port': 8000, 'address': '127.0.0.1'}
        """
        end = time.monotonic() + timeout
        while True:
            for found in await self.list():
                if found["port"] == port:
                    return found
            if time.monotonic() > end:
                raise SteadError(f"nothing listens on port {port} after {timeout:g} s", code="nothing_listens")
            await sleep(_POLL)

    async def open(self, port: int, path: str = "/") -> str:
        """Returns a link that opens the port in a browser. It works once, within a minute.

        >>> (await box.ports.open(8000)).startswith("http://8000-ses-")
        True
        """
        opened: OpenedPort = await self._http.json("POST", f"{self._path}/{port:d}:open", body={"path": path})
        return opened["url"]

    async def request(
        self,
        method: str,
        port: int,
        path: str = "/",
        *,
        content: Union[bytes, str, None] = None,
        headers: Optional[Mapping[str, str]] = None,
        timeout: float = 60,
    ) -> httpx.Response:
        """Sends an HTTP request to a program in the box and returns its answer, whatever the status
        is. The request is sent once. An `Authorization` header does not reach the program: use
        `connect` or `forward` for it.

        >>> server = await box.commands.start("python3 -m http.server 8000 --bind 127.0.0.1")
        >>> _ = await box.ports.wait(8000)
        >>> (await box.ports.request("GET", 8000, "/none?a=1")).status_code
        404
        """
        target = f"{self._path}/{port:d}/{path.lstrip('/')}"
        return await self._http.pass_on(method, target, content=content, headers=headers or {}, timeout=timeout)

    async def connect(self, port: int) -> AsyncConnection:
        """Opens a connection for any protocol over TCP.

        >>> try:
        ...     await box.ports.connect(9)
        ... except SteadError as error:
        ...     print(error.code)
        nothing_listens
        """
        return AsyncConnection(*await self._http.upgrade(f"{self._path}/{port:d}:connect", "tcp"))

    async def forward(self, port: int, local: int = 0) -> Forward:
        """Makes the port reachable at a port of 127.0.0.1 on this machine, until it is closed. Port 0
        takes a free one. Every user of this machine can connect. For browsers use `open`, which keeps
        the cookies of the page apart.

        >>> import urllib.request
        >>> server = await box.commands.start("python3 -m http.server 8000 --bind 127.0.0.1")
        >>> _ = await box.ports.wait(8000)
        >>> with await box.ports.forward(8000) as forward:
        ...     print(urllib.request.urlopen(forward.url).status)
        200
        """
        endpoint = await self._http.endpoint()
        return Forward(endpoint.url, endpoint.token, self._session, port, local)


def _ended(error: Exception) -> ConnectionFailed:
    if isinstance(error, httpcore.TimeoutException):
        return ConnectionFailed("the program sent nothing in time", code="timeout")
    return ConnectionFailed(f"the connection to the port is lost: {error or type(error).__name__}", code="connection_lost")
