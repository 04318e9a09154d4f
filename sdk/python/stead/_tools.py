"""Tools and tool calls in the formats of model APIs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, cast

from .api_types import Tool, ToolAnswer
from .errors import BadRequest, Forbidden, NotFound, SteadError

FORMATS = ("openai", "anthropic", "langchain", "mcp")


def offered(tools: List[Tool], enabled: List[str]) -> List[Tool]:
    return [tool for tool in tools if tool["name"] in enabled]


def in_format(tool: Tool, format: str) -> Dict[str, Any]:
    name, description, parameters = tool["name"], tool["description"], tool["parameters"]
    if format == "openai":
        function = {"name": name, "description": description, "parameters": parameters}
        return {"type": "function", "function": function}
    if format == "anthropic":
        return {"name": name, "description": description, "input_schema": parameters}
    if format == "mcp":
        return {"name": name, "description": description, "inputSchema": parameters}
    raise SteadError(f"{format!r} is not one of {', '.join(FORMATS)}", code="invalid_format")


@dataclass(frozen=True)
class ToolCall:
    """A tool call of a model, and the format that its answer must have."""

    name: str
    arguments: Dict[str, Any]
    id: Optional[str]
    format: str
    problem: Optional[str] = None


def _field(call: Any, name: str) -> Any:
    return call.get(name) if isinstance(call, Mapping) else getattr(call, name, None)


def read_call(call: Any) -> ToolCall:
    """Reads a tool call of OpenAI (chat or responses), Anthropic, LangChain or MCP, as a dict or as
    an object of the vendor's package. Models write arguments that are no JSON: the model is told."""
    function = _field(call, "function")
    if function is not None:
        return _parsed(_field(function, "name"), _field(function, "arguments"), _field(call, "id"), "openai")
    kind, name = _field(call, "type"), _field(call, "name")
    if kind == "function_call":
        return _parsed(name, _field(call, "arguments"), _field(call, "call_id"), "responses")
    if kind == "tool_use":
        return _parsed(name, _field(call, "input"), _field(call, "id"), "anthropic")
    if _field(call, "args") is not None:
        return _parsed(name, _field(call, "args"), _field(call, "id"), "langchain")
    if name is not None:
        return _parsed(name, _field(call, "arguments"), None, "mcp")
    raise SteadError(
        "this is no tool call",
        code="invalid_tool_call",
        hint="pass a tool call of OpenAI, Anthropic, LangChain or MCP, as a dict or as an object",
    )


def _parsed(name: Any, arguments: Any, id: Any, format: str) -> ToolCall:
    problem = None
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError as error:
            problem = f"the arguments are not JSON: {error}"
            arguments = {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        problem = "the arguments are not a JSON object"
        arguments = {}
    return ToolCall(str(name), cast(Dict[str, Any], arguments), None if id is None else str(id), format, problem)


def is_for_the_model(error: SteadError) -> bool:
    """True if the model caused the refusal and can do better: an unknown tool, arguments that are
    not valid, a tool that the session may not use."""
    if isinstance(error, BadRequest):
        return True
    if isinstance(error, Forbidden):
        return error.code == "tool_not_enabled"
    return isinstance(error, NotFound) and error.parameters.get("resource") == "tool"


def answer_text(answer: ToolAnswer) -> str:
    """Returns what the model reads: the result as JSON, or the message of a failure."""
    if answer["ok"]:
        result = answer.get("result")
        return json.dumps(result, ensure_ascii=False) if result is not None else answer["message"]
    failure = answer.get("error")
    if failure is None:
        return answer["message"]
    hint = failure.get("hint")
    return failure["message"] + (f"\n{hint}" if hint else "")


def refusal_text(error: SteadError) -> str:
    fields = [f"{one.get('field')}: {one.get('message')}" for one in error.errors]
    return "\n".join([error.message, *fields, *([error.hint] if error.hint else [])])


def answer_message(call: ToolCall, text: str, ok: bool) -> Dict[str, Any]:
    """Returns the answer as the message that the vendor's API takes next."""
    if call.format == "anthropic":
        return {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": not ok}
    if call.format == "responses":
        return {"type": "function_call_output", "call_id": call.id, "output": text}
    if call.format == "mcp":
        return {"content": [{"type": "text", "text": text}], "isError": not ok}
    if call.format == "langchain":
        status = "success" if ok else "error"
        return {"type": "tool", "role": "tool", "tool_call_id": call.id, "content": text, "status": status}
    return {"role": "tool", "tool_call_id": call.id, "content": text}
