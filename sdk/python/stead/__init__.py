"""Stead: an isolated, governed, reproducible workspace for every AI-agent session.

    from stead import Sandbox

    with Sandbox.create() as box:
        print(box.commands.run("python3 --version").stdout)

`AsyncSandbox` has the same methods as coroutines.
"""

from ._async.client import AsyncClient
from ._async.commands import AsyncCommand, AsyncCommands
from ._async.files import AsyncFiles
from ._async.runs import AsyncRun, AsyncRuns
from ._async.sandbox import AsyncForks, AsyncSandbox
from ._result import CommandResult, OutputChunk
from ._sync.client import Client
from ._sync.commands import Command, Commands
from ._sync.files import Files
from ._sync.runs import Run, Runs
from ._sync.sandbox import Forks, Sandbox
from ._version import VERSION as __version__
from .errors import (
    BadRequest,
    CommandFailed,
    Conflict,
    ConnectionFailed,
    Forbidden,
    NotFound,
    ProvisioningFailed,
    ServerError,
    SteadError,
    TooManyRequests,
    Unauthorized,
    VerificationFailed,
)

__all__ = [
    "AsyncClient",
    "AsyncCommand",
    "AsyncCommands",
    "AsyncFiles",
    "AsyncForks",
    "AsyncRun",
    "AsyncRuns",
    "AsyncSandbox",
    "BadRequest",
    "Client",
    "Command",
    "CommandFailed",
    "CommandResult",
    "Commands",
    "Conflict",
    "ConnectionFailed",
    "Files",
    "Forbidden",
    "Forks",
    "NotFound",
    "OutputChunk",
    "ProvisioningFailed",
    "Run",
    "Runs",
    "Sandbox",
    "ServerError",
    "SteadError",
    "TooManyRequests",
    "Unauthorized",
    "VerificationFailed",
    "__version__",
]
