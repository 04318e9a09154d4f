"""Tools in the formats of model APIs, and the calls that models send."""

import json
from types import SimpleNamespace
from typing import Any, Dict

import pytest
from stead import AsyncSandbox, Client, Forbidden, Sandbox, SteadError


def test_every_format_has_names_and_schemas(box: Sandbox) -> None:
    openai, anthropic, mcp = (box.tools(format) for format in ("openai", "anthropic", "mcp"))
    names = [tool["name"] for tool in anthropic]
    assert {"bash", "read", "write", "edit", "grep"} <= set(names)
    assert [tool["function"]["name"] for tool in openai] == names == [tool["name"] for tool in mcp]
    for tool in anthropic:
        assert tool["input_schema"]["type"] == "object" and tool["description"]
    with pytest.raises(SteadError):
        box.tools("yaml")


def test_only_the_tools_of_the_agent_type_are_offered(client: Client) -> None:
    client.agent_types.put("only-read", workspace={"enabled": True, "provider": "memory", "tools": ["read", "ls"]})
    with Sandbox.create("only-read", client=client) as box:
        assert sorted(tool["name"] for tool in box.tools("mcp")) == ["ls", "read", "stat"]
        answer = box.call({"name": "write", "arguments": {"path": "a", "content": "b"}})
        assert answer["isError"] and "write" in answer["content"][0]["text"]
        with pytest.raises(Forbidden) as raised:
            box.tool("write", path="a", content="b")
        assert raised.value.code == "tool_not_enabled"


def calls(name: str, arguments: Dict[str, Any]) -> Dict[str, Any]:
    """One call as each vendor writes it."""
    text = json.dumps(arguments)
    function = {"name": name, "arguments": text}
    return {
        "openai": {"id": "c1", "type": "function", "function": function},
        "openai object": SimpleNamespace(id="c1", type="function", function=SimpleNamespace(**function)),
        "responses": {"type": "function_call", "call_id": "c1", "name": name, "arguments": text},
        "anthropic": {"type": "tool_use", "id": "c1", "name": name, "input": arguments},
        "anthropic object": SimpleNamespace(type="tool_use", id="c1", name=name, input=arguments),
        "langchain": {"name": name, "args": arguments, "id": "c1", "type": "tool_call"},
        "mcp": {"name": name, "arguments": arguments},
    }


def answered(answer: Dict[str, Any]) -> str:
    content = answer.get("content", answer.get("output"))
    return str(content if isinstance(content, str) else content[0]["text"])


def test_a_call_is_answered_in_the_format_of_its_vendor(box: Sandbox) -> None:
    box.files.write("a.txt", "needle\n")
    for vendor, call in calls("read", {"path": "a.txt"}).items():
        answer = box.call(call)
        assert json.loads(answered(answer))["content"].startswith("needle"), vendor
        assert "c1" in answer.values() or vendor == "mcp"


def test_the_model_is_told_what_it_did_wrong(box: Sandbox) -> None:
    for call in calls("read", {"path": "none.txt"}).values():
        assert "none.txt" in answered(box.call(call))
    for call in calls("read", {"pfad": "a.txt"}).values():
        assert "pfad" in answered(box.call(call))
    for call in calls("no_such_tool", {}).values():
        assert "no_such_tool" in answered(box.call(call))
    broken = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{path"}}
    assert "not JSON" in answered(box.call(broken))


def test_other_failures_are_raised(client: Client) -> None:
    box = Sandbox.create(client=client)
    box.close()
    with pytest.raises(SteadError):
        box.call({"name": "read", "arguments": {"path": "a"}})
    with pytest.raises(SteadError) as raised:
        box.call({"hello": "world"})
    assert raised.value.code == "invalid_tool_call"


def test_a_model_loop_is_ten_lines(box: Sandbox) -> None:
    replies = iter([calls("bash", {"command": "echo 42 > answer.txt"})["openai"], None])
    messages: "list[Dict[str, Any]]" = [{"role": "user", "content": "Write the answer to answer.txt"}]
    while True:
        call = next(replies)  # client.chat.completions.create(messages=messages, tools=box.tools())
        if call is None:
            break
        messages += [{"role": "assistant", "tool_calls": [call]}, box.call(call)]
    assert box.files.read("answer.txt") == "42\n"
    assert json.loads(messages[-1]["content"])["exit_code"] == 0


async def test_the_async_sandbox_answers_too(async_box: AsyncSandbox) -> None:
    call = calls("write", {"path": "a.txt", "content": "x"})["anthropic"]
    assert (await async_box.call(call))["is_error"] is False
    assert [tool["name"] for tool in await async_box.tools("anthropic")]
