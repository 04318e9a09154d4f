"""A listener on this machine that leads to a port of a box."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Optional, Set

from .errors import SteadError

if TYPE_CHECKING:
    from ._sync.ports import Connection

_CHUNK = 1 << 16


class Forward:
    """A listener on 127.0.0.1. Each of its connections is a connection to the port of the box. As a
    context manager it closes the listener and its connections.

    >>> with Forward("http://127.0.0.1:1", None, "ses_1", 8000) as forward:
    ...     forward.url == f"http://127.0.0.1:{forward.port}"
    True
    """

    def __init__(self, url: str, token: Optional[str], session: str, port: int, local: int = 0) -> None:
        from ._sync.http import Http
        from ._sync.ports import Ports

        self._http = Http(url, token, 0)
        self._ports = Ports(self._http, session)
        self._target = port
        self._open: Set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._listener = socket.create_server(("127.0.0.1", local))
        except OSError as error:
            raise SteadError(f"cannot listen on 127.0.0.1:{local}: {error}", code="address_in_use") from error
        #: The local port.
        self.port: int = self._listener.getsockname()[1]
        #: Its URL, for programs that speak HTTP.
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Forward":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the listener and its connections.

        >>> forward = Forward("http://127.0.0.1:1", None, "ses_1", 8000)
        >>> forward.close()
        """
        with self._lock:
            self._closed = True
            ending = list(self._open)
        # A thread waits in `accept`, and closing alone would not wake it.
        for one in [self._listener, *ending]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._http.close()

    def _accept(self) -> None:
        while True:
            try:
                local, _ = self._listener.accept()
            except OSError:
                return  # the listener is closed
            with self._lock:
                if self._closed:
                    local.close()
                    return
                self._open.add(local)
            threading.Thread(target=self._serve, args=(local,), daemon=True).start()

    def _serve(self, local: socket.socket) -> None:
        try:
            # The local program sees a failure as a closed connection.
            with contextlib.suppress(SteadError), self._ports.connect(self._target) as remote:
                upwards = threading.Thread(target=_up, args=(local, remote), daemon=True)
                upwards.start()
                _down(remote, local)
                # The program in the box sends no more. What the local program still sends is read.
                upwards.join()
        finally:
            with self._lock:
                self._open.discard(local)
            local.close()


def _up(local: socket.socket, remote: "Connection") -> None:
    with contextlib.suppress(OSError, SteadError):
        while True:
            data = local.recv(_CHUNK)
            if not data:
                break
            remote.send(data)
    remote.end()


def _down(remote: "Connection", local: socket.socket) -> None:
    with contextlib.suppress(OSError, SteadError):
        while True:
            data = remote.receive(_CHUNK)
            if not data:
                break
            local.sendall(data)
    with contextlib.suppress(OSError):
        local.shutdown(socket.SHUT_WR)
