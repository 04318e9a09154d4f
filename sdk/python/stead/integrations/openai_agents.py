"""A sandbox client for the OpenAI Agents SDK.

    from agents.run import RunConfig
    from agents.sandbox import SandboxAgent, SandboxRunConfig
    from stead.integrations.openai_agents import SteadSandboxClient

    config = RunConfig(sandbox=SandboxRunConfig(client=SteadSandboxClient()))
    await Runner.run(SandboxAgent(name="coder", …), "Fix the test", run_config=config)

Install it with `pip install 'stead[openai-agents]'`.
"""

from __future__ import annotations

import io
import uuid
from pathlib import Path
from typing import Any, Dict, Literal, Optional, Union

from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceWriteTypeError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.session import SandboxSession, SandboxSessionState
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.manager import Instrumentation
from agents.sandbox.session.runtime_helpers import RESOLVE_WORKSPACE_PATH_HELPER
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from agents.sandbox.types import ExecResult, User

from .. import AsyncClient, AsyncSandbox, NotFound, SteadError

_ROOT = "/workspace"
_NO_LIMIT = 86_400.0


class SteadSandboxClientOptions(BaseSandboxClientOptions):
    """What a sandbox is made from: an agent type, or an image for the type `base`."""

    type: Literal["stead"] = "stead"
    agent_type: Optional[str] = None
    image: Optional[str] = None
    env: Dict[str, str] = {}
    timeout: Optional[int] = None


class SteadSandboxSessionState(SandboxSessionState):
    """The state with which a session is resumed, also in another process."""

    type: Literal["stead"] = "stead"
    sandbox_id: str
    options: SteadSandboxClientOptions


class SteadSandboxSession(BaseSandboxSession):
    """A session of the Agents SDK in a sandbox."""

    state: SteadSandboxSessionState

    def __init__(self, *, state: SteadSandboxSessionState, box: AsyncSandbox) -> None:
        self.state = state
        self.box = box

    def _runtime_helpers(self) -> Any:
        return (RESOLVE_WORKSPACE_PATH_HELPER,)

    async def _validate_path_access(self, path: Union[Path, str], *, for_write: bool = False) -> Path:
        return Path(await self._validate_remote_path_access(path, for_write=for_write))

    async def _shutdown_backend(self) -> None:
        await self.box.close()

    async def _exec_internal(self, *command: Union[str, Path], timeout: Optional[float] = None) -> ExecResult:
        environment = await self.state.manifest.environment.resolve()
        ignored: "list[str]" = []
        try:
            done = await self.box.commands.run(
                [str(part) for part in command],
                env={name: value for name, value in environment.items() if value is not None},
                timeout=timeout or _NO_LIMIT,
                # With a callback the output is whole.
                on_stdout=ignored.append,
            )
        except SteadError as error:
            raise ExecTransportError(command=command, cause=error) from error
        if done.timed_out:
            raise ExecTimeoutError(command=command, timeout_s=timeout)
        return ExecResult(stdout=done.stdout.encode(), stderr=done.stderr.encode(), exit_code=done.exit_code)

    async def read(self, path: Path, *, user: Union[str, User, None] = None) -> io.IOBase:
        if user is not None:
            await self._check_read_with_exec(path, user=user)
        inside = await self._validate_path_access(path)
        try:
            return io.BytesIO(await self.box.files.read_bytes(inside.as_posix()))
        except NotFound as error:
            raise WorkspaceReadNotFoundError(path=path, cause=error) from error
        except SteadError as error:
            raise WorkspaceArchiveReadError(path=path, cause=error) from error

    async def write(self, path: Path, data: io.IOBase, *, user: Union[str, User, None] = None) -> None:
        if user is not None:
            await self._check_write_with_exec(path, user=user)
        inside = await self._validate_path_access(path, for_write=True)
        try:
            await self.box.files.write(inside.as_posix(), _payload(path, data))
        except SteadError as error:
            raise WorkspaceArchiveWriteError(path=path, cause=error) from error

    async def running(self) -> bool:
        try:
            return (await self.box.refresh())["status"] == "active"
        except SteadError:
            return False

    async def persist_workspace(self) -> io.IOBase:
        try:
            return io.BytesIO(await self.box.files.read_tar())
        except SteadError as error:
            raise WorkspaceArchiveReadError(path=Path(_ROOT), cause=error) from error

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        try:
            # The server unpacks it completely or not at all, and nothing outside of the workspace.
            await self.box.files.write_tar(_payload(Path(_ROOT), data))
        except SteadError as error:
            raise WorkspaceArchiveWriteError(path=Path(_ROOT), cause=error) from error


