"""Exceptions. Every failure of this package is a `SteadError`."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional


class SteadError(Exception):
    """A failure, with the stable code that programs compare.

    >>> try:
    ...     Sandbox.connect("ses_00000000000000000000000000")
    ... except SteadError as error:
    ...     print(error.code, error.status)
    not_found 404
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "failed",
        status: Optional[int] = None,
        hint: Optional[str] = None,
        request_id: Optional[str] = None,
        errors: Optional[List[Dict[str, Any]]] = None,
        parameters: Optional[Dict[str, Any]] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.hint = hint
        self.request_id = request_id
        self.errors = errors or []
        self.parameters = parameters or {}

    def __str__(self) -> str:
        fields = [f"{error.get('field')}: {error.get('message')}" for error in self.errors]
        parts = [self.message, *fields]
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        about = f"code {self.code}"
        if self.request_id:
            about += f", request {self.request_id}"
        return "\n".join(parts) + f" ({about})"


class ConnectionFailed(SteadError):
    """The server cannot be reached, or the connection ended before the answer was complete."""


class BadRequest(SteadError):
    """400, 413, 415 or 422: the server does not accept the request. `errors` names the fields."""


class Unauthorized(SteadError):
    """401: the token is missing or not valid."""


class Forbidden(SteadError):
    """403: the token or the session may not do this."""


class NotFound(SteadError):
    """404: the session, file or other resource does not exist."""


class Conflict(SteadError):
    """409 or 412: the state of the resource does not allow this, such as a closed session."""


class TooManyRequests(SteadError):
    """429: a limit was still reached after all retries."""


class ServerError(SteadError):
    """5xx: the server could not do it, also after all retries."""


class ProvisioningFailed(SteadError):
    """The sandbox has no workspace. `code` and the message say why."""


class CommandFailed(SteadError):
    """A command had no exit code, or `check=True` and another exit code than 0.

    `result` is the result of a command that ended.
    """

    def __init__(self, message: str, *, code: str, result: Any = None) -> None:
        super().__init__(message, code=code)
        self.result = result


class VerificationFailed(SteadError):
    """The replay of a journal differs from the live state."""


_BY_STATUS = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: BadRequest,
    415: BadRequest,
    422: BadRequest,
    429: TooManyRequests,
}


def from_response(status: int, body: bytes, request_id: Optional[str]) -> SteadError:
    """Returns the exception for an RFC 9457 problem."""
    try:
        problem: Any = json.loads(body)
    except ValueError:
        problem = None
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else SteadError)
    if not isinstance(problem, dict):
        text = f"the server answered with status {status}, and not as a Stead server does"
        return kind(text, code="unexpected_answer", status=status, request_id=request_id)
    return kind(
        str(problem.get("detail") or problem.get("title") or f"status {status}"),
        code=str(problem.get("code") or "failed"),
        status=status,
        hint=problem.get("hint"),
        request_id=request_id,
        errors=problem.get("errors"),
        parameters=problem.get("parameters"),
    )
