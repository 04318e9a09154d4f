"""Commands in the box of a sandbox."""

from __future__ import annotations

import base64
import json
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Sequence, Union

from .._result import CommandResult, LineCallback, OutputChunk, StreamText, decode_chunk, result_of
from ..api_types import Exec
from ..errors import CommandFailed, SteadError
from .http import AsyncHttp, segment
from .loop import Task, deliver

# The largest standard input that fits into the request that starts a command.
_STDIN_IN_REQUEST = 1 << 20
_STDIN_PIECE = 1 << 18
_WAIT = 60
# The time limit of a command if the request has none.
_DEFAULT_TIMEOUT = 120

Argv = Union[str, Sequence[str]]
# A text, or `{"secret": NAME}` for the placeholder of a secret.
EnvValue = Union[str, Mapping[str, str]]


def _order(
    command: Argv, cwd: Optional[str], env: Optional[Mapping[str, EnvValue]], timeout: Optional[float]
) -> Dict[str, Any]:
    """Returns the body of a request. A text runs in bash, a list runs without a shell."""
    order: Dict[str, Any] = {"command": command} if isinstance(command, str) else {"argv": list(command)}
    if cwd is not None:
        order["cwd"] = cwd
    if env is not None:
        order["env"] = dict(env)
    if timeout is not None:
        order["timeout_seconds"] = max(1, round(timeout))
    return order


class AsyncCommand:
    """A command that runs in the background. It continues if this process ends; `connect` finds it
    by its id."""

    def __init__(self, http: AsyncHttp, session: str, id: str) -> None:
        self._http = http
        self._path = f"/sessions/{segment(session)}/execs/{segment(id)}"
        self.id = id

    async def info(self) -> Exec:
        """Returns the exec: status, exit code, command line.

        >>> command = await box.commands.start("sleep 60")
        >>> (await command.info())["status"]
        'running'
        """
        exec: Exec = await self._http.json("GET", self._path)
        return exec

    async def output(self, after: int = 0) -> AsyncIterator[OutputChunk]:
        """Yields the output from a chunk on until the command ends, also after a lost connection.
        A box keeps the latest 1 MiB of each stream for a reader that comes later.

        >>> command = await box.commands.start("echo one; echo two >&2")
        >>> sorted([(chunk.stream, chunk.text) async for chunk in command.output()])
        [('stderr', 'two\\n'), ('stdout', 'one\\n')]
        """
        async for event in self._http.events(f"{self._path}/stream", after):
            if event.event == "output":
                data = json.loads(event.data)
                yield decode_chunk(data["seq"], data["stream"], data["encoding"], data["data"])
            elif event.event == "finished":
                return

    async def wait(
        self, *, on_stdout: Optional[LineCallback] = None, on_stderr: Optional[LineCallback] = None
    ) -> CommandResult:
        """Waits for the end of the command. The callbacks get each line, without its line end.

        >>> command = await box.commands.start("echo one; echo two")
        >>> result = await command.wait(on_stdout=print)
        one
        two
        >>> result.exit_code
        0
        """
        if on_stdout is None and on_stderr is None:
            while True:
                exec: Exec = await self._http.json("GET", self._path, params={"wait": _WAIT}, patience=_WAIT)
                if exec["status"] != "running":
                    return await _whole_result(self._http, self._path, exec)
        return await self._follow(on_stdout, on_stderr)

    async def _follow(
        self, on_stdout: Optional[LineCallback] = None, on_stderr: Optional[LineCallback] = None
    ) -> CommandResult:
        texts = {"stdout": StreamText(), "stderr": StreamText()}
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}

        async def tell(stream: str, lines: List[str]) -> None:
            callback = callbacks[stream]
            if callback is not None:
                for line in lines:
                    await deliver(callback, line)

        missed = False
        async for event in self._http.events(f"{self._path}/stream", 0):
            data = json.loads(event.data)
            if event.event == "output":
                chunk = decode_chunk(data["seq"], data["stream"], data["encoding"], data["data"])
                await tell(chunk.stream, texts[chunk.stream].add(chunk.data))
            elif event.event == "missed":
                missed = True
            elif event.event == "finished":
                for stream, text in texts.items():
                    await tell(stream, text.end())
                return result_of(data, texts["stdout"].text(), texts["stderr"].text(), missed)
        raise CommandFailed("the output ended before the command", code="stream_lost")

    async def write(self, data: Union[str, bytes]) -> None:
        """Writes to the standard input of the command.

        >>> command = await box.commands.start("read name; echo hello $name")
        >>> await command.write("Ada\\n")
        >>> (await command.wait()).stdout
        'hello Ada\\n'
        """
        encoded = data.encode() if isinstance(data, str) else data
        for start in range(0, len(encoded), _STDIN_PIECE):
            await self._feed({"data": encoded[start : start + _STDIN_PIECE]})

    async def close_stdin(self) -> None:
        """Ends the standard input of the command.

        >>> command = await box.commands.start("cat")
        >>> await command.write("all of it")
        >>> await command.close_stdin()
        >>> (await command.wait()).stdout
        'all of it'
        """
        await self._feed({"close": True})

    async def _feed(self, body: Dict[str, Any]) -> None:
        if "data" in body:
            body = {**body, "data": base64.b64encode(body["data"]).decode(), "encoding": "base64"}
        await self._http.request("POST", f"{self._path}/stdin", body=body)

    async def signal(self, signal: Union[str, int]) -> None:
        """Sends a signal, by name or number, to the process group of the command.

        >>> command = await box.commands.start("sleep 60")
        >>> await command.signal("TERM")
        >>> (await command.wait()).signal
        15
        """
        await self._http.request("POST", f"{self._path}/signal", body={"signal": signal})

    async def kill(self) -> None:
        """Kills every process of the command, including those it left behind.

        >>> command = await box.commands.start("sleep 60")
        >>> await command.kill()
        >>> (await command.wait()).killed
        True
        """
        await self._http.request("DELETE", self._path)

    async def resize(self, rows: int, columns: int) -> None:
        """Resizes the terminal of a command that has one.

        >>> shell = await box.commands.pty("bash --norc", rows=24, columns=80)
        >>> await shell.resize(40, 120)
        >>> await shell.write("stty size; exit\\n")
        >>> "40 120" in (await shell.wait()).stdout
        True
        """
        await self._http.request("POST", f"{self._path}/resize", body={"rows": rows, "columns": columns})


