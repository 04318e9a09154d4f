"""The server that a client uses, found by the rules of the command line:

1. `url=` or `STEAD_URL`,
2. the login that `stead login` stored,
3. the server that runs on the home (`STEAD_HOME`),
4. a server that this process starts on the home and that ends with it.

The token of the home is sent only to the server that holds the home's lock, or to a loopback
address that the user named.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Optional
from urllib.parse import urlsplit

from . import _embedded
from .errors import SteadError


class Origin(Enum):
    """How the server was found. Only a server of the home may be replaced by another."""

    NAMED = "named"
    HOME = "home"


@dataclass(frozen=True)
class Endpoint:
    url: str
    token: Optional[str]
    origin: Origin


def resolve(url: Optional[str], token: Optional[str]) -> Endpoint:
    """Returns the endpoint, and starts a server if there is none."""
    url = url or os.environ.get("STEAD_URL") or None
    token = token or os.environ.get("STEAD_TOKEN") or None
    if url is not None:
        url = url.rstrip("/")
        if not url.startswith(("http://", "https://")):
            raise SteadError(f"{url!r} is not the URL of a server", code="invalid_url", hint="write http://HOST:PORT")
        if token is None and _is_loopback(url):
            token = _home_token(home())
        return Endpoint(url, token, Origin.NAMED)
    if token is None and not os.environ.get("STEAD_HOME"):
        login = _login()
        if login is not None:
            return login
    return of_home(token)


def of_home(token: Optional[str]) -> Endpoint:
    """Returns the server of the home, and starts it if there is none."""
    directory = home()
    found = running_url(directory) or _embedded.start(directory)
    return Endpoint(found, token or _home_token(directory), Origin.HOME)


def home() -> Path:
    if os.environ.get("STEAD_HOME"):
        return Path(os.path.abspath(os.environ["STEAD_HOME"]))
    data = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(data):
        return Path(data) / "stead"
    return Path.home() / ".local/share/stead"


def running_url(directory: Path) -> Optional[str]:
    """Returns the URL in `server.json`. The file is trusted only while a server holds the lock."""
    try:
        lock = os.open(directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        pass
    finally:
        os.close(lock)
    try:
        url = json.loads((directory / "server.json").read_text()).get("url")
    except (OSError, ValueError, AttributeError):
        return None  # the server is still starting
    return url if isinstance(url, str) else None


def _home_token(directory: Path) -> Optional[str]:
    try:
        return (directory / "token").read_text().strip() or None
    except OSError:
        return None


def _login() -> Optional[Endpoint]:
    config = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(config) if os.path.isabs(config) else Path.home() / ".config"
    path = folder / "stead/login.json"
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(file) as opened:
        status = os.fstat(opened.fileno())
        # Another user may know its token or have chosen its URL.
        if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.geteuid():
            raise SteadError(f"other users can read the login {path}", code="login_refused", hint=f"chmod 600 {path}")
        login = json.load(opened)
    return Endpoint(str(login["url"]).rstrip("/"), str(login["token"]), Origin.NAMED)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or (host.startswith("127.") and host.replace(".", "").isdigit())
