"""What differs between the two clients: waiting, threads, and the content of files."""

from __future__ import annotations

import asyncio
import inspect
import os
from typing import Any, AsyncIterator, Callable, Coroutine, TypeVar

T = TypeVar("T")
CHUNK = 1 << 18


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def blocking(function: Callable[..., T], *arguments: Any) -> T:
    """Runs a function that reads or writes local files, or waits for a process."""
    return await asyncio.to_thread(function, *arguments)


async def deliver(callback: Callable[[str], object], line: str) -> None:
    """Calls a callback, which may be a coroutine function."""
    result = callback(line)
    if inspect.isawaitable(result):
        await result


async def file_content(path: "os.PathLike[str]") -> AsyncIterator[bytes]:
    with open(path, "rb") as file:
        while True:
            chunk = await asyncio.to_thread(file.read, CHUNK)
            if not chunk:
                return
            yield chunk


class Task:
    """Work that goes on at the same time."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.ensure_future(work())

    async def join(self) -> None:
        await self._task


def scope() -> object:
    """Clients are shared within this object: connections belong to an event loop."""
    return asyncio.get_running_loop()