class AsyncCommands:
    """`box.commands`: runs commands in the box."""

    def __init__(self, http: AsyncHttp, session: str) -> None:
        self._http = http
        self._session = session
        self._path = f"/sessions/{segment(session)}/execs"

    async def run(
        self,
        command: Argv,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, EnvValue]] = None,
        stdin: Union[str, bytes, None] = None,
        timeout: Optional[float] = None,
        on_stdout: Optional[LineCallback] = None,
        on_stderr: Optional[LineCallback] = None,
        check: bool = False,
    ) -> CommandResult:
        """Runs a command to its end. A text runs in bash, a list runs without a shell.

        The callbacks get each line while the command runs, without its line end; if one raises, the
        command is killed. With a callback the result has all of the output. Without one, the middle
        of more than 1 MiB is omitted, and `truncated` is true.
        After `timeout` seconds (120 if not given) every process of the command is killed. With
        `check=True`, another exit code than 0 raises `CommandFailed`.

        >>> result = await box.commands.run("echo out; echo err >&2; exit 3")
        >>> result.exit_code, result.stdout, result.stderr
        (3, 'out\\n', 'err\\n')
        >>> result = await box.commands.run(["printf", "%s\\\\n", "a", "b"], on_stdout=print)
        a
        b
        """
        order = _order(command, cwd, env, timeout)
        in_request = stdin is None or (isinstance(stdin, str) and len(stdin.encode()) <= _STDIN_IN_REQUEST)
        if in_request and on_stdout is None and on_stderr is None:
            if stdin is not None:
                order["stdin"] = stdin
            patience = timeout or _DEFAULT_TIMEOUT
            exec: Exec = await self._http.json("POST", self._path, body=order, creates=True, patience=patience)
            result = await _whole_result(self._http, f"{self._path}/{segment(exec['id'])}", exec)
        else:
            order.setdefault("timeout_seconds", _DEFAULT_TIMEOUT)
            # The command waits for this reader, so that no output is lost.
            started = await self._start({**order, "unread": "wait", "stdin": stdin is not None})
            try:
                result = await _fed(started, stdin, on_stdout, on_stderr)
            except BaseException:
                # A callback failed, or the caller was interrupted: nobody reads the output.
                await started.kill()
                raise
        return result.check() if check else result

    async def start(
        self,
        command: Argv,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, EnvValue]] = None,
        timeout: Optional[float] = None,
    ) -> AsyncCommand:
        """Starts a command in the background, with an open standard input and without a time limit.

        >>> server = await box.commands.start("python3 -m http.server 8000")
        >>> (await box.commands.run("sleep 0.1")).ok
        True
        >>> await server.kill()
        """
        return await self._start({**_order(command, cwd, env, timeout), "stdin": True})

    async def pty(
        self,
        command: Argv = "bash",
        *,
        rows: int = 24,
        columns: int = 80,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, EnvValue]] = None,
        timeout: Optional[float] = None,
    ) -> AsyncCommand:
        """Starts a command with a terminal.

        >>> shell = await box.commands.pty("bash --norc")
        >>> await shell.write("tty; exit\\n")
        >>> "/dev/pts/" in (await shell.wait()).stdout
        True
        """
        size = {"rows": rows, "columns": columns}
        return await self._start({**_order(command, cwd, env, timeout), "pty": size})

    async def _start(self, order: Dict[str, Any]) -> AsyncCommand:
        body = {**order, "background": True}
        exec: Exec = await self._http.json("POST", self._path, body=body, creates=True)
        if exec["status"] == "failed":
            result_of(exec)  # raises the reason
        return self.connect(exec["id"])

    def connect(self, id: str) -> AsyncCommand:
        """Returns a handle for a command that was started earlier or by another process.

        >>> started = await box.commands.start("echo still here")
        >>> (await box.commands.connect(started.id).wait()).stdout
        'still here\\n'
        """
        return AsyncCommand(self._http, self._session, id)

    async def list(self) -> List[Exec]:
        """Returns the running commands and the latest ended ones, oldest first.

        >>> started = await box.commands.start("sleep 60")
        >>> [one["status"] for one in await box.commands.list() if one["id"] == started.id]
        ['running']
        """
        found: List[Exec] = await self._http.pages(self._path)
        return found


