"""A connection to a server, and what belongs to the server and not to one sandbox."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any, Dict, List, Mapping, MutableMapping, Optional, Union

from ..api_types import AgentType, Blob, ContentHistory, ContentVersion, Image, Tool, Whoami
from ..errors import Conflict, NotFound
from .http import AsyncHttp, segment
from .loop import blocking, file_content, scope
from .secrets import AsyncSecrets, AsyncSetupResults

LocalPath = Union[str, "os.PathLike[str]"]


class AsyncContent:
    """`client.content`: prompt packs and tool catalogs in numbered versions."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def push(
        self, name: str, files: Union[LocalPath, Mapping[str, str]], *, expected_head: Optional[int] = None
    ) -> ContentVersion:
        """Stores a version. `files` is a directory or a mapping from paths to texts.

        >>> manifest = '{"schema_version": 1, "prompt_packs": {"main": "pack.json"}}'
        >>> pack = '{"templates": ["system.md"]}'
        >>> files = {"agent.workspace.json": manifest, "pack.json": pack, "system.md": "Be brief."}
        >>> pushed = await client.content.push("support", files)
        >>> pushed["valid"]
        True
        """
        if not isinstance(files, Mapping):
            root = Path(files)
            files = await blocking(_texts, root)
        path = f"/content/{segment(name)}/versions"
        params = {"expected_head": expected_head}
        body = {"files": dict(files)}
        version: ContentVersion = await self._http.json("POST", path, body=body, params=params, creates=True)
        return version

    async def list(self) -> List[ContentVersion]:
        """Returns the newest version of each content.

        >>> _ = await client.content.push("listed", {"agent.workspace.json": '{"schema_version": 1}'})
        >>> "listed" in [one["name"] for one in await client.content.list()]
        True
        """
        found: List[ContentVersion] = await self._http.pages("/content")
        return found

    async def history(self, name: str) -> ContentHistory:
        """Returns the versions of a content.

        >>> _ = await client.content.push("known", {"agent.workspace.json": '{"schema_version": 1}'})
        >>> (await client.content.history("known"))["name"]
        'known'
        """
        history: ContentHistory = await self._http.json("GET", f"/content/{segment(name)}")
        return history


class AsyncAgentTypes:
    """`client.agent_types`: what sandboxes are made from."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def list(self) -> List[AgentType]:
        """Returns the agent types.

        >>> "base" in [one["id"] for one in await client.agent_types.list()]
        True
        """
        found: List[AgentType] = await self._http.pages("/agent-types")
        return found

    async def get(self, id: str) -> AgentType:
        """Returns an agent type.

        >>> (await client.agent_types.get("base"))["workspace"]["rewind"]["points"]
        'layers'
        """
        found: AgentType = await self._http.json("GET", f"/agent-types/{segment(id)}")
        return found

    async def put(self, id: str, **declaration: Any) -> AgentType:
        """Declares an agent type, or replaces it.

        >>> declared = await client.agent_types.put("reader", workspace={"enabled": True, "tools": ["read", "ls"]})
        >>> declared["workspace"]["tools"]
        ['read', 'ls']
        """
        body = {"id": id, **declaration}
        try:
            put: AgentType = await self._http.json("PUT", f"/agent-types/{segment(id)}", body=body)
            return put
        except NotFound:
            created: AgentType = await self._http.json("POST", "/agent-types", body=body, creates=True)
            return created

    async def delete(self, id: str) -> None:
        """Removes an agent type that no session uses.

        >>> _ = await client.agent_types.put("short-lived", workspace={"enabled": False})
        >>> await client.agent_types.delete("short-lived")
        """
        await self._http.request("DELETE", f"/agent-types/{segment(id)}")

    async def _ensure(self, id: str, image: Optional[str]) -> None:
        """Declares the agent type of sandboxes that name none, if the server does not have it."""
        declaration: Dict[str, Any] = {
            "id": id,
            "description": "An empty workspace with every tool and with checkpoints.",
            "workspace": {
                "enabled": True,
                "workspace_policy": "empty",
                "require_workspace": True,
                "rewind": {"points": "layers"},
            },
        }
        if image is not None:
            declaration["description"] = f"As `base`, from the image {image}."
            declaration["workspace"]["base_image"] = image
        try:
            await self._http.request("POST", "/agent-types", body=declaration, creates=True)
        except Conflict:
            pass  # another client was faster


class AsyncClient:
    """A connection to a Stead server. Without arguments it uses `STEAD_URL` and `STEAD_TOKEN`, the
    login of `stead login`, the server of this machine, or a server that it starts.

    >>> async with AsyncClient() as client:
    ...     print((await client.whoami())["role"])
    admin
    """

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, *, retries: int = 5) -> None:
        self.http = AsyncHttp(url, token, retries)
        self.content = AsyncContent(self.http)
        self.agent_types = AsyncAgentTypes(self.http)
        self.secrets = AsyncSecrets(self.http)
        self.setup_results = AsyncSetupResults(self.http)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. Sandboxes stay.

        >>> other = AsyncClient()
        >>> await other.close()
        """
        await self.http.close()

    async def url(self) -> str:
        """Returns the URL of the server.

        >>> (await client.url()).startswith("http://127.0.0.1:")
        True
        """
        return (await self.http.endpoint()).url

    async def whoami(self) -> Whoami:
        """Returns the role and the permissions of the token.

        >>> (await client.whoami())["role"]
        'admin'
        """
        found: Whoami = await self.http.json("GET", "/whoami")
        return found

    async def tools(self) -> List[Tool]:
        """Returns every tool of the server with its parameters.

        >>> "bash" in [tool["name"] for tool in await client.tools()]
        True
        """
        found: List[Tool] = await self.http.pages("/tools")
        return found

    async def images(self) -> List[Image]:
        """Returns the imported images.

        >>> await client.images()
        []
        """
        found: List[Image] = await self.http.pages("/images")
        return found

    async def upload_blob(self, path: LocalPath) -> str:
        """Stores the bytes of a file and returns their hash.

        >>> _ = (tmp / "data").write_bytes(b"x")
        >>> (await client.upload_blob(tmp / "data")).startswith("sha256:")
        True
        """
        source = Path(path)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(source.stat().st_size)}
        blob: Blob = await self.http.json(
            "POST", "/blobs", content=file_content(source), headers=headers, patience=600
        )
        return blob["digest"]

    async def request(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """Sends any request of the HTTP API and returns the JSON of the answer.

        >>> (await client.request("GET", "/providers"))["items"][0]["name"]
        'memory'
        """
        return await self.http.json(method, path, body=body, params=params, creates=method == "POST")


_shared: MutableMapping[object, "tuple[int, AsyncClient]"] = weakref.WeakKeyDictionary()


def shared() -> AsyncClient:
    """Returns the client of sandboxes that were made without one. A forked process has its own."""
    key = scope()
    found = _shared.get(key)
    if found is None or found[0] != os.getpid():
        found = (os.getpid(), AsyncClient())
        _shared[key] = found
    return found[1]


def _texts(root: Path) -> Dict[str, str]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in files}
