"""Runs: model requests that the server makes from versioned content, and their tool calls."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..api_types import BoundAnswer, Step
from ..api_types import Run as RunInfo
from .http import AsyncHttp, segment


class AsyncRun:
    """A run with a fixed provider and model."""

    def __init__(self, http: AsyncHttp, session: str, run: RunInfo) -> None:
        self._http = http
        self._path = f"/sessions/{segment(session)}/runs/{segment(run['id'])}"
        self.id = run["id"]
        self.info = run

    async def refresh(self) -> RunInfo:
        """Reads the run again.

        >>> run = await box.runs.start(provider="acme", model="m1", input="hello")
        >>> (await run.refresh())["status"]
        'running'
        """
        self.info = await self._http.json("GET", self._path)
        return self.info

    async def step(
        self, messages: Sequence[Mapping[str, Any]] = (), *, format: str = "neutral", **options: Any
    ) -> Step:
        """Starts the next step. `messages` is what was said since the last one. `request` of the
        answer is the request for the model, as `neutral`, `anthropic` or `openai`.

        >>> run = await box.runs.start(provider="acme", model="m1", input="hello")
        >>> step = await run.step(format="openai")
        >>> step["step"], step["request"]["model"]
        (1, 'm1')
        """
        body: Dict[str, Any] = {"messages": [dict(message) for message in messages], **options}
        step: Step = await self._http.json(
            "POST", f"{self._path}/steps", body=body, params={"format": format}, creates=True
        )
        return step

    async def call(
        self, name: str, arguments: Optional[Mapping[str, Any]] = None, *, call_id: Optional[str] = None
    ) -> BoundAnswer:
        """Calls a tool that the run's catalog has.

        >>> run = await box.runs.start(provider="acme", model="m1", input="hi", tool_catalog="stead")
        >>> _ = await run.step()
        >>> answer = await run.call("write", {"path": "a.txt", "content": "x"})
        >>> answer["ok"]
        True
        """
        body: Dict[str, Any] = {"name": name, "arguments": dict(arguments or {})}
        if call_id is not None:
            body["call_id"] = call_id
        answer: BoundAnswer = await self._http.json("POST", f"{self._path}/tool-calls", body=body, patience=600)
        return answer

    async def complete(self, detail: Optional[str] = None) -> RunInfo:
        """Ends the run as completed.

        >>> run = await box.runs.start(provider="acme", model="m1")
        >>> (await run.complete())["status"]
        'completed'
        """
        return await self._end("complete", {} if detail is None else {"detail": detail})

    async def fail(self, code: str, detail: Optional[str] = None) -> RunInfo:
        """Ends the run as failed.

        >>> run = await box.runs.start(provider="acme", model="m1")
        >>> (await run.fail("model_error"))["status"]
        'failed'
        """
        return await self._end("fail", {"code": code, **({} if detail is None else {"detail": detail})})

    async def cancel(self, reason: Optional[str] = None) -> RunInfo:
        """Ends the run as cancelled.

        >>> run = await box.runs.start(provider="acme", model="m1")
        >>> (await run.cancel())["status"]
        'cancelled'
        """
        return await self._end("cancel", {} if reason is None else {"reason": reason})

    async def _end(self, how: str, body: Dict[str, Any]) -> RunInfo:
        self.info = await self._http.json("POST", f"{self._path}/{how}", body=body)
        return self.info


class AsyncRuns:
    """`box.runs`: units of agent work with a provider and a model."""

    def __init__(self, http: AsyncHttp, session: str) -> None:
        self._http = http
        self._session = session
        self._path = f"/sessions/{segment(session)}/runs"

    async def start(self, provider: Optional[str] = None, model: Optional[str] = None, **options: Any) -> AsyncRun:
        """Starts a run. Options are `input`, `prompt_pack`, `tool_catalog`, `max_tokens`,
        `temperature` and the other fields of a run request.

        >>> run = await box.runs.start(provider="acme", model="m1", input="hello", max_tokens=100)
        >>> run.info["model"]
        'm1'
        """
        given = {"provider": provider, "model": model, **options}
        body = {name: value for name, value in given.items() if value is not None}
        return AsyncRun(self._http, self._session, await self._http.json("POST", self._path, body=body, creates=True))

    async def list(self) -> List[RunInfo]:
        """Returns the runs of the session.

        >>> _ = await box.runs.start(provider="acme", model="m1")
        >>> [run["model"] for run in await box.runs.list()]
        ['m1']
        """
        found: List[RunInfo] = await self._http.pages(self._path)
        return found
