"""Tools of a sandbox as LangChain tools."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List

from ..api_types import Tool


def structured_tools(box: Any, tools: List[Tool]) -> List[Any]:
    """Returns LangChain tools that call the sandbox, which is a `Sandbox` or an `AsyncSandbox`."""
    from langchain_core.tools import StructuredTool

    is_async = inspect.iscoroutinefunction(box.call)
    made: List[Any] = []
    for tool in tools:
        options: Dict[str, Any] = {"coroutine" if is_async else "func": _caller(box, tool["name"], is_async)}
        made.append(
            StructuredTool(
                name=tool["name"], description=tool["description"], args_schema=tool["parameters"], **options
            )
        )
    return made


def _caller(box: Any, name: str, is_async: bool) -> Callable[..., Any]:
    async def call_async(**arguments: Any) -> str:
        answer = await box.call({"name": name, "args": arguments, "id": None})
        return str(answer["content"])

    def call(**arguments: Any) -> str:
        return str(box.call({"name": name, "args": arguments, "id": None})["content"])

    return call_async if is_async else call
