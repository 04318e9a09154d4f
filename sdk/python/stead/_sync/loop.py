"""What differs between the two clients: waiting, threads, and the content of files."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Iterator, Optional, TypeVar

T = TypeVar("T")
CHUNK = 1 << 18


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def blocking(function: Callable[..., T], *arguments: Any) -> T:
    """Runs a function that reads or writes local files, or waits for a process."""
    return function(*arguments)


def deliver(callback: Callable[[str], object], line: str) -> None:
    callback(line)


def file_content(path: "os.PathLike[str]") -> Iterator[bytes]:
    with open(path, "rb") as file:
        while True:
            chunk = file.read(CHUNK)
            if not chunk:
                return
            yield chunk


class Task:
    """Work that goes on at the same time."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._error: Optional[BaseException] = None

        def run() -> None:
            try:
                work()
            except BaseException as error:  # raised again by join()
                self._error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error


class _Process:
    pass


_PROCESS = _Process()


def scope() -> object:
    """Clients are shared within this object: connections belong to the process."""
    return _PROCESS
