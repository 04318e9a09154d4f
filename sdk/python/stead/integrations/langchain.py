"""A backend for LangChain deepagents.

    from deepagents import create_deep_agent
    from stead import Sandbox
    from stead.integrations.langchain import SteadBackend

    with Sandbox.create(repo="https://example.com/project.git") as box:
        agent = create_deep_agent(backend=SteadBackend(box))

Install it with `pip install 'stead[langchain]'`.
"""

from __future__ import annotations

import base64
import shlex
from typing import Any, Dict, List, Optional, Tuple

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from .. import CommandFailed, Sandbox, SteadError

# Problem codes in the words of the protocol.
_ERRORS: Dict[str, Any] = {
    "not_found": "file_not_found",
    "forbidden": "permission_denied",
    "invalid_request": "invalid_path",
}
_DOWNLOAD_ERRORS: Dict[int, Any] = {21: "is_directory", 2: "file_not_found", 13: "permission_denied"}


class SteadBackend(BaseSandbox):
    """Runs the commands and the file tools of an agent in a sandbox."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box

    @property
    def id(self) -> str:
        return self.box.id

    def execute(self, command: str, *, timeout: Optional[int] = None) -> ExecuteResponse:
        # Debian, whose system directories a native box shows, has its Python only as python3.
        script = f'exec 2>&1\ncommand -v python > /dev/null || python() {{ python3 "$@"; }}\n{command}'
        lines: List[str] = []
        try:
            done = self.box.commands.run(script, timeout=timeout, on_stdout=lines.append)
        except CommandFailed as failure:
            return ExecuteResponse(output=failure.message, exit_code=None, truncated=False)
        return ExecuteResponse(output=done.stdout, exit_code=done.exit_code, truncated=done.truncated)

    def upload_files(self, files: List[Tuple[str, bytes]]) -> List[FileUploadResponse]:
        return [self._upload(path, content) for path, content in files]

    def download_files(self, paths: List[str]) -> List[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        if not path.startswith("/"):
            return FileUploadResponse(path=path, error="invalid_path")
        if not path.startswith("/workspace/"):
            return self._upload_outside(path, content)
        try:
            self.box.files.write(path, content)
            return FileUploadResponse(path=path, error=None)
        except SteadError as error:
            return FileUploadResponse(path=path, error=_ERRORS.get(error.code, "invalid_path"))

    def _upload_outside(self, path: str, content: bytes) -> FileUploadResponse:
        """The files API serves the workspace. Only a command can write to the rest of the box."""
        quoted = shlex.quote(path)
        done = self.box.commands.run(f'mkdir -p "$(dirname {quoted})" && cat > {quoted}', stdin=content)
        return FileUploadResponse(path=path, error=None if done.ok else "permission_denied")

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        quoted = shlex.quote(path)
        probe = (
            f"if [ -d {quoted} ]; then exit 21; elif [ ! -e {quoted} ]; then exit 2; "
            f"elif [ ! -r {quoted} ]; then exit 13; fi; base64 -w 76 {quoted}"
        )
        encoded: List[str] = []
        done = self.box.commands.run(probe, on_stdout=encoded.append)
        if done.exit_code in _DOWNLOAD_ERRORS:
            return FileDownloadResponse(path=path, error=_DOWNLOAD_ERRORS[done.exit_code])
        return FileDownloadResponse(path=path, content=base64.b64decode("".join(encoded)), error=None)
