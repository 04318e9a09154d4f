"""Commands of the program `stead` that the server has no route for."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Dict, List

from . import _embedded
from ._endpoint import Endpoint
from .errors import ConnectionFailed, SteadError


def run(endpoint: Endpoint, arguments: List[str], code: str) -> Dict[str, Any]:
    """Runs `stead --json` on the server and returns its answer. A failure is raised with `code`."""
    command = [_embedded.program(), "--json", *arguments]
    environment = {**os.environ, "STEAD_URL": endpoint.url, "STEAD_TOKEN": endpoint.token or ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise _failure(done, code)
    try:
        answer: Dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise ConnectionFailed(f"`stead {arguments[0]}` gave no answer", code=code) from error
    return answer


def _failure(done: "subprocess.CompletedProcess[str]", code: str) -> SteadError:
    """With `--json`, the program writes a problem to standard error."""
    try:
        problem = json.loads(done.stderr)
        return SteadError(str(problem["detail"]), code=code, hint=problem.get("hint"))
    except (ValueError, KeyError, TypeError):
        return SteadError(done.stderr.strip() or f"exit code {done.returncode}", code=code)
