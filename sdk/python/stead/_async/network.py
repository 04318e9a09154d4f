"""The network of a sandbox."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from .. import _program
from ..api_types import NetworkReport, Session
from .http import AsyncHttp, segment
from .loop import blocking

#: A host name, `service:NAME`, or a rule with details.
Rule = Union[str, Mapping[str, Any]]


class AsyncNetwork:
    """`box.network`: the hosts that the sandbox can reach, and those that it contacted."""

    def __init__(self, http: AsyncHttp, session: str) -> None:
        self._http = http
        self._session = session
        self._path = f"/sessions/{segment(session)}"

    async def report(self) -> NetworkReport:
        """Returns what the sandbox can reach, the hosts that it used with their bytes, and refused
        connections, each with the rule that would allow it.

        >>> (await box.network.report())["used"]
        []
        """
        report: NetworkReport = await self._http.json("GET", f"{self._path}/network")
        return report

    async def grant(self, allow: Sequence[Rule], seconds: int, *, phase: Optional[str] = None) -> Session:
        """Allows hosts for a time. The platform, the project and the task have to allow them too.
        Needs the token of an administrator.

        >>> async with await AsyncSandbox.create("fetcher") as fetcher:
        ...     session = await fetcher.network.grant(["new.example.com"], 600)
        ...     print([grant["host"] for grant in session["workspace"]["network"]["grants"]])
        ['new.example.com']
        """
        body: Dict[str, Any] = {"allow": list(allow), "ttl_seconds": seconds}
        if phase is not None:
            body["phase"] = phase
        session: Session = await self._http.json("POST", f"{self._path}/network:grant", body=body)
        return session

    async def narrow(self, deny: Sequence[Rule]) -> Session:
        """Takes hosts away until the sandbox is closed, and ends open connections to them.

        >>> async with await AsyncSandbox.create("fetcher") as fetcher:
        ...     _ = await fetcher.network.narrow(["api.example.com"])
        ...     print((await fetcher.network.report())["reachable"])
        []
        """
        session: Session = await self._http.json("POST", f"{self._path}/network:narrow", body={"deny": list(deny)})
        return session

    async def explain(self, host: str) -> List[Dict[str, Any]]:
        """Returns for each phase whether a connection to `HOST` or `HOST:PORT` is allowed, and what
        each layer of the policy says. It runs `stead explain network`.

        >>> async with await AsyncSandbox.create("fetcher") as fetcher:
        ...     for phase in await fetcher.network.explain("other.example.com"):
        ...         print(phase["phase"], phase["allowed"], phase["because"])
        setup False refused by the platform layer: not_allowed
        agent False refused by the agent_type layer: not_allowed
        """
        command = ["explain", "network", self._session, host]
        answer = await blocking(_program.run, await self._http.endpoint(), command, "not_explained")
        phases: List[Dict[str, Any]] = answer["phases"]
        return phases
