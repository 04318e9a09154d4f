"""Results and output of commands."""

from __future__ import annotations

import base64
import codecs
from dataclasses import dataclass
from typing import Callable, List, Optional

from .api_types import Exec
from .errors import CommandFailed

LineCallback = Callable[[str], object]


@dataclass(frozen=True)
class CommandResult:
    """The end of a command.

    `seq` is the sequence number of its end in the journal: `box.rewind(result.seq)` restores the
    files as the command left them. `truncated` is true if a part of the output is missing.
    """

    id: str
    exit_code: int
    stdout: str
    stderr: str
    seq: int
    truncated: bool = False
    timed_out: bool = False
    killed: bool = False
    oom: bool = False
    signal: Optional[int] = None
    duration_ms: int = 0

    @property
    def ok(self) -> bool:
        """True if the exit code is 0.

        >>> box.commands.run("true").ok
        True
        """
        return self.exit_code == 0

    def check(self) -> "CommandResult":
        """Returns the result, or raises `CommandFailed` if the exit code is not 0.

        >>> box.commands.run("echo hello").check().stdout
        'hello\\n'
        """
        if self.exit_code == 0:
            return self
        why = "timed out" if self.timed_out else f"ended with exit code {self.exit_code}"
        last = (self.stderr.strip() or self.stdout.strip())[-2000:]
        message = f"the command {why}" + (f": {last}" if last else "")
        raise CommandFailed(message, code="timed_out" if self.timed_out else "exit_code", result=self)


@dataclass(frozen=True)
class OutputChunk:
    """Bytes that a command wrote. `stream` is `stdout` or `stderr`; `seq` counts from 1."""

    seq: int
    stream: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


def decode_chunk(seq: int, stream: str, encoding: str, data: str) -> OutputChunk:
    return OutputChunk(seq, stream, base64.b64decode(data) if encoding == "base64" else data.encode())


def result_of(
    exec: Exec, stdout: Optional[str] = None, stderr: Optional[str] = None, truncated: Optional[bool] = None
) -> CommandResult:
    """Returns the result of an exec that ended, with the output of a stream in place of its own."""
    code = exec["exit_code"]
    if code is None or exec["seq"] is None:
        failure = exec["error"]
        message = failure["message"] if failure else f"the command is {exec['status']}"
        raise CommandFailed(message, code=failure["code"] if failure else exec["status"])
    return CommandResult(
        id=exec["id"],
        exit_code=code,
        stdout=stdout if stdout is not None else exec["stdout"] or "",
        stderr=stderr if stderr is not None else exec["stderr"] or "",
        seq=exec["seq"],
        truncated=exec["truncated"] if truncated is None else truncated,
        timed_out=exec["timed_out"],
        killed=exec["killed"],
        oom=exec["oom"],
        signal=exec["signal"],
        duration_ms=exec["duration_ms"] or 0,
    )


class StreamText:
    """The text of one stream. A chunk may end inside a character or a line."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: List[str] = []
        self._line = ""

    def add(self, data: bytes) -> List[str]:
        """Returns the lines that are complete now, without their line ends."""
        text = self._decoder.decode(data)
        self._parts.append(text)
        *lines, self._line = (self._line + text).split("\n")
        return [line[:-1] if line.endswith("\r") else line for line in lines]

    def end(self) -> List[str]:
        """Returns the last line if it has no line end."""
        text = self._decoder.decode(b"", final=True)
        self._parts.append(text)
        last, self._line = self._line + text, ""
        return [last] if last else []

    def text(self) -> str:
        return "".join(self._parts)