async def _fed(
    command: AsyncCommand,
    stdin: Union[str, bytes, None],
    on_stdout: Optional[LineCallback],
    on_stderr: Optional[LineCallback],
) -> CommandResult:
    """Writes the standard input while the output is read: either may block on the other."""
    if stdin is None:
        return await command._follow(on_stdout, on_stderr)

    async def feed() -> None:
        try:
            await command.write(stdin)
            await command.close_stdin()
        except SteadError as error:
            # The command ended without reading all of it.
            if error.status is None or error.status >= 500:
                raise

    feeding = Task(feed)
    result = await command._follow(on_stdout, on_stderr)
    await feeding.join()
    return result


async def _whole_result(http: AsyncHttp, path: str, exec: Exec) -> CommandResult:
    """Returns the result with the output that the box still has, if the journal has only a part."""
    if not exec["truncated"]:
        return result_of(exec)
    texts = {"stdout": StreamText(), "stderr": StreamText()}
    after = 0
    while True:
        page = await http.json("GET", f"{path}/output", params={"after": after or None})
        if page["missed"]:
            return result_of(exec)
        for chunk in page["chunks"]:
            decoded = decode_chunk(chunk["seq"], chunk["stream"], chunk["encoding"], chunk["data"])
            texts[decoded.stream].add(decoded.data)
        after = page["after"]
        if not page["more"]:
            break
    for text in texts.values():
        text.end()
    return result_of(exec, texts["stdout"].text(), texts["stderr"].text(), False)
