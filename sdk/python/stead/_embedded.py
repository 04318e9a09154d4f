"""A server that this process starts, and that ends with it.

The process holds the standard input of the server (`stead up --until-eof`). The kernel closes it
even if this process is killed, so that no server is left behind. Boxes and journals belong to the
home: the next server on it continues with them.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Dict, Optional

from .errors import ConnectionFailed, SteadError

_START_SECONDS = 120.0
_STOP_SECONDS = 15.0

_lock = threading.Lock()
_servers: Dict[Path, "subprocess.Popen[str]"] = {}


def program() -> str:
    """Returns the path of the `stead` program: `STEAD_PROGRAM`, the one in this package, one next
    to the interpreter, or one on PATH."""
    beside = [Path(__file__).parent / "bin/stead", Path(sys.executable).parent / "stead"]
    named = os.environ.get("STEAD_PROGRAM")
    for candidate in ([Path(named)] if named else []) + beside:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which("stead")
    if found is None:
        raise SteadError(
            "no server is known, and the program `stead` is not installed here to start one",
            code="no_server",
            hint="set STEAD_URL and STEAD_TOKEN, or install the program `stead` on PATH",
        )
    return found


def start(home: Path) -> str:
    """Starts a server on the home and returns its URL. If another process is faster, returns the
    URL of its server."""
    from ._endpoint import running_url

    with _lock:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            found = running_url(home)
            if found is not None:
                return found
            errors = tempfile.TemporaryFile("w+", prefix="stead-")
            process = _spawn(home, errors)
            url = _read_url(process, home)
            if url is not None:
                _servers[home] = process
                return url
            _end(process)
            errors.seek(0)
            said = errors.read().strip()[-2000:]
            # Another process may be starting a server on this home right now.
            if time.monotonic() > deadline or "already runs on the home" not in said:
                raise ConnectionFailed(
                    f"the server did not start: {said or 'it gave no reason'}",
                    code="server_not_started",
                    hint="run `stead doctor`, which reports what works on this machine",
                )
            time.sleep(0.2)


def _spawn(home: Path, errors: IO[str]) -> "subprocess.Popen[str]":
    command = [program(), "--home", str(home), "--json", "up", "--listen", "127.0.0.1:0", "--until-eof"]
    environment = {name: value for name, value in os.environ.items() if name not in ("STEAD_URL", "STEAD_TOKEN")}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment,
        text=True,
        # Ctrl-C in a terminal reaches this process, which then ends the server in order.
        start_new_session=True,
    )


def _read_url(process: "subprocess.Popen[str]", home: Path) -> Optional[str]:
    """Waits until the server is announced. Its end closes its standard output."""
    output = process.stdout
    if output is None:
        return None
    text = ""
    for line in output:
        text += line
        try:
            answer = json.loads(text)
        except ValueError:
            continue  # the JSON has more lines
        # The server must not block on a full pipe; nothing reads it from here on.
        threading.Thread(target=output.read, daemon=True).start()
        return str(answer["url"])
    return None


def _end(process: "subprocess.Popen[str]") -> None:
    if process.stdin is not None:
        try:
            process.stdin.close()
        except OSError:
            pass
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@atexit.register
def stop() -> None:
    """Stops the servers that this process started, and waits for their end."""
    with _lock:
        while _servers:
            _, process = _servers.popitem()
            _end(process)


def _forget_in_child() -> None:
    """A forked child must not stop the servers of its parent."""
    _servers.clear()


os.register_at_fork(after_in_child=_forget_in_child)
