"""A sandbox provider for Inspect AI, by the name `stead`.

    Task(dataset=…, solver=…, sandbox="stead")
    Task(dataset=…, solver=…, sandbox=("stead", "agent-type"))

Install it with `pip install 'stead[inspect]'`. Inspect finds it by its entry point.
"""

from __future__ import annotations

import base64
import shlex
from typing import Any, Dict, List, Literal, Optional, Union, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)

from .. import AsyncSandbox, CommandFailed, CommandResult, SteadError

_IS_DIRECTORY, _NOT_FOUND, _NO_PERMISSION, _TOO_LARGE = 21, 2, 13, 27


class _TooMuchOutput(Exception):
    pass


@sandboxenv(name="stead")
class SteadSandboxEnvironment(SandboxEnvironment):
    """Runs a sample in a sandbox of its own."""

    def __init__(self, box: AsyncSandbox) -> None:
        self.box = box

    @classmethod
    async def sample_init(
        cls, task_name: str, config: Optional[SandboxEnvironmentConfigType], metadata: Dict[str, str]
    ) -> Dict[str, SandboxEnvironment]:
        agent_type = config if isinstance(config, str) else None
        box = await AsyncSandbox.create(agent_type, metadata={"inspect_task": task_name})
        return {"default": cls(box)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Optional[SandboxEnvironmentConfigType],
        environments: Dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            await environment.as_type(SteadSandboxEnvironment).box.close()

    @classmethod
    async def cli_cleanup(cls, id: Optional[str]) -> None:
        """`inspect sandbox cleanup stead [ID]` closes what an interrupted evaluation left."""
        for box in await AsyncSandbox.list(status="active"):
            is_ours = "inspect_task" in box.session["metadata"]
            if is_ours and id in (None, box.id):
                await box.close()

    async def exec(
        self,
        cmd: List[str],
        input: Union[str, bytes, None] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[int] = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        if user is not None:
            raise SandboxUserUnsupportedError("a box has one user, and no other can be chosen")
        try:
            done = await self._run(cmd, input=input, cwd=cwd, env=env, timeout=timeout)
        except CommandFailed as failure:
            return ExecResult(False, 127, "", failure.message)
        if done.timed_out:
            raise TimeoutError(f"{cmd[0]} took longer than {timeout} s")
        # A program that may not be executed ends with 126, as in a shell.
        if done.exit_code == 126 and "ermission denied" in done.stderr:
            raise PermissionError(done.stderr)
        return ExecResult(done.ok, done.exit_code, done.stdout, done.stderr)

    async def _run(
        self,
        command: Union[str, List[str]],
        *,
        input: Union[str, bytes, None] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        timeout: Optional[int] = None,
        limit: bool = True,
    ) -> CommandResult:
        """Runs a command, and ends it when its output exceeds Inspect's limit."""
        counted = {"stdout": 0, "stderr": 0}

        def count(stream: str, line: str) -> None:
            counted[stream] += len(line.encode()) + 1
            if limit and counted[stream] - 1 > SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE:
                raise _TooMuchOutput

        try:
            return await self.box.commands.run(
                command,
                stdin=input,
                cwd=cwd,
                env=env,
                # Inspect's commands have no time limit unless it asks for one.
                timeout=timeout or 86_400,
                on_stdout=lambda line: count("stdout", line),
                on_stderr=lambda line: count("stderr", line),
            )
        except _TooMuchOutput as error:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, None) from error

    async def write_file(self, file: str, contents: Union[str, bytes]) -> None:
        quoted = shlex.quote(file)
        script = (
            f"[ -d {quoted} ] && exit {_IS_DIRECTORY}; "
            f"[ -e {quoted} ] && [ ! -w {quoted} ] && exit {_NO_PERMISSION}; "
            f'mkdir -p -- "$(dirname -- {quoted})" || exit {_NO_PERMISSION}; '
        )
        if _in_workspace(file):
            _check(await self._run(script + "true"), file)
            await self.box.files.write(file, contents)
        else:
            # Only a command can write to the rest of the box.
            _check(await self._run(script + f"cat > {quoted}", input=contents), file)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> Any:
        quoted, most = shlex.quote(file), SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        script = (
            f"[ -d {quoted} ] && exit {_IS_DIRECTORY}; [ -e {quoted} ] || exit {_NOT_FOUND}; "
            f"[ -r {quoted} ] || exit {_NO_PERMISSION}; "
            f'[ "$(stat -Lc %s -- {quoted})" -le {most} ] || exit {_TOO_LARGE}; '
        )
        script += "true" if _in_workspace(file) else f"base64 -w 76 -- {quoted}"
        done = await self._run(script, limit=False)
        if done.exit_code == _TOO_LARGE:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        _check(done, file)
        content = await self.box.files.read_bytes(file) if _in_workspace(file) else base64.b64decode(done.stdout)
        return content.decode("utf-8") if text else content


def _in_workspace(file: str) -> bool:
    """True for paths that the files API serves, which is faster than a command for large files."""
    return ".." not in file.split("/") and (not file.startswith("/") or file.startswith("/workspace/"))


def _check(done: CommandResult, file: str) -> None:
    """Raises what the exit code says about the file."""
    if done.exit_code == _IS_DIRECTORY:
        raise IsADirectoryError(f"{file} is a directory")
    if done.exit_code == _NOT_FOUND:
        raise FileNotFoundError(f"{file} does not exist")
    if done.exit_code == _NO_PERMISSION:
        raise PermissionError(f"no permission for {file}")
    if not done.ok:
        raise SteadError(done.stderr.strip() or f"exit code {done.exit_code}", code="command_failed")
