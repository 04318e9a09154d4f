"""Rules of retries. A request is sent again only if that cannot do a thing twice."""

from __future__ import annotations

import random
from typing import Mapping, Optional

_IDEMPOTENT = {"GET", "HEAD", "PUT", "DELETE"}
_FIRST_DELAY = 0.1
_MOST_DELAY = 5.0
_MOST_RETRY_AFTER = 30.0


def is_repeatable(method: str, headers: Mapping[str, str]) -> bool:
    """True if the same request again has the effect of one request.

    A conditional write is not: if its first answer is lost, the second fails.
    """
    if any(name in headers for name in ("If-Match", "If-None-Match")) and method != "GET":
        return False
    return method in _IDEMPOTENT or "Idempotency-Key" in headers


def may_retry_status(status: int, repeatable: bool) -> bool:
    """429 means that nothing was done. 503 may come in the middle of work."""
    return status == 429 or (status == 503 and repeatable)


def delay(attempt: int, retry_after: Optional[str] = None) -> float:
    """Seconds to wait before attempt `attempt + 1`, counted from 0."""
    backoff = min(_FIRST_DELAY * 2.0**attempt, _MOST_DELAY) * random.uniform(0.5, 1.0)
    try:
        asked = float(retry_after or 0)
    except ValueError:
        asked = 0.0
    return max(backoff, min(asked, _MOST_RETRY_AFTER))
