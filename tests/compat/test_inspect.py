"""Inspect AI's own checks of a sandbox environment, for Stead behind its interface."""

import asyncio
import shlex

import pytest
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
)
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from stead import Refused, Session

KNOWN = {
    # A box has one user and no way to become another: that is its wall.
    "test_exec_as_user": SandboxUserUnsupportedError,
    # What is run is journalled, so a command line has at most 32 KiB; more goes in as a file or on standard input.
    "test_exec_large_command": Refused,
}


class SteadEnvironment(SandboxEnvironment):
    def __init__(self, session):
        self.session = session

    @classmethod
    async def sample_cleanup(cls, task_name, config, environments, interrupted):
        for environment in environments.values():
            await asyncio.to_thread(environment.session.close)

    async def exec(self, cmd, input=None, cwd=None, env=None, user=None, timeout=None, timeout_retry=True, concurrency=True):
        if user is not None:
            raise SandboxUserUnsupportedError("a Stead box has one user")
        if isinstance(input, str):
            input = input.encode()
        most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            done = await asyncio.to_thread(self.session.run, argv=cmd, input=input, cwd=cwd, env=env, timeout=timeout, most=most)
        except OverflowError as error:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, None) from error
        if done.timed_out:
            raise TimeoutError(f"{cmd[0]} took longer than {timeout} s")
        # A program that may not be executed ends with 126, as in a shell.
        if done.exit_code == 126 and b"ermission denied" in done.stderr:
            raise PermissionError(done.stderr.decode())
        if done.error is not None:
            return ExecResult(False, 127, "", done.error["message"])
        return ExecResult(done.exit_code == 0, done.exit_code, done.stdout.decode(), done.stderr.decode())

    async def _shell(self, script, file, input=None):
        """A command whose exit code says what is wrong with a file."""
        done = await asyncio.to_thread(self.session.run, command=script, input=input)
        if done.exit_code == 21:
            raise IsADirectoryError(f"{file} is a directory")
        if done.exit_code == 2:
            raise FileNotFoundError(f"there is no {file}")
        if done.exit_code == 13:
            raise PermissionError(f"no permission for {file}")
        assert done.exit_code == 0, done.stderr
        return done.stdout

    async def write_file(self, file, contents):
        contents = contents.encode() if isinstance(contents, str) else contents
        quoted = shlex.quote(file)
        script = (
            f"[ -d {quoted} ] && exit 21; [ -e {quoted} ] && [ ! -w {quoted} ] && exit 13; "
            f'mkdir -p -- "$(dirname -- {quoted})" || exit 13; cat > {quoted}'
        )
        await self._shell(script, file, contents)

    async def read_file(self, file, text=True):
        quoted, most = shlex.quote(file), SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        script = (
            f"[ -d {quoted} ] && exit 21; [ -e {quoted} ] || exit 2; [ -r {quoted} ] || exit 13; "
            f'[ "$(stat -Lc %s -- {quoted})" -le {most} ] || exit 27; cat -- {quoted}'
        )
        done = await asyncio.to_thread(self.session.run, command=script)
        if done.exit_code == 27:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        content = done.stdout if done.exit_code == 0 else await self._shell(script, file)
        return content.decode() if text else content


@pytest.fixture(scope="module")
def session():
    session = Session()
    yield session
    session.close()


@pytest.fixture
def sandbox_env(session, request):
    known = KNOWN.get(request.node.originalname)
    if known is not None:
        request.node.add_marker(pytest.mark.xfail(raises=known, strict=True))
    return SteadEnvironment(session)
