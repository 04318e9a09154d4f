"""The official Python client of the Model Context Protocol against a Stead server.

Usage: mcp_client.py http URL      (the session token is read from STEAD_TOKEN)
       mcp_client.py stdio STEAD SESSION

Both the current and the previous protocol revision do the same things; every assertion is about what an agent would see.
"""

import asyncio
import logging
import os
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


async def use(client, name):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert "bash" in tools and "read" in tools, sorted(tools)
    assert "rm" not in tools, "a tool that is not enabled is not listed"
    assert tools["read"].annotations.read_only_hint is True
    assert tools["bash"].annotations.destructive_hint is True
    assert tools["write"].input_schema["type"] == "object"

    written = await client.call_tool("write", {"path": f"{name}.txt", "content": "one\ntwo\n"})
    assert not written.is_error, written
    assert written.structured_content["bytes"] == 8, written
    read = await client.call_tool("read", {"path": f"{name}.txt"})
    assert read.content[0].text.startswith("one\ntwo\n"), read
    ran = await client.call_tool("bash", {"command": f"wc -l < {name}.txt; exit 3"})
    assert not ran.is_error and ran.structured_content["exit_code"] == 3, ran

    missing = await client.call_tool("read", {"path": "no/such"})
    assert missing.is_error and missing.structured_content["code"] == "not_found", missing
    refused = await client.call_tool("rm", {"path": f"{name}.txt"})
    assert refused.is_error, refused
    assert refused.content[0].text == "Tool 'rm' is not enabled for this agent type", refused
    try:
        unknown = await client.call_tool("no_such_tool", {})
        raise AssertionError(f"an unknown tool answered: {unknown}")
    except MCPError as error:
        assert "no_such_tool" in str(error), error

    seen, enough = [], asyncio.Event()

    async def progress(progress, total, message):
        seen.append(progress)
        if len(seen) >= 2:
            enough.set()

    # The command runs until the second report has arrived, however busy the machine is.
    waiting = {"command": f"while ! test -e {name}.seen; do sleep 0.2; done", "timeout": 60}
    call = asyncio.create_task(client.call_tool("bash", waiting, progress_callback=progress))
    await asyncio.wait_for(enough.wait(), 60)
    await client.call_tool("write", {"path": f"{name}.seen", "content": ""})
    await call
    assert seen == sorted(seen), seen

    uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
    assert f"stead://workspace/{name}.txt" in uris and "stead://diff" in uris, uris
    contents = await client.read_resource(f"stead://workspace/{name}.txt")
    assert contents.contents[0].text == "one\ntwo\n", contents
    diff = await client.read_resource("stead://diff")
    assert f"+++ b/{name}.txt" in diff.contents[0].text, diff
    templates = (await client.list_resource_templates()).resource_templates
    assert templates[0].uri_template == "stead://workspace/{+path}", templates


async def cancel(client, name):
    """A call that is cancelled ends, with every process it started."""
    started = f"started-{name}"
    call = asyncio.create_task(
        client.call_tool("bash", {"command": f"touch {started}; (setsid sleep 98765 &); sleep 98765", "timeout": 60})
    )
    for _ in range(100):
        await asyncio.sleep(0.05)
        seen = await client.call_tool("bash", {"command": f"ls {started}"})
        if seen.structured_content["exit_code"] == 0:
            break
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        pass
    for _ in range(100):
        await asyncio.sleep(0.05)
        alive = await client.call_tool("bash", {"command": "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep [9]8765' "})
        if alive.structured_content["stdout"].strip() == "0":
            return
    raise AssertionError(f"processes of a cancelled call are alive: {alive}")


class Heard(logging.Handler):
    """Keeps what the client warns about."""

    said = []

    def emit(self, record):
        self.said.append(record.getMessage())


async def over_http(url):
    logging.getLogger("mcp").addHandler(Heard(logging.WARNING))
    headers = {"Authorization": f"Bearer {os.environ['STEAD_TOKEN']}"}
    for name, mode in (("current", "auto"), ("previous", "legacy")):
        async with create_mcp_http_client(headers=headers) as http:
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                await use(client, f"http-{name}")
                await cancel(client, f"http-{name}")
                print(f"http {name}: ok ({client.session.protocol_version})")
    ended = [said for said in Heard.said if "terminat" in said.lower()]
    assert not ended, f"the client takes the end of its session for a failure: {ended}"


async def over_stdio(stead, session):
    for name, mode in (("current", "auto"), ("previous", "legacy")):
        server = StdioServerParameters(
            command=stead, args=["mcp", "--session", session], env=dict(os.environ)
        )
        async with Client(stdio_client(server), mode=mode) as client:
            await use(client, f"stdio-{name}")
            await cancel(client, f"stdio-{name}")
            print(f"stdio {name}: ok ({client.session.protocol_version})")


if sys.argv[1] == "http":
    asyncio.run(over_http(sys.argv[2]))
else:
    asyncio.run(over_stdio(sys.argv[2], sys.argv[3]))
