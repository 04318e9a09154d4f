"""The MCP server whose tools the conformance runner calls by name, through a session's bindings: one JSON-RPC message per line."""
import json
import sys
import time

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="


def text(said):
    return {"type": "text", "text": said}


def resource(uri, kind, said):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}
ANSWERS = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [AUDIO],
    "test_embedded_resource": [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        resource("test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}'),
    ],
    "test_error_handling": [text("This tool intentionally returns an error for testing")],
    "test_tool_with_logging": [text("It logged.")],
    "test_tool_with_progress": [text("It took a while.")],
    "test_reconnection": [text("Reconnection test completed successfully")],
    "json_schema_2020_12_tool": [text("Done.")],
}


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(message):
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        named = {"name": "conformance", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": named}
    name = message["params"]["name"]
    if name == "test_tool_with_progress":
        token = message["params"]["_meta"]["progressToken"]
        for progress in [0, 50, 100]:
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": progress, "total": 100}})
            time.sleep(0.05)
    if name == "test_tool_with_logging":
        for said in ["Tool execution started", "Tool processing data", "Tool execution completed"]:
            say({"method": "notifications/message", "params": {"level": "info", "data": said}})
            time.sleep(0.05)
    return {"content": ANSWERS[name], "isError": name == "test_error_handling"}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        say({"id": message["id"], "result": answer(message)})
