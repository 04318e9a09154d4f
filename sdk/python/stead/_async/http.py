"""Requests to the server: retries, errors, pages and streams."""

from __future__ import annotations

import json
import ssl
import uuid
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional
from urllib.parse import quote

import httpx

from .. import _endpoint, _retry
from .._sse import EventParser, ServerEvent
from .._version import VERSION
from ..errors import ConnectionFailed, from_response
from .loop import blocking, sleep

_CONNECT = 5.0
_ANSWER = 60.0
# The server sends a heartbeat every 15 seconds.
_SILENCE = 45.0


def segment(text: str) -> str:
    """Returns the text as one segment of a path."""
    return quote(text, safe="")


class AsyncHttp:
    """A connection pool to one server."""

    def __init__(self, url: Optional[str], token: Optional[str], retries: int) -> None:
        self._url = url
        self._token = token
        self._retries = retries
        self._endpoint: Optional[_endpoint.Endpoint] = None
        self._pool: Optional[httpx.AsyncClient] = None

    async def endpoint(self) -> _endpoint.Endpoint:
        if self._endpoint is None:
            self._endpoint = await blocking(_endpoint.resolve, self._url, self._token)
        return self._endpoint

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()
            self._pool = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Optional[Mapping[str, Any]] = None,
        content: Any = None,
        headers: Optional[Mapping[str, str]] = None,
        creates: bool = False,
        patience: float = 0.0,
    ) -> httpx.Response:
        """Sends a request and returns the whole answer, or raises. `creates` sends an idempotency
        key; `patience` is the time in seconds for which the server may hold the answer."""
        sent = dict(headers or {})
        if body is not None:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        if creates:
            sent["Idempotency-Key"] = uuid.uuid4().hex
        # A file that was read in part cannot be sent again.
        repeatable = _retry.is_repeatable(method, sent) and (content is None or isinstance(content, bytes))
        attempt = 0
        while True:
            attempt += 1
            try:
                pool, url = await self._connection()
                response = await pool.request(
                    method,
                    f"{url}/api/v1{path}",
                    params=_params(params),
                    content=content,
                    headers={**sent, **self._authorization()},
                    timeout=httpx.Timeout(_ANSWER + patience, connect=_CONNECT, pool=None),
                )
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if attempt > self._retries:
                    raise self._lost(error) from error
                await self._find_again()
            except httpx.TransportError as error:
                if attempt > self._retries or not repeatable:
                    raise self._lost(error) from error
            else:
                if response.status_code < 400:
                    return response
                again = _retry.may_retry_status(response.status_code, repeatable)
                if attempt > self._retries or not again:
                    raise _refusal(response)
                await sleep(_retry.delay(attempt - 1, response.headers.get("Retry-After")))
                continue
            await sleep(_retry.delay(attempt - 1))

    async def json(self, method: str, path: str, **options: Any) -> Any:
        """Sends a request and returns the JSON of the answer; `None` without a body."""
        response = await self.request(method, path, **options)
        return response.json() if response.content else None

    async def pages(self, path: str, params: Optional[Mapping[str, Any]] = None) -> List[Any]:
        """Returns the items of all pages of a list."""
        items: List[Any] = []
        query: Dict[str, Any] = dict(params or {})
        while True:
            page = await self.json("GET", path, params=query, headers={"Accept": "application/json"})
            items.extend(page["items"])
            if page.get("next_cursor") is None:
                return items
            query["cursor"] = page["next_cursor"]
            # The server takes one of the two.
            query.pop("after", None)

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Optional[Mapping[str, Any]] = None, headers: Optional[Mapping[str, str]] = None
    ) -> AsyncIterator[httpx.Response]:
        """Opens an answer whose body the caller reads in pieces."""
        pool, url = await self._connection()
        request = pool.build_request(
            "GET",
            f"{url}/api/v1{path}",
            params=_params(params),
            headers={**(headers or {}), **self._authorization()},
            timeout=httpx.Timeout(_SILENCE, connect=_CONNECT, pool=None),
        )
        try:
            response = await pool.send(request, stream=True)
        except httpx.TransportError as error:
            raise self._lost(error) from error
        try:
            if response.status_code >= 400:
                await response.aread()
                raise _refusal(response)
            yield response
        finally:
            await response.aclose()

    async def pass_on(
        self, method: str, path: str, *, content: Any, headers: Mapping[str, str], timeout: float
    ) -> httpx.Response:
        """Sends a request once to a program in a box and returns its answer, whatever the status is.
        A refusal of the server is raised."""
        pool, url = await self._connection()
        sent = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        try:
            response = await pool.request(
                method,
                f"{url}/api/v1{path}",
                content=content,
                headers={**sent, **self._authorization()},
                timeout=httpx.Timeout(timeout, connect=_CONNECT, pool=None),
            )
        except httpx.TransportError as error:
            raise self._lost(error) from error
        # The server sets this header on every answer of a program, and on none of its own.
        if response.status_code >= 400 and "cross-origin-resource-policy" not in response.headers:
            raise _refusal(response)
        return response

    async def upgrade(self, path: str, protocol: str) -> "tuple[httpx.Response, Any]":
        """Upgrades a connection. Returns the response, which the caller closes, and the stream."""
        pool, url = await self._connection()
        request = pool.build_request(
            "GET",
            f"{url}/api/v1{path}",
            headers={"Connection": "upgrade", "Upgrade": protocol, **self._authorization()},
            timeout=httpx.Timeout(_ANSWER, connect=_CONNECT, pool=None),
        )
        try:
            response = await pool.send(request, stream=True)
            if response.status_code == 101:
                return response, response.extensions["network_stream"]
            await response.aread()
        except httpx.TransportError as error:
            raise self._lost(error) from error
        raise _refusal(response)

    async def events(self, path: str, after: int) -> AsyncIterator[ServerEvent]:
        """Yields the events of a stream. After a lost connection it continues behind the last one.
        It ends when the server ends the stream in order and nothing new was sent."""
        failures = 0
        while True:
            last = after
            try:
                accept = {"Accept": "text/event-stream"}
                async with self.stream(path, params={"after": after or None}, headers=accept) as response:
                    parser = EventParser()
                    async for data in response.aiter_bytes():
                        for event in parser.feed(data):
                            failures = 0
                            yield event
                            if event.id is not None:
                                after = int(event.id)
            except httpx.TransportError as error:
                failures += 1
                if failures > self._retries:
                    raise self._lost(error) from error
            except ConnectionFailed:
                failures += 1
                if failures > self._retries:
                    raise
                await self._find_again()
            else:
                if after == last:
                    failures += 1
                    if failures > self._retries:
                        return
            await sleep(_retry.delay(failures))

    async def _connection(self) -> "tuple[httpx.AsyncClient, str]":
        endpoint = await self.endpoint()
        if self._pool is None:
            # Loading the certificates of the system takes longer than a whole session.
            plain = endpoint.url.startswith("http://")
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else ssl.create_default_context()
            self._pool = httpx.AsyncClient(
                verify=verify,
                # A redirect would send the token to another server.
                follow_redirects=False,
                # Loopback traffic must not go to a proxy.
                trust_env=not plain,
                headers={"User-Agent": f"stead-python/{VERSION}"},
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=128),
            )
        return self._pool, endpoint.url

    def _authorization(self) -> Dict[str, str]:
        token = self._endpoint.token if self._endpoint else None
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def _find_again(self) -> None:
        """The server of the home may have been started by a process that has ended."""
        if self._endpoint is not None and self._endpoint.origin is _endpoint.Origin.HOME:
            self._endpoint = await blocking(_endpoint.of_home, self._token)

    def _lost(self, error: Exception) -> ConnectionFailed:
        url = self._endpoint.url if self._endpoint else self._url
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            hint = "start it with `stead up`, or set STEAD_URL"
            return ConnectionFailed(f"no Stead server answers at {url}: {error}", code="unreachable", hint=hint)
        message = f"the connection to {url} was lost before the answer was complete: {error or type(error).__name__}"
        return ConnectionFailed(message, code="connection_lost")


def _params(params: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    """Leaves out what is not set. Booleans are written as in JSON."""
    written = {True: "true", False: "false"}
    given = {name: value for name, value in (params or {}).items() if value is not None}
    return {name: written[value] if isinstance(value, bool) else str(value) for name, value in given.items()}


def _refusal(response: httpx.Response) -> Exception:
    return from_response(response.status_code, response.content, response.headers.get("x-request-id"))
