"""Model requests that Stead makes, judged by the vendors' own published types.

Drives a running server (STEAD_URL, STEAD_TOKEN): content with texts, an image, dotted tool names and every option; a run with tool calls and
results; one step per shape. Each request must be what `anthropic` and `openai` declare, with no field they do not know.
"""

import base64
import json
import os
import struct
import sys
import tarfile
import io
import urllib.error
import urllib.request
import zlib

from pydantic import TypeAdapter
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

URL, TOKEN = os.environ["STEAD_URL"], os.environ["STEAD_TOKEN"]


def call(method, path, body=None, raw=None):
    data = raw if raw is not None else (None if body is None else json.dumps(body).encode())
    kind = "application/octet-stream" if raw is not None else "application/json"
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
    request = urllib.request.Request(f"{URL}/api/v1{path}", data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")


def png():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")


def content():
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    answer = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"], "additionalProperties": False}
    files = {
        "agent.workspace.json": {
            "schema_version": 1,
            "prompt_packs": {"default": "pack.json"},
            "tool_catalogs": {"default": "tools.json"},
            "defaults": {"prompt_pack": "default", "tool_catalog": "default"},
        },
        "pack.json": {
            "templates": ["system.md", "few-shot.json"],
            "context": ["context/a.md", "context/dot.png"],
            "options": {"max_tokens": 100, "stop": ["END"]},
            "response_format": {"type": "json_schema", "name": "answer", "schema": answer},
        },
        "system.md": "Be kind.",
        "few-shot.json": [{"role": "user", "content": "ping"}, {"role": "assistant", "content": "pong"}],
        "context/a.md": "Some context.",
        "context/dot.png": png(),
        "tools.json": [
            {"name": "workspace.read", "description": "Reads.", "parameters": schema},
            {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}},
        ],
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, value in files.items():
            data = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def plain(value):
    """Lazy iterables of pydantic as lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return value
    return [plain(item) for item in value]


def judge(vendor, kind, request):
    read = plain(kind.validate_python(request))
    # What a type does not know is dropped while reading: then it is not the same any more.
    if read != request:
        sys.exit(f"{vendor}: some field is not in its types:\n{json.dumps(request, indent=1)}\n{json.dumps(read, indent=1)}")


# Kept: iterables are read lazily, and need their adapter until then.
VENDORS = {
    "anthropic": TypeAdapter(MessageCreateParamsNonStreaming),
    "openai": TypeAdapter(CompletionCreateParamsNonStreaming),
}


def main():
    call("POST", "/content/vendors/versions", raw=content())
    call("POST", "/agent-types", {"id": "vendors", "content": {"workspace": "vendors"}})
    session = call("POST", "/sessions?wait=10", {"agent_type": "vendors"})["id"]
    image = {"type": "image", "media_type": "image/png", "data": base64.b64encode(png()).decode()}
    said = [
        {"role": "assistant", "content": "Let me look.", "tool_calls": [
            {"id": "c1", "name": "workspace.read", "arguments": {"path": "a"}}, {"id": "c2", "name": "look"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "text"},
        {"role": "tool", "tool_call_id": "c2", "content": "it failed", "is_error": True},
        {"role": "user", "content": [{"type": "text", "text": "and this?"}, image]},
        {"role": "assistant", "tool_calls": [{"id": "c3", "name": "look"}]},
        {"role": "tool", "tool_call_id": "c3", "content": "done"},
    ]
    options = [
        {},
        {"temperature": 0.5, "top_p": 1, "reasoning_effort": "low", "tool_choice": "auto"},
        {"tool_choice": "none"},
        {"tool_choice": "required", "response_format": {"type": "text"}},
        {"tool_choice": {"name": "workspace.read"}},
        {"tool_catalog": "anthropic"},
        {"tool_catalog": "stead"},
        {"tool_catalog": "wink"},
        {"tool_catalog": "openai"},
        {"tool_catalog": "mcp-filesystem"},
    ]
    run = call("POST", f"/sessions/{session}/runs", {"provider": "p", "model": "m", "input": "hello"})["id"]
    judged = 0
    for number, option in enumerate(options):
        body = dict(option, messages=said if number == 0 else [])
        step = call("POST", f"/sessions/{session}/runs/{run}/steps", body)["step"]
        for vendor, kind in VENDORS.items():
            taken = call("GET", f"/sessions/{session}/runs/{run}/steps/{step}?format={vendor}")
            judge(vendor, kind, taken["request"])
            judged += 1
    for vendor, kind in VENDORS.items():
        try:
            judge(vendor, kind, {"model": "m", "messages": [{"role": "user", "content": [{"type": "txt"}]}], "max_tokens": 1})
        except Exception:
            continue
        sys.exit(f"{vendor}: this check cannot fail")
    print(f"{judged} requests are what the vendors' types say")


main()