class SteadSandboxClient(BaseSandboxClient[SteadSandboxClientOptions]):
    """Makes, resumes and deletes sandboxes for the Agents SDK."""

    backend_id = "stead"
    supports_default_options = True

    def __init__(self, *, client: Optional[AsyncClient] = None, instrumentation: Any = None) -> None:
        self._client = client
        self._instrumentation = instrumentation or Instrumentation()

    async def create(
        self,
        *,
        snapshot: Union[SnapshotSpec, SnapshotBase, None] = None,
        manifest: Optional[Manifest] = None,
        options: Optional[SteadSandboxClientOptions] = None,
    ) -> SandboxSession:
        manifest = self._validate_manifest_for_create(manifest or Manifest(root=_ROOT))
        if str(manifest.root) != _ROOT:
            raise SteadError(f"the root of a manifest must be {_ROOT}", code="invalid_request")
        options = options or SteadSandboxClientOptions()
        session_id = uuid.uuid4()
        box = await self._box(options)
        state = SteadSandboxSessionState(
            session_id=session_id,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(session_id)),
            sandbox_id=box.id,
            options=options,
        )
        return self._session(state, box)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        inner = session._inner
        if not isinstance(inner, SteadSandboxSession):
            raise TypeError("this client deletes only its own sessions")
        await inner.shutdown()
        return session

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        if not isinstance(state, SteadSandboxSessionState):
            raise TypeError("this client resumes only its own sessions")
        state.assert_path_grants_rebound()
        box = await self._living(state.sandbox_id)
        is_same = box is not None
        if box is None:
            box = await self._box(state.options)
            state.sandbox_id = box.id
            state.workspace_root_ready = False
        session = self._session(state, box)
        session._inner._set_start_state_preserved(is_same, system=is_same)
        return session

    def deserialize_session_state(self, payload: Dict[str, object]) -> SandboxSessionState:
        return self._deserialize_session_state_payload(payload, SteadSandboxSessionState)

    async def _box(self, options: SteadSandboxClientOptions) -> AsyncSandbox:
        return await AsyncSandbox.create(
            options.agent_type,
            image=options.image,
            env=options.env,
            timeout=options.timeout,
            metadata={"openai_agents": True},
            client=self._client,
        )

    async def _living(self, id: str) -> Optional[AsyncSandbox]:
        """Returns the sandbox if it still exists, and resumes it if it is paused."""
        try:
            box = await AsyncSandbox.connect(id, client=self._client)
            if box.session["status"] == "paused":
                await box.resume()
        except NotFound:
            return None
        return box if box.session["status"] == "active" else None

    def _session(self, state: SteadSandboxSessionState, box: AsyncSandbox) -> SandboxSession:
        return self._wrap_session(SteadSandboxSession(state=state, box=box), instrumentation=self._instrumentation)


def _payload(path: Path, data: io.IOBase) -> bytes:
    content: Any = data.read()
    if isinstance(content, str):
        return content.encode()
    if not isinstance(content, (bytes, bytearray)):
        raise WorkspaceWriteTypeError(path=path, actual_type=type(content).__name__)
    return bytes(content)
