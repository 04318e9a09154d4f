"""Stead: an isolated, governed, reproducible workspace for every AI-agent session.

    from stead import Sandbox

    with Sandbox.create() as box:
        print(box.commands.run("python3 --version").stdout)

`AsyncSandbox` has the same methods as coroutines.
"""

from ._async.client import AsyncClient
from ._async.commands import AsyncCommand, AsyncCommands
from ._async.files import AsyncFiles
from ._async.network import AsyncNetwork
from ._async.ports import AsyncConnection, AsyncPorts
from ._async.runs import AsyncRun, AsyncRuns
from ._async.sandbox import AsyncForks, AsyncSandbox
from ._async.secrets import AsyncSecrets, AsyncSetupResults
from ._forward import Forward
from ._result import CommandResult, OutputChunk
from ._sync.client import Client
from ._sync.commands import Command, Commands
from ._sync.files import Files
from ._sync.network import Network
from ._sync.ports import Connection, Ports
from ._sync.runs import Run, Runs
from ._sync.sandbox import Forks, Sandbox
from ._sync.secrets import Secrets, SetupResults
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
    "AsyncConnection",
    "AsyncFiles",
    "AsyncForks",
    "AsyncNetwork",
    "AsyncPorts",
    "AsyncRun",
    "AsyncRuns",
    "AsyncSandbox",
    "AsyncSecrets",
    "AsyncSetupResults",
    "BadRequest",
    "Client",
    "Command",
    "CommandFailed",
    "CommandResult",
    "Commands",
    "Conflict",
    "Connection",
    "ConnectionFailed",
    "Files",
    "Forbidden",
    "Forks",
    "Forward",
    "Network",
    "NotFound",
    "OutputChunk",
    "Ports",
    "ProvisioningFailed",
    "Run",
    "Runs",
    "Sandbox",
    "Secrets",
    "ServerError",
    "SetupResults",
    "SteadError",
    "TooManyRequests",
    "Unauthorized",
    "VerificationFailed",
    "__version__",
]
