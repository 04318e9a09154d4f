"""Files of a sandbox."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO, Any, List, Mapping, Optional, Sequence, Union
from urllib.parse import quote

from .. import _archive
from ..api_types import FileEntry, Placed
from ..errors import NotFound, SteadError
from .http import AsyncHttp, segment
from .loop import blocking, file_content

LocalPath = Union[str, "os.PathLike[str]"]
ROOT = "/workspace"


def relative(path: str) -> str:
    """Returns the path below the workspace. `/workspace/a`, `/a` and `a` name the same file."""
    if path == ROOT or path.startswith(ROOT + "/"):
        path = path[len(ROOT) :]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "/".join(parts)


class AsyncFiles:
    """`box.files`: reads and writes files of the workspace. Paths start at its root."""

    def __init__(self, http: AsyncHttp, session: str) -> None:
        self._http = http
        self._session = f"/sessions/{segment(session)}"

    def _path(self, path: str) -> str:
        inside = relative(path)
        return f"{self._session}/files" + (f"/{quote(inside, safe='/')}" if inside else "")

    async def read(self, path: str) -> str:
        """Returns the text of a file.

        >>> _ = await box.files.write("greeting.txt", "hello")
        >>> await box.files.read("greeting.txt")
        'hello'
        """
        return (await self.read_bytes(path)).decode("utf-8")

    async def read_bytes(self, path: str) -> bytes:
        """Returns the bytes of a file.

        >>> _ = await box.files.write("data.bin", b"\\x00\\xff")
        >>> await box.files.read_bytes("data.bin")
        b'\\x00\\xff'
        """
        response = await self._http.request("GET", self._path(path))
        if response.headers.get("content-type", "").startswith("application/json") and "etag" not in response.headers:
            raise SteadError(f"{path} is a directory", code="is_a_directory", hint="use list() or download()")
        return response.content

    async def write(self, path: str, data: Union[str, bytes], *, if_match: Optional[str] = None) -> Placed:
        """Writes a file and makes its missing parent directories. With `if_match`, the write fails
        with `Conflict` unless the file still has this hash.

        >>> written = await box.files.write("notes/a.txt", "one")
        >>> written["bytes"]
        3
        >>> _ = await box.files.write("notes/a.txt", "two", if_match=written["hash"])
        """
        content = data.encode() if isinstance(data, str) else data
        headers = {"Content-Type": "application/octet-stream"}
        if if_match is not None:
            headers["If-Match"] = f'"{if_match}"'
        return await self._put(path, content, headers, {"mkdir": 1})

    async def _put(self, path: str, content: Any, headers: Mapping[str, str], params: Mapping[str, Any]) -> Placed:
        placed: Placed = await self._http.json(
            "PUT", self._path(path), content=content, params=params, headers=headers, patience=600
        )
        return placed

    async def list(self, path: str = "") -> List[FileEntry]:
        """Returns the entries of a directory.

        >>> _ = await box.files.write("src/a.py", "")
        >>> [entry["path"] for entry in await box.files.list("src")]
        ['src/a.py']
        """
        listing = await self._http.json("GET", self._path(path), headers={"Accept": "application/json"})
        if not isinstance(listing, dict) or "entries" not in listing:
            raise SteadError(f"{path} is not a directory", code="not_a_directory")
        entries: List[FileEntry] = listing["entries"]
        return entries

    async def stat(self, path: str) -> FileEntry:
        """Returns kind, size and modification time of a file or directory.

        >>> _ = await box.files.write("a.txt", "12345")
        >>> (await box.files.stat("a.txt"))["size"]
        5
        """
        result: FileEntry = await self._tool("stat", {"path": relative(path) or "."}, path)
        return result

    async def exists(self, path: str) -> bool:
        """Returns true if there is a file or directory.

        >>> await box.files.exists("nothing-here")
        False
        """
        try:
            await self._http.request("HEAD", self._path(path))
            return True
        except NotFound as error:
            if error.parameters.get("resource") == "session" or error.code == "no_workspace":
                raise
            return False

    async def mkdir(self, path: str) -> None:
        """Makes a directory and its missing parents.

        >>> await box.files.mkdir("a/b/c")
        >>> (await box.files.stat("a/b/c"))["kind"]
        'directory'
        """
        await self._put(path, b"", {"Content-Type": "application/octet-stream"}, {"format": "directory"})

    async def move(self, source: str, destination: str) -> None:
        """Moves a file or directory.

        >>> _ = await box.files.write("old.txt", "x")
        >>> await box.files.move("old.txt", "new.txt")
        >>> await box.files.exists("old.txt"), await box.files.exists("new.txt")
        (False, True)
        """
        await self._tool("move", {"source": relative(source), "destination": relative(destination)}, source)

    async def copy(self, source: str, destination: str) -> None:
        """Copies a file or directory.

        >>> _ = await box.files.write("one.txt", "x")
        >>> await box.files.copy("one.txt", "two.txt")
        >>> await box.files.read("two.txt")
        'x'
        """
        await self._tool("copy", {"source": relative(source), "destination": relative(destination)}, source)

    async def remove(self, path: str) -> None:
        """Removes a file, or a directory with everything in it.

        >>> _ = await box.files.write("old/a.txt", "x")
        >>> await box.files.remove("old")
        >>> await box.files.exists("old/a.txt")
        False
        """
        await self._http.request("DELETE", self._path(path))

    async def upload(self, local: LocalPath, path: str = "", *, exclude: Sequence[str] = ()) -> None:
        """Uploads a file, or the files of a directory. `exclude` has patterns of names and paths.

        >>> (tmp / "project").mkdir()
        >>> _ = (tmp / "project/main.py").write_text("print('hi')")
        >>> await box.files.upload(tmp / "project", "app", exclude=[".venv"])
        >>> (await box.commands.run("python3 app/main.py")).stdout
        'hi\\n'
        """
        source = Path(local)
        headers = {"Content-Type": "application/octet-stream"}
        if not source.is_dir():
            target = f"{path}/{source.name}" if path in ("", ".") or path.endswith("/") else path
            headers["Content-Length"] = str(source.stat().st_size)
            await self._put(target, file_content(source), headers, {"mkdir": 1})
            return
        if relative(path):
            await self.mkdir(path)
        with tempfile.NamedTemporaryFile(prefix="stead-", suffix=".tar") as archive:
            await blocking(_pack, source, list(exclude), archive)
            headers["Content-Length"] = str(os.path.getsize(archive.name))
            await self._put(path, file_content(Path(archive.name)), headers, {"format": "tar"})

    async def download(self, path: str, local: LocalPath) -> None:
        """Downloads a file, or the files of a directory. No file is written outside of `local`.

        >>> _ = await box.files.write("out/report.txt", "done")
        >>> await box.files.download("out", tmp / "out")
        >>> (tmp / "out/report.txt").read_text()
        'done'
        """
        target = Path(local)
        is_directory = not relative(path) or (await self.stat(path))["kind"] == "directory"
        params = {"format": "tar"} if is_directory else None
        folder = None if is_directory else str(target.absolute().parent)
        with tempfile.NamedTemporaryFile(prefix=".stead-", dir=folder, delete=False) as file:
            try:
                async with self._http.stream(self._path(path), params=params) as response:
                    async for chunk in response.aiter_bytes():
                        file.write(chunk)
                file.flush()
                if is_directory:
                    file.seek(0)
                    await blocking(_archive.unpack, file, target)
                else:
                    os.chmod(file.name, 0o644)
                    os.replace(file.name, target)
            finally:
                if os.path.exists(file.name):
                    os.unlink(file.name)

    async def read_tar(self, path: str = "") -> bytes:
        """Returns a directory as a tar.

        >>> _ = await box.files.write("a.txt", "x")
        >>> len(await box.files.read_tar()) > 0
        True
        """
        return (await self._http.request("GET", self._path(path), params={"format": "tar"}, patience=600)).content

    async def write_tar(self, archive: bytes, path: str = "") -> None:
        """Unpacks an archive (tar, tar.gz, tar.zst or zip) into a directory, completely or not at
        all.

        >>> _ = await box.files.write("a/b.txt", "x")
        >>> await box.files.write_tar(await box.files.read_tar("a"))
        >>> await box.files.read("b.txt")
        'x'
        """
        if relative(path):
            await self.mkdir(path)
        await self._put(path, archive, {"Content-Type": "application/octet-stream"}, {"format": "tar"})

    async def _tool(self, tool: str, arguments: Mapping[str, Any], path: str) -> Any:
        answer = await self._http.json("POST", f"{self._session}/tools/{tool}", body=dict(arguments))
        if answer["ok"]:
            return answer.get("result")
        failure = answer["error"]
        kind = NotFound if failure["code"] == "not_found" else SteadError
        raise kind(failure["message"], code=failure["code"], hint=failure.get("hint"))


def _pack(source: Path, exclude: List[str], archive: IO[bytes]) -> None:
    _archive.pack(source, exclude, archive)
    archive.flush()
