"""Secrets and kept setup results: what belongs to a project or to the server."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ..api_types import Secret, SetupResult
from .http import AsyncHttp, segment


class AsyncSecrets:
    """`client.secrets`: values that sandboxes may use and may not see. `project` names the owner;
    without it, the owner is the project of the token, or the platform."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def set(
        self,
        name: str,
        value: str,
        hosts: Sequence[str],
        *,
        agent_types: Sequence[str] = (),
        header: Optional[str] = None,
        as_: Optional[str] = None,
        over_http: bool = False,
        project: Optional[str] = None,
    ) -> Secret:
        """Stores a secret, or replaces it. The server never shows the value again. `hosts` may
        receive it, and sandboxes of `agent_types` (`*` for every one) may use it. It is sent in
        `header` (`authorization`), in the form `as_` (`Bearer {}`).

        >>> secret = await client.secrets.set("model-api", "sk-example", ["api.example.com"], agent_types=["*"])
        >>> secret["hosts"], "value" in secret
        (['api.example.com'], False)
        >>> async with await AsyncSandbox.create(env={"API_KEY": {"secret": "model-api"}}) as box:
        ...     print((await box.commands.run("echo $API_KEY")).stdout[:9])
        stead-ph-
        """
        body: Dict[str, Any] = {"value": value, "hosts": list(hosts), "agent_types": list(agent_types)}
        body.update({"over_http": over_http, "header": header, "as": as_})
        stored: Secret = await self._http.json(
            "PUT", f"/secrets/{segment(name)}", body=body, params={"project": project}
        )
        return stored

    async def list(self, *, project: Optional[str] = None) -> List[Secret]:
        """Returns the secrets without their values.

        >>> _ = await client.secrets.set("listed", "sk-example", ["api.example.com"])
        >>> "listed" in [secret["name"] for secret in await client.secrets.list()]
        True
        """
        found: List[Secret] = await self._http.pages("/secrets", {"project": project})
        return found

    async def get(self, name: str, *, project: Optional[str] = None) -> Secret:
        """Returns a secret without its value.

        >>> _ = await client.secrets.set("known", "sk-example", ["api.example.com"])
        >>> (await client.secrets.get("known"))["usable"]
        True
        """
        found: Secret = await self._http.json("GET", f"/secrets/{segment(name)}", params={"project": project})
        return found

    async def remove(self, name: str, *, project: Optional[str] = None) -> None:
        """Removes a secret.

        >>> _ = await client.secrets.set("short-lived", "sk-example", ["api.example.com"])
        >>> await client.secrets.remove("short-lived")
        """
        await self._http.request("DELETE", f"/secrets/{segment(name)}", params={"project": project})


class AsyncSetupResults:
    """`client.setup_results`: files that setup commands wrote, kept for later sandboxes of agent
    types with `setup_cache`."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def list(self) -> List[SetupResult]:
        """Returns the kept results, the most recently used first.

        >>> workspace = {"enabled": True, "setup_commands": ["date > built.txt"], "setup_cache": True}
        >>> _ = await client.agent_types.put("builder", workspace={**workspace, "workspace_policy": "empty"})
        >>> async with await AsyncSandbox.create("builder"):
        ...     print((await client.setup_results.list())[0]["commands"])
        ['date > built.txt']
        """
        found: List[SetupResult] = await self._http.pages("/setup-results")
        return found

    async def remove(self, id: str) -> None:
        """Removes a result. Its files stay while a sandbox uses them.

        >>> for result in await client.setup_results.list():
        ...     await client.setup_results.remove(result["id"])
        >>> await client.setup_results.list()
        []
        """
        await self._http.request("DELETE", f"/setup-results/{segment(id)}")
